//! The commands of a semaphore: each is the Lua script of the same name.

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
    let has_it = lock.holders.is_live(request.id, now);
    if has_it || nobody && lock.holders.fits(&demand, now) {
        return let_in(lock, request, shared);
    }
    if nobody && waiting.is_none() {
        return busy(lock.holders.free_in(demand.lock(), now));
    }
    line_up(lock, request, waiting, shared)
}

pub(super) fn renew(lock: &mut Lock, request: &Request, shared: &Shared) -> Renewal {
    last_anew(lock, request, |_| false, shared.now)
}

pub(super) fn release(lock: &mut Lock, request: &Request, shared: &mut Shared) -> Ended {
    if give_back(lock, request, shared) { Ended::Released } else { Ended::NotHeld(lost(false)) }
}
