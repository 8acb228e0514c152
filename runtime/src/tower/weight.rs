//! How much of a semaphore a request takes.

use std::error::Error;
use std::sync::Arc;

use http::request::Parts;

use super::key::KeyError;

/// The function that says the weight of a request.
pub(super) type Weight = Arc<dyn Fn(&Parts) -> Result<u32, KeyError> + Send + Sync>;

/// The return value of a function for [`weight_by`](super::LockLayer::weight_by): a `u32`, or
/// a `Result` of one.
///
/// # Examples
///
/// ```
/// use leasehold::tower::MaybeWeight;
///
/// assert_eq!(3.maybe_weight().unwrap(), 3);
/// assert!("a lot".parse::<u32>().maybe_weight().is_err());
/// ```
#[diagnostic::on_unimplemented(
    message = "a function for `weight_by` cannot return `{Self}`",
    label = "not a weight",
    note = "return `u32` or `Result<u32, E>`"
)]
pub trait MaybeWeight {
    /// The weight of a request.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if the request does not say it.
    fn maybe_weight(self) -> Result<u32, KeyError>;
}

impl MaybeWeight for u32 {
    fn maybe_weight(self) -> Result<u32, KeyError> {
        Ok(self)
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> MaybeWeight for Result<u32, E> {
    fn maybe_weight(self) -> Result<u32, KeyError> {
        self.map_err(KeyError::new)
    }
}
