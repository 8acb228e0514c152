//! The texts of the errors, with and without the names of locks.

use std::fmt;
use std::time::Duration;

use super::lock_error::LockError;
use crate::core::limit_override::LimitOverride;
use crate::core::lock_key::LockKey;
use crate::core::rate::Rate;
use crate::core::time_text::Short;

/// Why a rate is used up for longer than its burst takes.
fn earlier_rate(rate: Rate, retry_after: Duration) -> &'static str {
    let burst = Duration::from_micros(rate.micros(rate.most_at_once()));
    if retry_after > burst + Duration::from_secs(1) {
        " by what was taken at an earlier, slower rate of this name"
    } else {
        ""
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy { key, held_by_caller: true, .. }
            | Self::TimedOut { key, held_by_caller: true, .. } => write!(
                f,
                "`{key}` was not acquired: the caller itself holds it, because it runs under a \
                 lease of it; acquire the lock once, around both uses, or use a `reentrant_mutex` \
                 with one owner"
            ),
            Self::Busy { key, retry_after, kept: true, .. } => write!(
                f,
                "`{key}` was not acquired, and the call does not wait: nobody holds it, but it is \
                 kept for another {retry_after}, by `hold_at_least` or after a failed run of its \
                 job; try again then",
                retry_after = Short(*retry_after)
            ),
            Self::Busy { key, retry_after, kept: false, .. } => write!(
                f,
                "`{key}` was not acquired, and the call does not wait: it is held, or waited for; \
                 try again later, or let the call wait; a lease that is not renewed ends \
                 within {retry_after}",
                retry_after = Short(*retry_after)
            ),
            Self::TimedOut { key, waited, held_by_client: true, .. } => write!(
                f,
                "`{key}` was not acquired within {waited}: this client itself holds it; a caller \
                 that keeps the lease in a variable waits for itself, and has to drop it first; if \
                 another task has the lease, wait longer, or hold the lock for a shorter time",
                waited = Short(*waited)
            ),
            Self::TimedOut { key, waited, .. } => write!(
                f,
                "`{key}` was not acquired within {waited}: others held it, or were ahead in \
                 the queue; wait longer, or hold the lock for a shorter time",
                waited = Short(*waited)
            ),
            Self::Done { key, retry_after, .. } => write!(
                f,
                "`{key}` was not acquired: its work has succeeded, and counts as done for another \
                 {retry_after}",
                retry_after = Short(*retry_after)
            ),
            Self::RateLimited { key, rate, retry_after } => write!(
                f,
                "`{key}` allows no more for now: its rate of {rate} is used up{why}; try again in \
                 {retry_after}, or let the call wait as long",
                why = earlier_rate(*rate, *retry_after),
                retry_after = Short(*retry_after)
            ),
            Self::Lost { key, reason } => write!(
                f,
                "the lease of `{key}` was lost: {reason}; the work under it was not protected to \
                 its end"
            ),
            Self::TicketEnded { key, reason } => write!(
                f,
                "the ticket of `{key}` can't be adopted, and nothing was acquired: {}",
                reason.of_ticket()
            ),
            Self::Store { step, what, cause, .. } => {
                write!(f, "the lock store failed to {step} {what}: {cause}")
            }
            Self::InvalidKey { name, problem } => {
                write!(f, "{name:?} cannot be the name of a lock: {problem}")
            }
            Self::InvalidOption { option, problem } => write!(f, "`{option}`: {problem}"),
            Self::WrongKind { key } => write!(
                f,
                "`{key}` is in use by another kind of lock, or by something that is not a lock; \
                 `Locks::inspect` says by which; choose another name"
            ),
            Self::Closed { key, weight, set } => closed(f, key, *weight, set),
            Self::WouldDeadlock { key } => write!(
                f,
                "the owner that asks to write `{key}` holds it already, and would wait for itself; \
                 release its other lease first, or use `try_write` if the owner is the only reader"
            ),
            Self::NotFenced { key } => write!(
                f,
                "this lease of `{key}` is a permit or a reader's, which has no fencing token; use \
                 a mutex or a write lock if the resource checks tokens"
            ),
            Self::NotInstalled => f.write_str(
                "there is no lock client here; call `Locks::install` once when the program starts, \
                 run the task inside `Locks::scope` (a spawned task is outside of it), or name a \
                 client with `locks = …`",
            ),
            Self::NoRuntime => f.write_str(
                "there is no Tokio runtime with timers here; call it inside a Tokio runtime that \
                 was built with `enable_all` or `enable_time`",
            ),
            Self::Quorum { step, what, cause, .. } => write!(f, "could not {step} {what}: {cause}"),
            Self::Unsupported { what } => {
                write!(f, "{what} is not possible on a quorum; keep the lock on a single server")
            }
            Self::ShutDown => {
                f.write_str("the lock client was shut down, and acquires nothing more")
            }
        }
    }
}

fn closed(
    f: &mut fmt::Formatter<'_>,
    key: &LockKey,
    weight: u32,
    set: &LimitOverride,
) -> fmt::Result {
    let LimitOverride { by, of, limit, why, .. } = set;
    write!(f, "`{key}` was not acquired: {by} has set the limit of {of} to {limit}")?;
    if let Some(why) = why {
        write!(f, " ({why})")?;
    }
    if *limit == 0 {
        f.write_str(", so nobody gets in until it is unset")
    } else {
        write!(f, ", and this request takes {weight}")
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
            LockError::Busy { held_by_caller: true, .. }
            | LockError::TimedOut { held_by_caller: true, .. } => {
                f.write_str("held by the caller itself")
            }
            LockError::Busy { .. } | LockError::TimedOut { .. } => f.write_str("held by another"),
            LockError::Done { .. } => f.write_str("done already"),
            LockError::RateLimited { .. } => f.write_str("the rate is used up"),
            LockError::Closed { .. } => f.write_str("closed by an operator's limit"),
            LockError::InvalidKey { problem, .. } => f.write_str(problem),
            LockError::WrongKind { .. } => {
                f.write_str("the name is in use by another kind of lock")
            }
            LockError::WouldDeadlock { .. } => f.write_str("its owner has it already"),
            LockError::NotFenced { .. } => f.write_str("it has no fencing token"),
            // It is about several names.
            LockError::InvalidOption { option: "keys", .. } => {
                f.write_str("a name is given twice, or none or too many are")
            }
            LockError::InvalidOption { .. }
            | LockError::Unsupported { .. }
            | LockError::ShutDown
            | LockError::NotInstalled
            | LockError::NoRuntime => self.0.fmt(f),
        }
    }
}
