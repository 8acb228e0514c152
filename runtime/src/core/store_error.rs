//! The error of a store's command, and whether the command may have taken effect.

use std::error::Error;

/// Whether a failed command may have taken effect.
///
/// # Examples
///
/// ```
/// use leasehold::{LockError, Outcome};
///
/// fn may_hold(error: &LockError) -> bool {
///     matches!(error, LockError::Store { outcome: Outcome::Unknown, .. })
/// }
/// assert!(!may_hold(&LockError::ShutDown));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The command certainly did not run.
    NotRun,
    /// The command may have run.
    Unknown,
}

/// Why a store did not carry out a command, or did not say that it did.
#[derive(Debug)]
pub struct StoreError {
    /// Says if the command may have taken effect.
    pub outcome: Outcome,
    /// True if the same command may succeed a little later.
    pub is_passing: bool,
    /// True if the store's own runtime has ended.
    pub is_shut_down: bool,
    /// The driver's error.
    pub source: Box<dyn Error + Send + Sync>,
}

impl StoreError {
    /// Returns true if the command may have run and no answer to it came: it may even arrive later. An
    /// answer that is no success and leaves the outcome open is an error that does not pass.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.outcome == Outcome::Unknown && (self.is_passing || self.is_shut_down)
    }

    /// The error for a command that the store can never do. It did not run.
    #[cfg(feature = "redis")]
    pub(crate) fn impossible(problem: String) -> Self {
        let (outcome, source) = (Outcome::NotRun, problem.into());
        Self { outcome, is_passing: false, is_shut_down: false, source }
    }
}
