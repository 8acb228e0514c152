//! The error of all calls.

use std::error::Error;
use std::time::{Duration, SystemTime};

use super::loss_reason::LossReason;
use super::step::Step;
use crate::core::limit_override::LimitOverride;
use crate::core::lock_key::LockKey;
use crate::core::no_majority::NoMajority;
use crate::core::rate::Rate;
use crate::core::store_error::{Outcome, StoreError};

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
#[derive(Debug)]
#[non_exhaustive]
pub enum LockError {
    /// Others hold the lock or wait for it, and the call does not wait.
    #[non_exhaustive]
    Busy {
        /// The lock.
        key: LockKey,
        /// The lock is free after this time at the latest, if nobody waits for it and its
        /// holder does not renew its lease. If other tasks of this process wait for it, this
        /// is only an estimate: the TTL.
        retry_after: Duration,
        /// True if nobody holds the lock, and it is only kept: by its last holder's `hold_at_least`, or
        /// in the pause after a failed run of its job. Then `retry_after` is exact. Always false if other
        /// tasks of this process wait for the lock.
        kept: bool,
        /// True if the caller holds the lock itself, as in [`TimedOut`](Self::TimedOut).
        held_by_caller: bool,
        /// True if it is a semaphore: its permits are used up, and the answer over HTTP is 429. Of
        /// any other lock it is 409.
        is_semaphore: bool,
    },
    /// Others held the lock, or were before this request in the queue, for the whole wait.
    #[non_exhaustive]
    TimedOut {
        /// The lock.
        key: LockKey,
        /// How long the call has waited.
        waited: Duration,
        /// True if the caller waited for itself: it runs under a held lease of the same lock and
        /// client, at [`LeaseHandle::current`](crate::LeaseHandle::current) or further out, which
        /// excludes the one it asks for. Permits do so if too few are left for it.
        ///
        /// The error comes at once, without a command, if that lease can't end before the caller:
        /// inside [`Lease::run`](crate::Lease::run), an annotated function, or a request under a
        /// layer, unless they go on after a loss (`on_lost`). In a [`scope`](crate::LeaseHandle::scope)
        /// that was carried into another task, the call waits first.
        held_by_caller: bool,
        /// True if this client had the lock when the wait was over: the caller keeps its lease in a
        /// variable, and waited for itself, or another task has it. 1,000 leases are looked at.
        held_by_client: bool,
        /// True if it is a semaphore, as in [`Busy`](Self::Busy).
        is_semaphore: bool,
    },
    /// The work has succeeded, and counts as done: the lock has `once` or `once_per`. The
    /// call has not run it again.
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
    /// The rate is used up, and does not allow the request in time. Nothing was taken.
    #[non_exhaustive]
    RateLimited {
        /// The name of the rate.
        key: LockKey,
        /// The rate that the request asked for.
        rate: Rate,
        /// After how long the rate allows the request, if nobody else takes more.
        retry_after: Duration,
    },
    /// The lease ended before its holder released it.
    ///
    /// When an annotated function returns it, the body had begun and was stopped. Check what
    /// the work has done before you try again.
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
    #[non_exhaustive]
    TicketEnded {
        /// The lock.
        key: LockKey,
        /// How its lease ended. [`Taken`](LossReason::Taken): the ticket was adopted before, or
        /// others have acquired the lock since. [`Expired`](LossReason::Expired): the lock is
        /// free, because its TTL is over or its adopter has released it long ago. A client of
        /// another server or prefix gets this, too.
        reason: LossReason,
    },
    /// The store could not be reached, did not answer, or refused.
    ///
    /// The text ends with the driver's error. The driver's type is not part of this crate's
    /// API, so that a new major version of a driver breaks nobody.
    #[non_exhaustive]
    Store {
        /// The operation that failed.
        step: Step,
        /// The lock, in backticks, or the server.
        what: String,
        /// Says if the command may have taken effect. A possible grant is taken back in the
        /// background.
        outcome: Outcome,
        /// True if the same call may succeed a little later: the store could not be reached, gave
        /// no answer, or is starting, for example. False if it refuses the client or the command.
        is_passing: bool,
        /// The driver's error.
        cause: Box<dyn Error + Send + Sync>,
        /// What metrics and logs call the lock: see [`LockKey::label`].
        label: Option<&'static str>,
    },
    /// The name is empty, too long, contains a control character, or looks like a template
    /// without its values.
    #[non_exhaustive]
    InvalidKey {
        /// The name, cut off if it is long.
        name: String,
        /// The rule that the name breaks, in words.
        problem: String,
    },
    /// An option is out of its range, missing, or does not fit the others.
    #[non_exhaustive]
    InvalidOption {
        /// The name of the option.
        option: &'static str,
        /// The rule that the value breaks, in words.
        problem: String,
    },
    /// The name is in use by another kind of lock, or by something that is not a lock.
    #[non_exhaustive]
    WrongKind {
        /// The lock.
        key: LockKey,
    },
    /// An operator has set a limit that leaves no room for the request: 0, or less than it weighs.
    /// See [`Locks::limits`](crate::Locks::limits).
    #[non_exhaustive]
    Closed {
        /// The semaphore.
        key: LockKey,
        /// How much of it the request takes.
        weight: u32,
        /// The limit, who has set it, when and why.
        set: Box<LimitOverride>,
    },
    /// The owner holds the read-write lock already, and would wait for itself.
    #[non_exhaustive]
    WouldDeadlock {
        /// The lock.
        key: LockKey,
    },
    /// The lease is a permit or a reader's. Several of these are held at the same time, so
    /// they have no fencing token.
    #[non_exhaustive]
    NotFenced {
        /// The lock.
        key: LockKey,
    },
    /// The attribute found no client: none is installed, the task has no scope, and there
    /// is no `locks = …`.
    NotInstalled,
    /// The call may have to wait, and runs outside of a Tokio runtime with timers. Nothing was
    /// done.
    ///
    /// Call it inside a Tokio runtime that was built with `enable_all` or `enable_time`.
    NoRuntime,
    /// Too few servers of a quorum agreed, because too many of them failed.
    #[non_exhaustive]
    Quorum {
        /// The operation that failed.
        step: Step,
        /// The lock, in backticks.
        what: String,
        /// True if the same call may succeed a little later, as in [`Store`](Self::Store).
        is_passing: bool,
        /// The answer of each server.
        cause: Box<NoMajority>,
        /// What metrics and logs call the lock: see [`LockKey::label`].
        label: Option<&'static str>,
    },
    /// The store can't do this: a quorum has no tickets, and no work that succeeds once.
    #[non_exhaustive]
    Unsupported {
        /// The operation that the caller asked for, in words.
        what: &'static str,
    },
    /// The client was shut down, and acquires nothing more.
    ShutDown,
}

impl Error for LockError {}

impl LockError {
    pub(crate) fn invalid_key(name: &str, problem: impl Into<String>) -> Self {
        let mut shown: String = name.chars().take(80).collect();
        if shown.len() < name.len() {
            shown.push('…');
        }
        Self::InvalidKey { name: shown, problem: problem.into() }
    }

    pub(crate) fn store(step: Step, key: &LockKey, error: StoreError) -> Self {
        Self::of_store(step, format!("`{key}`"), key.label(), error)
    }

    /// The error of a step that may be about more than one lock.
    pub(crate) fn of_store(
        step: Step,
        what: String,
        label: Option<&'static str>,
        error: StoreError,
    ) -> Self {
        if error.is_shut_down {
            return Self::ShutDown;
        }
        let StoreError { outcome, is_passing, source, .. } = error;
        match source.downcast() {
            Ok(cause) => Self::Quorum { step, what, is_passing, cause, label },
            Err(cause) => Self::Store { step, what, outcome, is_passing, cause, label },
        }
    }

    /// The lock that it is about, if that is known.
    #[cfg(any(feature = "tower", feature = "macros"))]
    pub(crate) fn key(&self) -> Option<&LockKey> {
        match self {
            Self::Busy { key, .. }
            | Self::TimedOut { key, .. }
            | Self::Done { key, .. }
            | Self::RateLimited { key, .. }
            | Self::Lost { key, .. }
            | Self::TicketEnded { key, .. }
            | Self::Closed { key, .. }
            | Self::WrongKind { key }
            | Self::WouldDeadlock { key }
            | Self::NotFenced { key } => Some(key),
            _ => None,
        }
    }

    /// What logs call its lock.
    #[cfg(any(feature = "tower", feature = "macros"))]
    pub(crate) fn label(&self) -> Option<&'static str> {
        match self {
            Self::Store { label, .. } | Self::Quorum { label, .. } => *label,
            error => error.key().and_then(LockKey::label),
        }
    }

    /// Returns true if others hold the lock ([`Busy`](Self::Busy) or
    /// [`TimedOut`](Self::TimedOut)). A job that another process runs already can then be
    /// skipped quietly.
    ///
    /// Also true if the caller itself holds it (`held_by_caller`).
    #[must_use]
    pub fn is_held_by_another(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::TimedOut { .. })
    }

    /// Returns true if the caller holds the lock itself, so that it would wait for itself.
    #[cfg(feature = "tower")]
    pub(crate) fn is_held_by_caller(&self) -> bool {
        matches!(
            self,
            Self::Busy { held_by_caller: true, .. } | Self::TimedOut { held_by_caller: true, .. }
        )
    }

    /// Says whether the lock that others hold is a semaphore.
    pub(crate) fn of_semaphore(mut self, is: impl FnOnce(&LockKey) -> bool) -> Self {
        if let Self::Busy { key, is_semaphore, .. } | Self::TimedOut { key, is_semaphore, .. } =
            &mut self
        {
            *is_semaphore = is(key);
        }
        self
    }

    /// Returns true if the store is out of reach or gives no answer, for now.
    #[cfg(feature = "tower")]
    pub(crate) fn is_outage(&self) -> bool {
        matches!(self, Self::Store { is_passing: true, .. } | Self::Quorum { is_passing: true, .. })
    }

    /// Returns true if an operator has closed the semaphore for such requests
    /// ([`Closed`](Self::Closed)).
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed { .. })
    }

    /// Returns true if a rate is used up ([`RateLimited`](Self::RateLimited)).
    #[must_use]
    pub fn is_rate_limited(&self) -> bool {
        matches!(self, Self::RateLimited { .. })
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
