//! The commands of a mutex: each is the Lua script of the same name.

use std::time::Duration;

use super::context::Shared;
use super::lock::{Demand, GRACE, Lock, Record, State, busy};
use super::queue::Waiter;
use crate::core::error::LossReason;
use crate::store::{
    Adoption, Attempt, Ended, Hint, LockKind, Renewal, Request, RequestId, Waiting,
};

pub(super) fn acquire(
    lock: &mut Lock,
    request: &Request,
    waiting: Option<Waiting>,
    shared: &mut Shared,
) -> Attempt {
    let (id, now) = (request.id, shared.now);
    let mut is_free = true;
    if let Some(record) = &lock.record {
        if record.ended == Some(id) {
            return Attempt::Ended;
        }
        if record.is_other(LockKind::Mutex) {
            return Attempt::WrongKind;
        }
        if record.holds(id) {
            return Attempt::Granted { token: take(lock, request, shared) };
        }
        is_free = matches!(record.state, State::Free);
        if !is_free && waiting.is_none() {
            let kept = matches!(record.state, State::Kept { .. });
            return Attempt::Busy { retry_after: record.until - now, expiry_added: false, kept };
        }
    }
    if is_free && lock.nobody_waits() {
        return Attempt::Granted { token: grant(lock, request, shared) };
    }
    let place = waiting.map(|waiting| (lock.queue.join(request, waiting, shared), waiting));
    if is_free {
        match lock.queue.first(now) {
            Some((first, waiter)) if first != id => {
                if waiter.demand.lock() != LockKind::Mutex {
                    lock.queue.leave(id);
                    return Attempt::WrongKind;
                }
                offer(lock, first, &waiter, lock.ended(), shared);
            }
            first => {
                lock.queue.leave(id);
                if first.is_none() && !lock.queue.is_empty() {
                    // There are more dead ones.
                    return busy(Duration::ZERO);
                }
                return Attempt::Granted { token: grant(lock, request, shared) };
            }
        }
    } else if let Some(record) = &mut lock.record {
        record.is_awaited = true;
    }
    let left = lock.left(now);
    place.map_or(busy(left), |place| lock.queued(id, place, left, shared))
}

/// Whether a request may have the mutex together with others, or has it already.
pub(super) fn is_to_be_had(lock: &Lock, request: &Request) -> bool {
    let Some(record) = &lock.record else { return lock.nobody_waits() };
    if record.is_other(LockKind::Mutex) || record.ended == Some(request.id) {
        return false;
    }
    record.holds(request.id) || matches!(record.state, State::Free) && lock.nobody_waits()
}

/// Takes a mutex that is to be had, and says with which token.
pub(super) fn take(lock: &mut Lock, request: &Request, shared: &mut Shared) -> u64 {
    match &mut lock.record {
        Some(record) if record.holds(request.id) => {
            hold(record, request, shared);
            record.token.number
        }
        _ => grant(lock, request, shared),
    }
}

/// Lets a lease, or what was an offer until now, run for its whole TTL from now.
fn hold(record: &mut Record, request: &Request, shared: &Shared) {
    if let State::One { is_offer, .. } = &mut record.state {
        *is_offer = false;
    }
    record.until = shared.now + request.ttl;
}

pub(super) fn renew(lock: &mut Lock, request: &Request, shared: &Shared) -> Renewal {
    let Some(record) = &mut lock.record else {
        return Renewal::NotHeld(LossReason::Expired);
    };
    if !record.holds(request.id) {
        return Renewal::NotHeld(LossReason::Taken);
    }
    hold(record, request, shared);
    Renewal::Renewed
}

pub(super) fn adopt(
    lock: &mut Lock,
    from: RequestId,
    request: &Request,
    shared: &mut Shared,
) -> Adoption {
    let Some(record) = &mut lock.record else {
        return Adoption::NotHeld(LossReason::Expired);
    };
    if record.holds(request.id) {
        return Adoption::Adopted { token: take(lock, request, shared) };
    }
    match &mut record.state {
        State::One { id, .. } if *id == from && record.ended != Some(request.id) => {
            *id = request.id;
        }
        _ => return Adoption::NotHeld(LossReason::Taken),
    }
    record.token = shared.next_token(record.token);
    record.ended = Some(from);
    hold(record, request, shared);
    Adoption::Adopted { token: record.token.number }
}

pub(super) fn release(
    lock: &mut Lock,
    request: &Request,
    keep: Duration,
    shared: &mut Shared,
) -> Ended {
    let id = request.id;
    let is_held = lock.record.as_ref().is_some_and(|record| record.holds(id));
    if !is_held {
        // A late copy of an ask may have queued it again.
        lock.queue.leave(id);
    }
    let Some(record) = &mut lock.record else {
        return Ended::NotHeld(LossReason::Expired);
    };
    if !is_held {
        return match record.state {
            _ if record.ended != Some(id) => Ended::NotHeld(LossReason::Taken),
            State::Kept { .. } => Ended::Kept,
            _ => Ended::Released,
        };
    }
    if !keep.is_zero() {
        record.state = State::Kept { id };
        record.ended = Some(id);
        record.until = shared.now + keep;
        // Who is first asks, and learns when the keeping ends.
        if let Some((first, _)) = lock.queue.first(shared.now) {
            shared.tell(first.client(), Hint::Free { id: first });
        }
        return Ended::Kept;
    }
    hand_over(lock, id, shared);
    Ended::Released
}

pub(super) fn cancel(lock: &mut Lock, request: &Request, shared: &mut Shared) -> bool {
    let id = request.id;
    lock.queue.leave(id);
    let was_granted = lock.record.as_ref().is_some_and(|record| record.holds(id));
    match &mut lock.record {
        // Free though it is waited for: it was taken by force, and he was told to ask.
        Some(Record { kind: LockKind::Mutex, state: State::Free, .. }) => {
            hand_over(lock, id, shared);
        }
        Some(record) if !was_granted => record.ended = Some(id),
        _ => hand_over(lock, id, shared),
    }
    was_granted
}

fn grant(lock: &mut Lock, request: &Request, shared: &mut Shared) -> u64 {
    let token = shared.next_token(lock.token());
    lock.record = Some(Record {
        kind: LockKind::Mutex,
        state: State::One { id: request.id, how: Demand::of(request), is_offer: false },
        token,
        is_awaited: !lock.queue.is_empty(),
        ended: lock.ended(),
        until: shared.now + request.ttl,
    });
    token.number
}

/// Offers the mutex to a waiter, for as long as an offer waits.
fn offer(
    lock: &mut Lock,
    id: RequestId,
    waiter: &Waiter,
    ended: Option<RequestId>,
    shared: &mut Shared,
) {
    lock.queue.leave(id);
    let token = shared.next_token(lock.token());
    lock.record = Some(Record {
        kind: LockKind::Mutex,
        state: State::One { id, how: waiter.demand.clone(), is_offer: true },
        token,
        is_awaited: !lock.queue.is_empty(),
        ended,
        until: waiter.offer_ends(shared.now),
    });
    lock.tell((id, waiter), token.number, shared);
}

/// To the first who waits; or, if nobody does, it is free. Those who wait for
/// another kind of lock are left alone; but what was held is free even then.
fn hand_over(lock: &mut Lock, ended: RequestId, shared: &mut Shared) {
    match lock.queue.first(shared.now) {
        Some((first, waiter)) if waiter.demand.lock() == LockKind::Mutex => {
            offer(lock, first, &waiter, Some(ended), shared);
        }
        Some(_) if lock.record.is_none() => {}
        _ => {
            lock.record = Some(Record {
                kind: LockKind::Mutex,
                state: State::Free,
                token: lock.token(),
                is_awaited: !lock.queue.is_empty(),
                ended: Some(ended),
                until: shared.now + GRACE,
            });
        }
    }
}
