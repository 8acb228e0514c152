//! The errors of all calls, and the reasons for a lost lease.

mod loss_reason;
mod step;

use std::error::Error;
use std::fmt;
use std::time::{Duration, SystemTime};

pub use self::loss_reason::LossReason;
pub use self::step::Step;
use super::lock_key::LockKey;
use super::no_majority::NoMajority;
pub use super::store_error::Outcome;
use super::store_error::StoreError;

/// The error of every call: why a lock was not acquired, is no longer held, or could not be
/// inspected.
///
/// Its text contains the cause, and [`source`](Error::source) is `None`. So one line of a
/// log (`error = %error`) says everything, and a printed chain (`{:#}` of `anyhow`) repeats
/// nothing.
///
/// # Examples
///
/// ```
/// use leasehold::{LockError, Locks};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// # let locks = Locks::in_memory();
/// match locks.mutex("nightly").try_lock().await {
///     Ok(lease) => lease.run(async { /* work */ }).await?,
///     Err(error) if error.is_held_by_another() => println!("another process does it"),
///     Err(error) if error.is_store_failure() => println!("try again later: {error}"),
///     Err(error) => return Err(error),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Others hold the lock or wait for it, and the call does not wait.
    #[error(
        "`{key}` was not acquired, and the call does not wait: {}",
        if *kept {
            format!("`hold_at_least` keeps it for another {retry_after:.1?}, although nobody holds it; try again then")
        } else {
            format!("others hold it or wait for it; try again later, or let the call wait; a lease that is not renewed ends within {retry_after:.1?}")
        }
    )]
    #[non_exhaustive]
    Busy {
        /// The lock.
        key: LockKey,
        /// The lock is free after this time at the latest, if nobody waits for it and its
        /// holder does not renew its lease. If other tasks of this process wait for it, this
        /// is only an estimate: the TTL.
        retry_after: Duration,
        /// True if nobody holds the lock, and only its last holder's `hold_at_least` keeps
        /// it. Then `retry_after` is exact. Always false if other tasks of this process wait
        /// for the lock.
        kept: bool,
    },
    /// Others held the lock, or were before this request in the queue, for the whole wait.
    #[error(
        "`{key}` was not acquired within {waited:.1?}: {}",
        if *held_by_caller {
            "the caller itself holds it, because it runs under a lease of it; acquire the lock once, around both uses, or use a `reentrant_mutex` with one owner"
        } else {
            "others held it, or were ahead in the queue; wait longer, or hold the lock for a shorter time"
        }
    )]
    #[non_exhaustive]
    TimedOut {
        /// The lock.
        key: LockKey,
        /// How long the call has waited.
        waited: Duration,
        /// True if the caller waited for itself: it runs under a held lease of the same
        /// lock and the same client, at
        /// [`LeaseHandle::current`](crate::LeaseHandle::current) or further out. A lease
        /// that no work runs under is not seen.
        held_by_caller: bool,
    },
    /// The work has succeeded, and counts as done: the lock has `once` or `once_per`. The
    /// call has not run it again.
    #[error(
        "`{key}` was not acquired: its work has succeeded, and counts as done for another {retry_after:.1?}"
    )]
    #[non_exhaustive]
    Done {
        /// The lock.
        key: LockKey,
        /// When the work succeeded, by the server's clock.
        completed: SystemTime,
        /// Until when it counts as done, by the server's clock. With `once_per` the next tick
        /// begins then.
        until: SystemTime,
        /// How long it counts as done from now.
        retry_after: Duration,
    },
    /// The lease ended before its holder released it.
    ///
    /// When an annotated function returns it, the body had begun and was stopped. Check what
    /// the work has done before you try again.
    #[error(
        "the lease of `{key}` was lost: {reason}; the work under it was not protected to its end"
    )]
    #[non_exhaustive]
    Lost {
        /// The lock.
        key: LockKey,
        /// Why it ended.
        reason: LossReason,
    },
    /// A ticket can't be adopted: its lease has ended, or it was adopted before. Nothing was
    /// acquired.
    ///
    /// A message that is delivered twice brings its ticket twice: the second adoption gets this.
    #[error("the ticket of `{key}` can't be adopted, and nothing was acquired: {}", reason.of_ticket())]
    #[non_exhaustive]
    TicketEnded {
        /// The lock.
        key: LockKey,
        /// How its lease ended. [`Taken`](LossReason::Taken): the ticket was adopted before, or
        /// others have acquired the lock since. [`Expired`](LossReason::Expired): its TTL is
        /// over, or it was adopted and released before, and the lock is free.
        reason: LossReason,
    },
    /// The store could not be reached, did not answer, or refused.
    ///
    /// The text ends with the driver's error. The driver's type is not part of this crate's
    /// API, so that a new major version of a driver breaks nobody.
    #[error("the lock store failed to {step} {what}: {cause}")]
    #[non_exhaustive]
    Store {
        /// The operation that failed.
        step: Step,
        /// The lock, in backticks, or the server.
        what: String,
        /// Says if the command may have taken effect. A possible grant is taken back in the
        /// background.
        outcome: Outcome,
        /// The driver's error.
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The name is empty, too long, contains a control character, or looks like a template
    /// without its values.
    #[error("{name:?} cannot be the name of a lock: {problem}")]
    #[non_exhaustive]
    InvalidKey {
        /// The name, cut off if it is long.
        name: String,
        /// The rule that the name breaks, in words.
        problem: String,
    },
    /// An option is out of its range, missing, or does not fit the others.
    #[error("`{option}`: {problem}")]
    #[non_exhaustive]
    InvalidOption {
        /// The name of the option.
        option: &'static str,
        /// The rule that the value breaks, in words.
        problem: String,
    },
    /// The name is in use by another kind of lock, or by something that is not a lock.
    #[error(
        "`{key}` is in use by another kind of lock, or by something that is not a lock; `Locks::inspect` says by which; choose another name"
    )]
    #[non_exhaustive]
    WrongKind {
        /// The lock.
        key: LockKey,
    },
    /// The owner holds the read-write lock already, and would wait for itself.
    #[error(
        "the owner that asks to write `{key}` holds it already, and would wait for itself; release its other lease first, or use `try_write` if the owner is the only reader"
    )]
    #[non_exhaustive]
    WouldDeadlock {
        /// The lock.
        key: LockKey,
    },
    /// The lease is a permit or a reader's. Several of these are held at the same time, so
    /// they have no fencing token.
    #[error(
        "this lease of `{key}` is a permit or a reader's, which has no fencing token; use a mutex or a write lock if the resource checks tokens"
    )]
    #[non_exhaustive]
    NotFenced {
        /// The lock.
        key: LockKey,
    },
    /// The attribute found no client: none is installed, the task has no scope, and there
    /// is no `locks = …`.
    #[error(
        "there is no lock client here; call `Locks::install` once when the program starts, run the \
         task inside `Locks::scope` (a spawned task is outside of it), or name a client with \
         `locks = …`"
    )]
    NotInstalled,
    /// Too few servers of a quorum agreed, because too many of them failed.
    #[error("could not {step} {what}: {cause}")]
    #[non_exhaustive]
    Quorum {
        /// The operation that failed.
        step: Step,
        /// The lock, in backticks.
        what: String,
        /// The answer of each server.
        cause: Box<NoMajority>,
    },
    /// The store can't do this: a quorum has no tickets.
    #[error("{what} is not possible on a quorum; keep the lock on a single server")]
    #[non_exhaustive]
    Unsupported {
        /// The operation that the caller asked for, in words.
        what: &'static str,
    },
    /// The client was shut down, and acquires nothing more.
    #[error("the lock client was shut down, and acquires nothing more")]
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
        Self::of_store(step, format!("`{key}`"), error)
    }

    /// The error of a step that is about more than one lock.
    pub(crate) fn of_store(step: Step, what: String, error: StoreError) -> Self {
        if error.is_shut_down {
            return Self::ShutDown;
        }
        let StoreError { outcome, source, .. } = error;
        match source.downcast() {
            Ok(cause) => Self::Quorum { step, what, cause },
            Err(cause) => Self::Store { step, what, outcome, cause },
        }
    }

    /// Returns true if others hold the lock ([`Busy`](Self::Busy) or
    /// [`TimedOut`](Self::TimedOut)). A job that another process runs already can then be
    /// skipped quietly.
    #[must_use]
    pub fn is_held_by_another(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::TimedOut { .. })
    }

    /// Returns true if the work has succeeded already ([`Done`](Self::Done)).
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }

    /// Returns true if the lock store failed ([`Store`](Self::Store) or
    /// [`Quorum`](Self::Quorum)). Then nobody knows whether the lock is held.
    #[must_use]
    pub fn is_store_failure(&self) -> bool {
        matches!(self, Self::Store { .. } | Self::Quorum { .. })
    }
}

/// An error's text without the lock's name, which may be personal.
pub(crate) struct Quiet<'a>(pub(crate) &'a LockError);

impl fmt::Display for Quiet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            LockError::Lost { reason, .. } => reason.fmt(f),
            LockError::TicketEnded { reason, .. } => f.write_str(reason.of_ticket()),
            LockError::Store { cause, .. } => cause.fmt(f),
            LockError::Quorum { cause, .. } => cause.fmt(f),
            LockError::Busy { .. } | LockError::TimedOut { .. } => f.write_str("held by another"),
            LockError::Done { .. } => f.write_str("done already"),
            LockError::InvalidKey { problem, .. } => f.write_str(problem),
            LockError::WrongKind { .. } => {
                f.write_str("the name is in use by another kind of lock")
            }
            error => error.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
