//! Numbers that a request says: how much of a semaphore it takes, and which limit holds for it.

use std::error::Error;
use std::sync::Arc;

use http::request::Parts;

use super::key::KeyError;

/// The function that says a number of a request. `None` is the default.
pub(super) type Number = Arc<dyn Fn(&Parts) -> Result<Option<u32>, KeyError> + Send + Sync>;

/// The return value of a function for [`weight_by`](super::LockLayer::weight_by) or
/// [`limit_by`](super::LockLayer::limit_by): a `u32`, an `Option` of one, or a `Result` of either.
///
/// # Examples
///
/// ```
/// use leasehold::layer::MaybeNumber;
///
/// assert_eq!(3.maybe_number().unwrap(), Some(3));
/// assert_eq!(None::<u32>.maybe_number().unwrap(), None); // the default
/// assert!("a lot".parse::<u32>().maybe_number().is_err());
/// ```
#[diagnostic::on_unimplemented(
    message = "a function for `weight_by` or `limit_by` cannot return `{Self}`",
    label = "not a number",
    note = "return `u32`, `Option<u32>`, or a `Result` of either"
)]
pub trait MaybeNumber {
    /// The number, or `None` for the default.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if the request does not say it.
    fn maybe_number(self) -> Result<Option<u32>, KeyError>;
}

impl MaybeNumber for u32 {
    fn maybe_number(self) -> Result<Option<u32>, KeyError> {
        Ok(Some(self))
    }
}

impl MaybeNumber for Option<u32> {
    fn maybe_number(self) -> Result<Option<u32>, KeyError> {
        Ok(self)
    }
}

impl<T: MaybeNumber, E: Into<Box<dyn Error + Send + Sync>>> MaybeNumber for Result<T, E> {
    fn maybe_number(self) -> Result<Option<u32>, KeyError> {
        self.map_err(KeyError::new)?.maybe_number()
    }
}
