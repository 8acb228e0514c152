//! The commands of a reentrant mutex: each is the Lua script of the same name.

use std::time::Instant;

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
    let is_owned = lock.holders.owns(demand.owner.as_ref(), now);
    if is_owned || nobody && lock.holders.fits(&demand, now) {
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
    let is_over = give_back(lock, request, shared);
    let now = shared.now;
    if !is_over {
        return Ended::NotHeld(lost(is_anothers(lock, request, now)));
    }
    // All who hold it are one owner's.
    let is_owners = lock.holders.owns(request.owner.as_ref(), now);
    match lock.holders.live(now).count() {
        left if is_owners && left > 0 => Ended::StillHeld(u32::try_from(left).unwrap_or(u32::MAX)),
        _ => Ended::Released,
    }
}

fn is_anothers(lock: &mut Lock, request: &Request, now: Instant) -> bool {
    lock.holders.ends_at(now).is_some() && !lock.holders.owns(request.owner.as_ref(), now)
}
