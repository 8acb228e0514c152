//! The commands of a semaphore: each is the Lua script of the same name.

use std::time::Duration;

use super::super::{Attempt, Ended, Kind, Renewal, Request, RequestId, Waiting};
use super::lock::{AT_ONCE, GRACE, Lock, Record, Sort, State};
use super::table::Shared;
use crate::LossReason;

/// What a permit is asked with.
#[derive(Clone, Copy)]
pub(super) struct Demand {
    pub(super) limit: u32,
    pub(super) weight: u32,
}

pub(super) fn acquire(
    lock: &mut Lock,
    request: &Request,
    demand: Demand,
    waiting: Option<Waiting>,
    shared: &mut Shared,
) -> Attempt {
    let (id, now) = (request.id, shared.now);
    let Demand { limit, weight } = demand;
    if lock.ended() == Some(id) {
        return Attempt::Ended;
    }
    if lock.record.is_some_and(|record| record.is_other(Sort::Semaphore)) {
        return Attempt::WrongKind;
    }
    let nobody_waits = lock.nobody_waits();
    let has_it = lock.permits.is_live(id, now);
    if has_it || nobody_waits && lock.permits.fits(weight, limit, now) {
        let until = lock.permits.put_in(id, weight, now + request.ttl);
        lock.record = Some(Record {
            sort: Sort::Semaphore,
            state: State::Out,
            is_awaited: !nobody_waits,
            ended: lock.ended(),
            until,
        });
        return Attempt::Granted { token: 0 };
    }
    if nobody_waits && waiting.is_none() {
        let retry_after = lock.permits.first_ends_in(now);
        return Attempt::Busy { retry_after, repaired: false };
    }
    let place =
        waiting.map(|waiting| (lock.queue.join(id, request.kind, waiting, shared), waiting));
    let first = lock.queue.first(now);
    if first.is_some_and(|(_, waiter)| waiter.demand == Kind::Mutex) {
        lock.queue.leave(id);
        return Attempt::WrongKind;
    }
    let is_alone = first.is_none() && lock.queue.is_empty();
    if first.is_none() && !is_alone {
        // There are more dead ones: it is to ask again at once.
        lock.queue.leave(id);
        return Attempt::Busy { retry_after: Duration::ZERO, repaired: false };
    }
    let mut served = serve(lock, Some(request), shared);
    // Only dead ones were in the way of one who does not wait.
    if is_alone && lock.permits.fits(weight, limit, now) {
        lock.permits.put_in(id, weight, now + request.ttl);
        served.has_me = true;
    }
    match &mut lock.record {
        Some(record) if !served.has_me && !served.has_others => record.is_awaited = true,
        _ => settle(lock, lock.ended(), shared),
    }
    if served.has_me {
        return Attempt::Granted { token: 0 };
    }
    let left = lock.permits.first_ends_in(now);
    match place {
        None => Attempt::Busy { retry_after: left, repaired: false },
        Some(place) => lock.queued(id, place, left, shared),
    }
}

pub(super) fn renew(lock: &mut Lock, request: &Request, weight: u32, shared: &Shared) -> Renewal {
    if !lock.permits.is_live(request.id, shared.now) {
        return Renewal::NotHeld(LossReason::Expired);
    }
    let until = lock.permits.put_in(request.id, weight, shared.now + request.ttl);
    if let Some(record) = &mut lock.record {
        record.until = record.until.max(until);
    }
    Renewal::Renewed
}

pub(super) fn release(lock: &mut Lock, request: &Request, shared: &mut Shared) -> Ended {
    if lock.permits.is_live(request.id, shared.now) {
        lock.permits.take_out(request.id);
        move_on(lock, request.id, shared);
        return Ended::Released;
    }
    // A late copy of an ask may have queued it again.
    lock.queue.leave(request.id);
    if lock.ended() == Some(request.id) {
        Ended::Released
    } else {
        Ended::NotHeld(LossReason::Expired)
    }
}

pub(super) fn cancel(lock: &mut Lock, request: &Request, shared: &mut Shared) -> bool {
    let was_granted = lock.permits.is_live(request.id, shared.now);
    lock.permits.take_out(request.id);
    lock.queue.leave(request.id);
    move_on(lock, request.id, shared);
    was_granted
}

/// Who got a permit.
struct Served {
    has_me: bool,
    has_others: bool,
}

/// Gives permits to those who wait, in order, for as long as the first fits: what
/// is free may stay so behind a heavy one, and so nobody starves. They are offers,
/// which last as long as the waiter is known to live; `me` has it at once.
fn serve(lock: &mut Lock, me: Option<&Request>, shared: &mut Shared) -> Served {
    let mut served = Served { has_me: false, has_others: false };
    for _ in 0..AT_ONCE {
        let Some((first, waiter)) = lock.queue.first(shared.now) else { break };
        let Kind::Semaphore { limit, weight } = waiter.demand else { break };
        if !lock.permits.fits(weight, limit, shared.now) {
            break;
        }
        lock.queue.leave(first);
        let deadline = if let Some(me) = me.filter(|me| me.id == first) {
            served.has_me = true;
            shared.now + me.ttl
        } else {
            served.has_others = true;
            shared.tell(first, 0, waiter.until);
            waiter.until
        };
        lock.permits.put_in(first, weight, deadline);
    }
    served
}

/// Writes the record: held as long as a permit is out, then free for a while.
fn settle(lock: &mut Lock, ended: Option<RequestId>, shared: &Shared) {
    let last = lock.permits.settle(shared.now);
    lock.record = Some(Record {
        sort: Sort::Semaphore,
        state: if last.is_some() { State::Out } else { State::Free },
        is_awaited: !lock.queue.is_empty(),
        ended,
        until: last.unwrap_or(shared.now + GRACE),
    });
}

/// After a permit or a waiter went: serves who waits, and remembers whose it was.
fn move_on(lock: &mut Lock, id: RequestId, shared: &mut Shared) {
    let is_other = if let Some(record) = lock.record {
        record.is_other(Sort::Semaphore)
    } else {
        let first = lock.queue.first(shared.now);
        first.is_some_and(|(_, waiter)| waiter.demand == Kind::Mutex)
    };
    // A name that is in use for something else is left alone.
    if is_other {
        return;
    }
    if !lock.nobody_waits() {
        serve(lock, None, shared);
    }
    settle(lock, Some(id), shared);
}
