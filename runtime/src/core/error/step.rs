//! The operations of a store that can fail.

use std::fmt;

/// The operation of the store that failed, and the kind of command that a
/// [fault](crate::Faults::on) is for.
///
/// # Examples
///
/// ```
/// use leasehold::{LockError, Step};
///
/// fn can_connect(error: &LockError) -> bool {
///     !matches!(error, LockError::Store { step: Step::Connect, .. })
/// }
/// assert!(can_connect(&LockError::ShutDown));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Connect to the server.
    Connect,
    /// Acquire a lease.
    Acquire,
    /// Release a lease.
    Release,
    /// Look at a lock.
    Inspect,
    /// Take a lock from its holders.
    ForceRelease,
    /// Renew a lease.
    Renew,
    /// Adopt a detached lease.
    Adopt,
    /// End a lease and mark its work as done.
    Complete,
    /// Set or unset an operator's limit.
    ChangeLimit,
    /// Forget that work is done.
    RunAgain,
    /// Say that the store is there.
    Ping,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect to",
            Self::Acquire => "acquire",
            Self::Release => "release",
            Self::Inspect => "look at",
            Self::ForceRelease => "take by force",
            Self::Renew => "renew",
            Self::Adopt => "adopt",
            Self::Complete => "complete",
            Self::ChangeLimit => "change the limit of",
            Self::RunAgain => "run again the work of",
            Self::Ping => "answer",
        })
    }
}
