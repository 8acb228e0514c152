//! The commands of a mutex: each is the Lua script of the same name.

use std::time::Duration;

use super::super::{Attempt, Ended, Kind, Renewal, Request, RequestId, Waiting};
use super::lock::{GRACE, Lock, Record, Sort, State};
use super::queue::Waiter;
use super::table::Shared;
use crate::LossReason;

pub(super) fn acquire(
    lock: &mut Lock,
    request: &Request,
    waiting: Option<Waiting>,
    shared: &mut Shared,
) -> Attempt {
    let (id, now) = (request.id, shared.now);
    let mut is_free = true;
    if let Some(record) = &mut lock.record {
        if record.ended == Some(id) {
            return Attempt::Ended;
        }
        if record.is_other(Sort::Mutex) {
            return Attempt::WrongKind;
        }
        if let Some(token) = record.token_of(id) {
            record.state = State::Held { id, token };
            record.until = now + request.ttl;
            return Attempt::Granted { token };
        }
        is_free = record.state == State::Free;
        if !is_free && waiting.is_none() {
            return Attempt::Busy { retry_after: record.until - now, repaired: false };
        }
    }
    if is_free && lock.nobody_waits() {
        return grant(lock, request, shared);
    }
    let place =
        waiting.map(|waiting| (lock.queue.join(id, request.kind, waiting, shared), waiting));
    if is_free {
        match lock.queue.first(now) {
            Some((first, waiter)) if first != id => {
                if waiter.demand != Kind::Mutex {
                    lock.queue.leave(id);
                    return Attempt::WrongKind;
                }
                offer(lock, first, waiter, lock.ended(), shared);
            }
            first => {
                lock.queue.leave(id);
                if first.is_none() && !lock.queue.is_empty() {
                    // There are more dead ones.
                    return Attempt::Busy { retry_after: Duration::ZERO, repaired: false };
                }
                return grant(lock, request, shared);
            }
        }
    } else if let Some(record) = &mut lock.record {
        record.is_awaited = true;
    }
    let left = lock.left(now);
    match place {
        None => Attempt::Busy { retry_after: left, repaired: false },
        Some(place) => lock.queued(id, place, left, shared),
    }
}

pub(super) fn renew(lock: &mut Lock, request: &Request, shared: &Shared) -> Renewal {
    let Some(record) = &mut lock.record else {
        return Renewal::NotHeld(LossReason::Expired);
    };
    let Some(token) = record.token_of(request.id) else {
        return Renewal::NotHeld(LossReason::Taken);
    };
    record.state = State::Held { id: request.id, token };
    record.until = shared.now + request.ttl;
    Renewal::Renewed
}

pub(super) fn release(
    lock: &mut Lock,
    request: &Request,
    keep: Duration,
    shared: &mut Shared,
) -> Ended {
    let is_held = lock.record.as_ref().is_some_and(|rec| rec.token_of(request.id).is_some());
    if !is_held {
        // A late copy of an ask may have queued it again.
        lock.queue.leave(request.id);
    }
    let Some(record) = &mut lock.record else {
        return Ended::NotHeld(LossReason::Expired);
    };
    if !is_held {
        return match record.state {
            _ if record.ended != Some(request.id) => Ended::NotHeld(LossReason::Taken),
            State::Kept => Ended::Kept,
            _ => Ended::Released,
        };
    }
    if !keep.is_zero() {
        record.state = State::Kept;
        record.ended = Some(request.id);
        record.until = shared.now + keep;
        return Ended::Kept;
    }
    hand_over(lock, request.id, shared);
    Ended::Released
}

pub(super) fn cancel(lock: &mut Lock, request: &Request, shared: &mut Shared) -> bool {
    let id = request.id;
    lock.queue.leave(id);
    match &mut lock.record {
        Some(record) if record.token_of(id).is_none() => {
            record.ended = Some(id);
            false
        }
        record => {
            let was_granted = record.is_some();
            hand_over(lock, id, shared);
            was_granted
        }
    }
}

fn grant(lock: &mut Lock, request: &Request, shared: &mut Shared) -> Attempt {
    let token = shared.next_token();
    lock.record = Some(Record {
        sort: Sort::Mutex,
        state: State::Held { id: request.id, token },
        is_awaited: !lock.queue.is_empty(),
        ended: lock.ended(),
        until: shared.now + request.ttl,
    });
    Attempt::Granted { token }
}

/// Offers the mutex to a waiter, until it would be taken for dead.
fn offer(
    lock: &mut Lock,
    id: RequestId,
    waiter: Waiter,
    ended: Option<RequestId>,
    shared: &mut Shared,
) {
    lock.queue.leave(id);
    let token = shared.next_token();
    lock.record = Some(Record {
        sort: Sort::Mutex,
        state: State::Offered { id, token },
        is_awaited: !lock.queue.is_empty(),
        ended,
        until: waiter.until,
    });
    shared.tell(id, token, waiter.until);
}

/// To the first who waits; or, if nobody does, it is free. Those who wait for
/// another kind of lock are left alone; but what was held is free even then.
fn hand_over(lock: &mut Lock, ended: RequestId, shared: &mut Shared) {
    match lock.queue.first(shared.now) {
        Some((first, waiter)) if waiter.demand == Kind::Mutex => {
            offer(lock, first, waiter, Some(ended), shared);
        }
        Some(_) if lock.record.is_none() => {}
        _ => {
            lock.record = Some(Record {
                sort: Sort::Mutex,
                state: State::Free,
                is_awaited: !lock.queue.is_empty(),
                ended: Some(ended),
                until: shared.now + GRACE,
            });
        }
    }
}
