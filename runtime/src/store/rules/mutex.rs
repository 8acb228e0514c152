//! The commands of a mutex: each function is the Lua script of the same name.

use std::time::Duration;

use super::context::Context;
use super::demand::Demand;
use super::mark::Mark;
use super::queue::Waiter;
use super::recall::{may_recall, other_kind, recall};
use super::state::{LockState, Record, Status, busy};
use super::tell::tell;
use super::time::Time;
use crate::core::error::LossReason;
use crate::store::{
    Adoption, Attempt, Detached, Ended, Hint, Lingering, LockKind, Renewal, Request, RequestId,
    Usage, Waiting,
};

pub(super) fn acquire(
    lock: &mut LockState,
    request: &Request,
    waiting: Option<Waiting>,
    context: &mut Context<'_>,
) -> Attempt {
    let (id, now) = (request.id, context.now);
    let mut is_free = true;
    if let Some(record) = &lock.record {
        if record.ended == Some(id) {
            return Attempt::Ended;
        }
        if record.is_other(LockKind::Mutex) {
            return other_kind(lock, request, waiting.is_some(), context);
        }
        if record.holds(id) {
            return Attempt::Granted { token: take(lock, request, context) };
        }
        is_free = matches!(record.status, Status::Free);
        if !is_free && waiting.is_none() {
            let kept = matches!(record.status, Status::Kept { .. });
            let retry_after = record.until - now;
            if recall(lock, request, false, context) {
                return Attempt::Recalled { retry_after, other_kind: false };
            }
            return Attempt::Busy { retry_after, expiry_added: false, kept };
        }
    }
    if is_free && lock.nobody_waits() {
        return Attempt::Granted { token: grant(lock, request, context) };
    }
    let joined = waiting.map(|waiting| (lock.queue.join(request, waiting, context), waiting));
    if is_free {
        match lock.queue.first(now) {
            Some((first, waiter)) if first != id => {
                if waiter.demand.lock() != LockKind::Mutex {
                    lock.queue.leave(id);
                    return Attempt::WrongKind;
                }
                offer(lock, first, &waiter, lock.ended(), context);
            }
            first => {
                lock.queue.leave(id);
                if first.is_none() && !lock.queue.is_empty() {
                    // More dead waiters are left: ask again.
                    return busy(Duration::ZERO);
                }
                return Attempt::Granted { token: grant(lock, request, context) };
            }
        }
    } else if let Some(record) = &mut lock.record {
        record.may_have_waiters = true;
        // Dead waiters do not recall it, and must not keep others from doing so.
        if waiting.is_some()
            && may_recall(lock)
            && lock.queue.first(now).is_some_and(|(first, _)| first == id)
        {
            recall(lock, request, true, context);
        }
    }
    let left = lock.left(now);
    joined.map_or(busy(left), |joined| lock.queue.queued(id, joined, left, now))
}

/// Returns true if [`take`] would grant the mutex: it is free and nobody waits, or the request
/// holds it already. The include `take_mutex`.
pub(super) fn is_available(lock: &LockState, request: &Request) -> bool {
    let Some(record) = &lock.record else { return lock.nobody_waits() };
    if record.is_other(LockKind::Mutex) || record.ended == Some(request.id) {
        return false;
    }
    record.holds(request.id) || matches!(record.status, Status::Free) && lock.nobody_waits()
}

/// Takes an available mutex, and returns its token.
pub(super) fn take(lock: &mut LockState, request: &Request, context: &mut Context<'_>) -> u64 {
    match &mut lock.record {
        Some(record) if record.holds(request.id) => {
            confirm(record, request, context.now);
            record.token.number
        }
        _ => grant(lock, request, context),
    }
}

pub(super) fn renew(lock: &mut LockState, request: &Request, now: Time) -> Renewal {
    let Some(record) = &mut lock.record else {
        return Renewal::NotHeld(LossReason::Expired);
    };
    if !record.holds(request.id) {
        return Renewal::NotHeld(LossReason::Taken);
    }
    confirm(record, request, now);
    Renewal::Renewed
}

pub(super) fn adopt(
    lock: &mut LockState,
    from: Detached,
    request: &Request,
    context: &mut Context<'_>,
) -> Adoption {
    let Some(record) = &mut lock.record else {
        return Adoption::NotHeld(LossReason::Expired);
    };
    if record.holds(request.id) {
        return Adoption::Adopted { token: take(lock, request, context) };
    }
    match &mut record.status {
        Status::One { id, mark, .. }
            if *id == from.id
                && record.ended != Some(request.id)
                && record.token.number <= from.most =>
        {
            (*id, *mark) = (request.id, Mark::None);
        }
        _ => return Adoption::NotHeld(LossReason::Taken),
    }
    record.token = context.next_token(record.token);
    record.ended = Some(from.id);
    confirm(record, request, context.now);
    Adoption::Adopted { token: record.token.number }
}

pub(super) fn release(
    lock: &mut LockState,
    request: &Request,
    keep: Duration,
    context: &mut Context<'_>,
) -> Ended {
    let id = request.id;
    let is_held = lock.record.as_ref().is_some_and(|record| record.holds(id));
    if !is_held {
        // A late copy of its acquire may have queued it again.
        lock.queue.leave(id);
    }
    let Some(record) = &mut lock.record else {
        return Ended::NotHeld(LossReason::Expired);
    };
    if !is_held {
        return match record.status {
            _ if record.ended != Some(id) => Ended::NotHeld(LossReason::Taken),
            Status::Kept { .. } => Ended::Kept,
            _ => Ended::Released,
        };
    }
    if !keep.is_zero() {
        record.status = Status::Kept { id };
        record.ended = Some(id);
        record.until = context.now + keep;
        // The first waiter asks, and so learns how long the mutex is kept.
        if let Some((first, _)) = lock.queue.first(context.now) {
            context.tell(first.client(), Hint::Free { id: first });
        }
        return Ended::Kept;
    }
    hand_over(lock, id, context);
    Ended::Released
}

/// The script `mutex/release` for a request whose record nobody needs. The store's counter goes on
/// from its token; with tokens from the clock, the record is kept.
pub(super) fn release_and_forget(
    lock: &mut LockState,
    request: &Request,
    context: &mut Context<'_>,
) -> Ended {
    let is_alone = |it: &Record| {
        let is_lease =
            matches!(it.status, Status::One { id, is_offer: false, .. } if id == request.id);
        is_lease && !it.may_have_waiters
    };
    if context.counters.outlive_records() && lock.record.as_ref().is_some_and(is_alone) {
        lock.record = None;
        return Ended::Released;
    }
    release(lock, request, Duration::ZERO, context)
}

/// Lets the client keep the mutex without using it. If others want it, a lease that nobody uses is
/// released.
pub(super) fn linger(
    lock: &mut LockState,
    request: &Request,
    usage: Usage,
    context: &mut Context<'_>,
) -> Lingering {
    let id = request.id;
    if !lock.record.as_ref().is_some_and(|record| record.holds(id)) {
        // A late copy of its acquire may have queued it again.
        lock.queue.leave(id);
    }
    let Some(record) = &mut lock.record else {
        return Lingering::Ended(Ended::NotHeld(LossReason::Expired));
    };
    if !record.holds(id) {
        let was_released = record.ended == Some(id);
        let ended = Ended::NotHeld(LossReason::Taken);
        return Lingering::Ended(if was_released { Ended::Released } else { ended });
    }
    let is_recalled = matches!(&record.status, Status::One { mark, .. } if *mark == Mark::Recalled);
    if usage.is_recalled() && is_recalled
        || record.may_have_waiters && lock.queue.first(context.now).is_some()
    {
        if usage.is_in_use() {
            return Lingering::Wanted;
        }
        hand_over(lock, id, context);
        return Lingering::Ended(Ended::Released);
    }
    let has_queue = !lock.queue.is_empty();
    record.token = context.reserve(record.token);
    record.may_have_waiters = has_queue;
    let before = record.until;
    confirm(record, request, context.now);
    if usage.is_in_use() {
        // A renewal that its holder counts on may have come first.
        record.until = record.until.max(before);
    }
    if let Status::One { mark, .. } = &mut record.status {
        *mark = Mark::Lingers;
    }
    Lingering::Kept { token: record.token.number }
}

pub(super) fn cancel(lock: &mut LockState, request: &Request, context: &mut Context<'_>) -> bool {
    let id = request.id;
    lock.queue.leave(id);
    let was_granted = lock.record.as_ref().is_some_and(|record| record.holds(id));
    match &mut lock.record {
        // A free mutex with waiters was taken by force, and this request was told to ask.
        Some(Record { kind: LockKind::Mutex, status: Status::Free, .. }) => {
            hand_over(lock, id, context);
        }
        Some(record) if !was_granted => record.ended = Some(id),
        _ => hand_over(lock, id, context),
    }
    was_granted
}

/// Lets a lease run for its whole TTL from now. An offer becomes a lease.
fn confirm(record: &mut Record, request: &Request, now: Time) {
    if let Status::One { is_offer, .. } = &mut record.status {
        *is_offer = false;
    }
    record.until = now + request.ttl;
}

fn grant(lock: &mut LockState, request: &Request, context: &mut Context<'_>) -> u64 {
    let token = context.next_token(lock.token());
    lock.record = Some(Record {
        kind: LockKind::Mutex,
        status: Status::One {
            id: request.id,
            how: Demand::of(request),
            is_offer: false,
            mark: Mark::None,
        },
        token,
        may_have_waiters: !lock.queue.is_empty(),
        ended: lock.ended(),
        until: context.now + request.ttl,
    });
    token.number
}

/// Offers the mutex to a waiter.
fn offer(
    lock: &mut LockState,
    id: RequestId,
    waiter: &Waiter,
    ended: Option<RequestId>,
    context: &mut Context<'_>,
) {
    lock.queue.leave(id);
    let token = context.next_token(lock.token());
    lock.record = Some(Record {
        kind: LockKind::Mutex,
        status: Status::One { id, how: waiter.demand.clone(), is_offer: true, mark: Mark::None },
        token,
        may_have_waiters: !lock.queue.is_empty(),
        ended,
        until: waiter.offer_ends(context.now),
    });
    tell(&mut lock.queue, (id, waiter), token.number, context);
}

/// Offers the mutex to the first waiter, or frees it if nobody waits. A waiter for another
/// kind of lock gets no offer, but a mutex that was held becomes free even then.
pub(super) fn hand_over(lock: &mut LockState, ended: RequestId, context: &mut Context<'_>) {
    match lock.queue.first(context.now) {
        Some((first, waiter)) if waiter.demand.lock() == LockKind::Mutex => {
            offer(lock, first, &waiter, Some(ended), context);
        }
        Some(_) if lock.record.is_none() => {}
        _ => {
            lock.record = Some(Record {
                kind: LockKind::Mutex,
                status: Status::Free,
                token: lock.token(),
                may_have_waiters: !lock.queue.is_empty(),
                ended: Some(ended),
                until: context.free_until(lock.token()),
            });
        }
    }
}
