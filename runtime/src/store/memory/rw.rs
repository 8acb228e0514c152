//! The commands of a read-write lock: each is the Lua script of the same name.

use std::time::{Duration, Instant};

use super::context::Shared;
use super::lock::{Demand, Lock, busy};
use super::serve::{give_back, last_anew, let_in, line_up, look, lost};
use crate::store::{Attempt, Ended, Renewal, Request, Waiting};

pub(super) fn acquire(
    lock: &mut Lock,
    request: &Request,
    waiting: Option<Waiting>,
    shared: &mut Shared,
) -> Attempt {
    if let Some(refusal) = look(lock, request) {
        return refusal;
    }
    let (demand, now) = (Demand::of(request), shared.now);
    let nobody = lock.nobody_waits();
    let owner = demand.owner.as_ref();
    let has_it = lock.holders.is_live(request.id, now);
    let is_owned = !has_it && lock.holders.owns(owner, now);
    if is_owned
        && demand.is_writer()
        && (waiting.is_some() || !lock.holders.is_sole_reader(owner, now))
    {
        lock.queue.leave(request.id);
        // With more there who ended than were forgotten, it is not known: ask again.
        let is_known = lock.holders.first_ends_at().is_none_or(|first| first > now);
        return if is_known { Attempt::WouldDeadlock } else { busy(Duration::ZERO) };
    }
    if has_it || is_owned || nobody && lock.holders.fits(&demand, now) {
        return let_in(lock, request, shared);
    }
    if nobody && waiting.is_none() {
        return busy(lock.holders.free_in(demand.lock(), now));
    }
    line_up(lock, request, waiting, shared)
}

pub(super) fn renew(lock: &mut Lock, request: &Request, shared: &Shared) -> Renewal {
    let now = shared.now;
    last_anew(lock, request, |lock| is_anothers(lock, request, now), now)
}

pub(super) fn release(lock: &mut Lock, request: &Request, shared: &mut Shared) -> Ended {
    if give_back(lock, request, shared) {
        return Ended::Released;
    }
    Ended::NotHeld(lost(is_anothers(lock, request, shared.now)))
}

/// Whether another writes.
fn is_anothers(lock: &mut Lock, request: &Request, now: Instant) -> bool {
    lock.holders.is_written(now) && !lock.holders.owns(request.owner.as_ref(), now)
}
