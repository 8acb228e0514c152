//! The decisions of the store in memory, as pure functions.
//!
//! Each takes a lock's state, a request and a `Context` (the time, the store's counters, and
//! which clients listen), and changes the state. It returns the answer, and leaves its hints in
//! the context. Nothing here reads a clock, looks up a lock or calls a listener: the store
//! around it does. So a test drives the rules without a store, and another engine can run them
//! inside a transaction of its own.
//!
//! On Redis the same decisions are Lua scripts. Whoever changes one changes the other; the
//! test `state_machine` compares their answers, and a simulation runs both on the same states, by
//! `shadow`.
//!
//! | here | in `runtime/lua/` |
//! |---|---|
//! | `counters` | `include/token`, `include/raise_token` |
//! | `queue` · `tell` | `include/queue` · `include/tell` |
//! | `holders` | `include/holders` |
//! | `kinds` | `include/rule_semaphore`, `include/rule_reentrant`, `include/rule_rw` |
//! | `mutex` | `mutex/*`, `include/acquire_mutex`, `include/hand_over`, `include/take_mutex` |
//! | `done` | `mutex/acquire_once`, `mutex/complete`, `mutex/run_again`, `include/done`, `include/runs` |
//! | `serve` | `include/serve` |
//! | `multi_holder` | `semaphore/*`, `reentrant/*`, `rw/*` and `multi_holder/*`, with `include/ask`, `include/give_back`, `include/take_permit` and `include/take_locks` |
//! | `quorum_member` | `rw/vote`, `mutex/repair`, `rw/repair` |
//! | `rate` | `rate/*`, `include/rate`, `include/*_rate`, `include/take_rates` |
//! | `recall` | `*/linger`, `include/recall`, `include/recall_clients` |
//! | `lock` | `lock/*` |

mod context;
mod counters;
mod demand;
mod done;
mod holders;
mod kinds;
mod limits;
mod lock;
mod mark;
mod multi_holder;
mod mutex;
mod queue;
mod quorum_member;
mod rate;
mod recall;
mod serve;
#[cfg(feature = "internals")]
pub mod shadow;
mod state;
mod tell;
mod time;

use std::time::Duration;

pub(super) use self::context::Context;
pub(super) use self::counters::{Counters, Tokens};
pub(super) use self::done::run_again;
use self::lock::keep_offer;
pub(super) use self::lock::{force_release, inspect, is_held_by};
pub(super) use self::rate::{RateState, begins_together};
pub(super) use self::state::LockState;
pub(super) use self::time::Time;
use super::{
    Adoption, Answer, Attempt, Detached, Ended, Kind, Lingering, Renewal, Request, RequestCommand,
    Usage, Waiting,
};

/// Runs a command for a request.
pub(super) fn run(
    lock: &mut LockState,
    request: &Request,
    command: RequestCommand,
    context: &mut Context<'_>,
) -> Answer {
    match command {
        RequestCommand::Acquire(waiting) => acquire(lock, request, waiting, context).into(),
        RequestCommand::Renew => renew(lock, request, context.now).into(),
        RequestCommand::KeepOffer(until) => {
            keep_offer(lock, request, until, context.now);
            Answer::Done(())
        }
        RequestCommand::Adopt(from) => adopt(lock, from, request, context).into(),
        RequestCommand::Release(keep) => release(lock, request, keep, context).into(),
        RequestCommand::ReleaseAndForget => release_and_forget(lock, request, context).into(),
        RequestCommand::Complete(success) => done::complete(lock, request, success, context).into(),
        RequestCommand::Linger(usage) => linger(lock, request, usage, context).into(),
        RequestCommand::Cancel => cancel(lock, request, context).into(),
        RequestCommand::WasForced => lock::was_forced(lock, request).into(),
        RequestCommand::Vote(again) => vote(lock, request, again, context).into(),
        RequestCommand::Repair { token, lasts } => {
            quorum_member::repair(lock, request, token, lasts, context).into()
        }
    }
}

/// Asks for the lock once. With `waiting`, a request that is not granted joins the queue.
fn acquire(
    lock: &mut LockState,
    request: &Request,
    waiting: Option<Waiting>,
    context: &mut Context<'_>,
) -> Attempt {
    match request.kind {
        Kind::Mutex => mutex::acquire(lock, request, waiting, context),
        Kind::Once(once) => done::acquire(lock, request, once, waiting, context),
        _ => multi_holder::acquire(lock, request, waiting, context),
    }
}

/// Returns true if [`take`] would grant the mutex or the permit: it is free and nobody waits, or
/// the request holds it already. With `take`, the scripts `mutex/acquire_all` and
/// `lock/acquire_all`.
pub(super) fn is_available(lock: &mut LockState, request: &Request, now: Time) -> bool {
    match request.kind {
        Kind::Semaphore { .. } => multi_holder::is_available(lock, request, now),
        _ => mutex::is_available(lock, request),
    }
}

/// Takes an available lock, and returns its token; 0 for a permit.
pub(super) fn take(lock: &mut LockState, request: &Request, context: &mut Context<'_>) -> u64 {
    match request.kind {
        Kind::Semaphore { .. } => {
            multi_holder::take(lock, request, context);
            0
        }
        _ => mutex::take(lock, request, context),
    }
}

/// Asks for the lock once, on a member of a quorum. A writer that is refused keeps new readers
/// out for `again`.
fn vote(
    lock: &mut LockState,
    request: &Request,
    again: Duration,
    context: &mut Context<'_>,
) -> Attempt {
    match request.kind {
        Kind::Read | Kind::Write => quorum_member::vote(lock, request, again, context),
        _ => acquire(lock, request, None, context),
    }
}

/// Lets a lease run for its TTL from now.
pub(super) fn renew(lock: &mut LockState, request: &Request, now: Time) -> Renewal {
    match request.kind {
        Kind::Mutex | Kind::Once(_) => mutex::renew(lock, request, now),
        _ => multi_holder::renew(lock, request, now),
    }
}

/// Puts a request in the place of the holder `from`, for its TTL from now.
fn adopt(
    lock: &mut LockState,
    from: Detached,
    request: &Request,
    context: &mut Context<'_>,
) -> Adoption {
    match request.kind {
        Kind::Mutex | Kind::Once(_) => mutex::adopt(lock, from, request, context),
        _ => multi_holder::adopt(lock, from.id, request, context),
    }
}

/// Ends a lease, and hands the lock over. A mutex is then kept for `keep`.
fn release(
    lock: &mut LockState,
    request: &Request,
    keep: Duration,
    context: &mut Context<'_>,
) -> Ended {
    match request.kind {
        Kind::Mutex | Kind::Once(_) => mutex::release(lock, request, keep, context),
        _ => multi_holder::release(lock, request, context),
    }
}

/// Ends the lease of a mutex, and remembers nothing of its request.
fn release_and_forget(lock: &mut LockState, request: &Request, context: &mut Context<'_>) -> Ended {
    match request.kind {
        Kind::Mutex | Kind::Once(_) => mutex::release_and_forget(lock, request, context),
        _ => multi_holder::release(lock, request, context),
    }
}

/// Lets the client keep a lease without using it. If others want the lock, a lease that nobody
/// uses is released.
fn linger(
    lock: &mut LockState,
    request: &Request,
    usage: Usage,
    context: &mut Context<'_>,
) -> Lingering {
    match request.kind {
        Kind::Mutex | Kind::Once(_) => mutex::linger(lock, request, usage, context),
        _ => multi_holder::linger(lock, request, usage, context),
    }
}

/// Takes an acquisition back, and says whether it was granted.
fn cancel(lock: &mut LockState, request: &Request, context: &mut Context<'_>) -> bool {
    match request.kind {
        Kind::Mutex | Kind::Once(_) => mutex::cancel(lock, request, context),
        _ => multi_holder::cancel(lock, request, context),
    }
}

#[cfg(test)]
mod tests;
