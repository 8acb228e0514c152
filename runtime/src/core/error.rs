//! Why a lock was not acquired, or is no longer held.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::lock_key::LockKey;
use super::no_majority::NoMajority;
pub use super::store_error::Outcome;
use super::store_error::StoreError;

/// Why a lock was not acquired, or is no longer held.
///
/// Its text says the cause too, and [`source`](Error::source) is `None`: one line
/// of a log (`error = %error`) says everything, and a printed chain
/// (`{:#}` of `anyhow`) says nothing twice.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Others hold it, or wait for it, and the call was not to wait.
    #[error(
        "`{key}` is held, or waited for, by others; it may be free in {retry_after:?}, unless a lease is renewed; try again later, or wait"
    )]
    #[non_exhaustive]
    Busy {
        /// The lock.
        key: LockKey,
        /// When it is free at the latest, unless its holder renews it, and if
        /// nobody waits for it. Where others of this process wait, a guess: the
        /// TTL.
        retry_after: Duration,
        /// Whether nobody holds it any more, and it is kept for the rest of its
        /// holder's `hold_at_least`: `retry_after` is when that ends, then, and
        /// nobody renews it. Else it may be free any moment, and may be held for
        /// longer. Always false where others of this process wait.
        kept: bool,
    },
    /// Others held it, or were before it, for the whole wait.
    #[error(
        "`{key}` was held for all of the {waited:.1?} that were waited for it; {}",
        if *held_by_caller {
            "the code that waited holds it itself, for it runs under a lease of it: take it once, around both, or use a `reentrant_mutex` by one owner"
        } else {
            "wait longer, or hold it for less long; or does the caller hold it already? A mutex is not reentrant"
        }
    )]
    #[non_exhaustive]
    TimedOut {
        /// The lock.
        key: LockKey,
        /// How long was waited.
        waited: Duration,
        /// Whether the code that waited runs under a held lease of the same lock, by the
        /// same client, as [`LeaseHandle::current`](crate::LeaseHandle::current) or around
        /// that: it waited for itself. A lease that no work was run under is not seen.
        held_by_caller: bool,
    },
    /// The lease ended before its holder released it.
    ///
    /// The only error under which work has begun: what was done before is done.
    #[error(
        "the lease of `{key}` was lost: {reason}; what was done under it was not protected to its end"
    )]
    #[non_exhaustive]
    Lost {
        /// The lock.
        key: LockKey,
        /// How it ended.
        reason: LossReason,
    },
    /// The store could not be asked, or refused.
    ///
    /// The text ends with the driver's own error. Its type is no part of this
    /// crate's interface, so that a new major version of a driver breaks nobody.
    #[error("the lock store failed to {step} {what}: {cause}")]
    #[non_exhaustive]
    Store {
        /// What was to be done.
        step: Step,
        /// To which lock, or with which server.
        what: String,
        /// Whether the command may have run all the same. If so, it is taken
        /// back in the background.
        outcome: Outcome,
        /// The driver's error.
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The name is not one a lock can have.
    #[error("{name:?} cannot be the name of a lock: {problem}")]
    #[non_exhaustive]
    InvalidKey {
        /// The name; its beginning, if it is long.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// An option has a value that makes no sense.
    #[error("`{option}`: {problem}")]
    #[non_exhaustive]
    InvalidOption {
        /// The option.
        option: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The name is in use by another kind of lock, or by something else.
    #[error(
        "`{key}` is in use as another kind of lock, or as something that is no lock; give this one a name of its own"
    )]
    #[non_exhaustive]
    WrongKind {
        /// The lock.
        key: LockKey,
    },
    /// The owner has the read-write lock, and would wait for himself.
    #[error(
        "the owner who asks to write `{key}` has it already, and would wait for himself; release what he has first, or, if he alone reads, write by `try_write`"
    )]
    #[non_exhaustive]
    WouldDeadlock {
        /// The lock.
        key: LockKey,
    },
    /// A permit, or a reader's lease, has no fencing token, since several are out at
    /// once.
    #[error(
        "this lease of `{key}` is one of several, which have no fencing tokens; use a mutex, or write, where the resource checks tokens"
    )]
    #[non_exhaustive]
    NotFenced {
        /// The lock.
        key: LockKey,
    },
    /// No client is known here.
    #[error(
        "no lock client is known here; call `Locks::install` once when the program starts, \
         run the task inside `Locks::scope` (which spawned tasks are not), or name a client with \
         `locks = …`"
    )]
    NotInstalled,
    /// Too few servers of a quorum agreed, since too many of them failed.
    #[error("could not {step} {what}: {cause}")]
    #[non_exhaustive]
    Quorum {
        /// What was asked.
        step: Step,
        /// The lock, in backticks.
        what: String,
        /// What each server answered.
        cause: Box<NoMajority>,
    },
    /// What was asked can't be done where the lock is kept.
    #[error("{what} is not possible on a quorum of servers; keep the lock on one server")]
    #[non_exhaustive]
    Unsupported {
        /// What was asked.
        what: &'static str,
    },
    /// The client was shut down.
    #[error("the lock client was shut down; nothing is acquired by it any more")]
    ShutDown,
}

impl LockError {
    pub(crate) fn invalid_key(name: &str, problem: impl Into<String>) -> Self {
        let mut shown: String = name.chars().take(80).collect();
        if shown.len() < name.len() {
            shown.push('…');
        }
        Self::InvalidKey { name: shown, problem: problem.into() }
    }

    pub(crate) fn store(step: Step, key: &LockKey, error: StoreError) -> Self {
        if error.is_shut_down {
            return Self::ShutDown;
        }
        let (StoreError { outcome, source, .. }, what) = (error, format!("`{key}`"));
        match source.downcast() {
            Ok(cause) => Self::Quorum { step, what, cause },
            Err(cause) => Self::Store { step, what, outcome, cause },
        }
    }

    /// Whether others hold the lock: the quiet case, in which a job that
    /// another server runs is skipped.
    #[must_use]
    pub fn is_held_by_another(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::TimedOut { .. })
    }

    /// Whether the lock store failed: it could not be reached, did not answer, or
    /// refused; or too few servers of a quorum agreed. Whether the lock is held is
    /// not known then.
    #[must_use]
    pub fn is_store_failure(&self) -> bool {
        matches!(self, Self::Store { .. } | Self::Quorum { .. })
    }
}

/// An error without the key's name, which may be personal.
pub(crate) struct Quiet<'a>(pub(crate) &'a LockError);

impl fmt::Display for Quiet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            LockError::Lost { reason, .. } => reason.fmt(f),
            LockError::Store { cause, .. } => cause.fmt(f),
            LockError::Quorum { cause, .. } => cause.fmt(f),
            LockError::Busy { .. } | LockError::TimedOut { .. } => f.write_str("held by another"),
            LockError::InvalidKey { problem, .. } => f.write_str(problem),
            LockError::WrongKind { .. } => {
                f.write_str("the name is in use by another kind of lock")
            }
            error => error.fmt(f),
        }
    }
}

/// How a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// It was not renewed in time: the store could not be reached, or this
    /// process stood still.
    Expired,
    /// Another request has it, or had it since.
    Taken,
    /// It was taken by [`Locks::force_release`](crate::Locks::force_release).
    Forced,
    /// It was held for as long as it may be: its `max_hold` is over.
    MaxHold,
    /// The client was shut down, and its holder had not released it by then.
    ShutDown,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "it expired, since it was not renewed in time",
            Self::Taken => "another has taken the lock since",
            Self::Forced => "it was taken by force",
            Self::MaxHold => "it was held for as long as it may be (`max_hold`)",
            Self::ShutDown => "the lock client was shut down while it was held",
        })
    }
}

/// What was asked of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Connecting to it.
    Connect,
    /// Acquiring a lease.
    Acquire,
    /// Releasing one.
    Release,
    /// Looking at a lock.
    Inspect,
    /// Taking a lock from its holders.
    ForceRelease,
    /// Prolonging a lease.
    Renew,
    /// Taking up a lease that was detached.
    Adopt,
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
        })
    }
}

#[cfg(test)]
mod tests;
