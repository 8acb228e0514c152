//! The commands of a semaphore, a reentrant mutex and a read-write lock. They are the same but
//! for the rule of each kind, in [`kinds`](super::kinds).

use std::time::Duration;

use super::context::Context;
use super::demand::Demand;
use super::mark::{ClientMark, Mark};
use super::recall::{other_kind, recall_clients};
use super::serve::{Served, serve, settle};
use super::state::{LockState, Record, Status, busy};
use super::time::Time;
use crate::core::error::LossReason;
use crate::store::{
    Adoption, Attempt, Ended, Kind, Lingering, LockKind, Renewal, Request, RequestId, Usage,
    Waiting,
};

pub(super) fn acquire(
    lock: &mut LockState,
    request: &Request,
    waiting: Option<Waiting>,
    context: &mut Context<'_>,
) -> Attempt {
    match refusal(lock, request) {
        Some(Attempt::WrongKind) => {
            return other_kind(lock, request, waiting.is_some(), context);
        }
        Some(refusal) => return refusal,
        None => {}
    }
    let (demand, now) = (Demand::of(request), context.now);
    let nobody_waits = lock.nobody_waits();
    let has_it = lock.holders.is_live(request.id, now);
    // To ask for an owner removes ended holders; that of a reentrant mutex is always asked for.
    let asks_owner = !has_it || request.kind == Kind::Reentrant;
    let is_reentry = asks_owner && lock.holders.is_reentry(&demand, now);
    if is_reentry
        && demand.is_writer()
        && (waiting.is_some() || !lock.holders.is_sole_reader(demand.owner.as_ref(), now))
    {
        lock.queue.leave(request.id);
        // Readers that linger release what nobody uses.
        if waiting.is_none() && recall_clients(lock, request, false, context) {
            let retry_after = lock.holders.free_in(&demand, now);
            return Attempt::Recalled { retry_after, other_kind: false };
        }
        // With expired holders left in the set, it is not known: ask again.
        let is_known = lock.holders.first_ends_at().is_none_or(|first| first > now);
        return if is_known { Attempt::WouldDeadlock } else { busy(Duration::ZERO) };
    }
    if has_it || is_reentry || nobody_waits && lock.holders.fits(&demand, now) {
        return let_in(lock, request, context);
    }
    if nobody_waits && waiting.is_none() {
        let left = lock.holders.free_in(&demand, now);
        return refused(lock, request, left, context);
    }
    line_up(lock, request, waiting, context)
}

/// Returns true if [`take`] would grant the permit: there is room and nobody waits, or the
/// request has it already. The include `take_permit`.
pub(super) fn is_available(lock: &mut LockState, request: &Request, now: Time) -> bool {
    if refusal(lock, request).is_some() {
        return false;
    }
    lock.holders.is_live(request.id, now)
        || lock.nobody_waits() && lock.holders.fits(&Demand::of(request), now)
}

/// Takes an available permit.
pub(super) fn take(lock: &mut LockState, request: &Request, context: &mut Context<'_>) {
    let _granted = let_in(lock, request, context);
}

/// Lets a live lease run for its whole TTL from now.
pub(super) fn renew(lock: &mut LockState, request: &Request, now: Time) -> Renewal {
    let Some(until) = lock.holders.extend(request.id, now + request.ttl, now) else {
        return Renewal::NotHeld(lost(lock.holders.is_anothers(&Demand::of(request), now)));
    };
    if let Some(record) = &mut lock.record {
        record.until = record.until.max(until);
    }
    Renewal::Renewed
}

/// Puts a request in the place of a holder, for its whole TTL from now. The holder counts as
/// ended.
pub(super) fn adopt(
    lock: &mut LockState,
    from: RequestId,
    request: &Request,
    context: &mut Context<'_>,
) -> Adoption {
    let (id, how, now) = (request.id, Demand::of(request), context.now);
    let kind = how.lock();
    let Some(record) = &mut lock.record else {
        return Adoption::NotHeld(LossReason::Expired);
    };
    if record.is_other(kind) {
        return Adoption::NotHeld(LossReason::Taken);
    }
    if !lock.holders.is_live(id, now) {
        if record.ended == Some(id) {
            return Adoption::NotHeld(LossReason::Taken);
        }
        if !lock.holders.is_live_as(from, &how, now) {
            return Adoption::NotHeld(lost(record.ended == Some(from)));
        }
        lock.holders.take_out(from);
        record.ended = Some(from);
    }
    let own = lock.holders.fence(id, &how, &mut record.token, context);
    let until = lock.holders.put_in(id, how, now + request.ttl, now);
    // The former lease may have been the last to end.
    let until = lock.holders.settle(now).unwrap_or(until);
    record.until = until.max(context.clock_reaches(record.token));
    Adoption::Adopted { token: own }
}

pub(super) fn release(lock: &mut LockState, request: &Request, context: &mut Context<'_>) -> Ended {
    let (is_over, now) = (give_back(lock, request, context), context.now);
    if !is_over {
        return Ended::NotHeld(lost(lock.holders.is_anothers(&Demand::of(request), now)));
    }
    // All holders of a reentrant mutex belong to one owner.
    if request.kind == Kind::Reentrant && lock.holders.owns(request.owner.as_ref(), now) {
        let left = lock.holders.live(now).count();
        if left > 0 {
            return Ended::StillHeld(u32::try_from(left).unwrap_or(u32::MAX));
        }
    }
    Ended::Released
}

/// Lets the client keep a lease without using it. If others want the lock, a lease that nobody
/// uses is released.
pub(super) fn linger(
    lock: &mut LockState,
    request: &Request,
    usage: Usage,
    context: &mut Context<'_>,
) -> Lingering {
    let (id, now) = (request.id, context.now);
    let Some(deadline) = lock.holders.deadline(id, now) else {
        let was_released = give_back(lock, request, context);
        let expired = Ended::NotHeld(LossReason::Expired);
        return Lingering::Ended(if was_released { Ended::Released } else { expired });
    };
    let is_recalled = lock.holders.mark(id.client(), now) == Some(Mark::Recalled);
    if usage.is_recalled() && is_recalled || !lock.nobody_waits() && lock.queue.first(now).is_some()
    {
        if usage.is_in_use() {
            return Lingering::Wanted;
        }
        give_back(lock, request, context);
        return Lingering::Ended(Ended::Released);
    }
    let mut until = now + request.ttl;
    if usage.is_in_use() {
        // A renewal that its holder counts on may have come first.
        until = until.max(deadline);
    }
    lock.holders.extend(id, until, now);
    // The mark covers all leases of the client.
    let before = lock.holders.marks.get(&id.client()).map_or(until, |mark| mark.until);
    let mark = ClientMark { mark: Mark::Lingers, until: until.max(before) };
    lock.holders.marks.insert(id.client(), mark);
    lock.holders.drop_ended_marks(now);
    let mut token = 0;
    if let Some(record) = &mut lock.record {
        record.until = record.until.max(until);
        if request.kind == Kind::Write {
            record.token = context.reserve(record.token);
            token = record.token.number;
        }
    }
    Lingering::Kept { token }
}

/// Takes an acquisition back, and says whether it was granted. Serves the queue even if the
/// request held nothing: it may have been in the way of other waiters.
pub(super) fn cancel(lock: &mut LockState, request: &Request, context: &mut Context<'_>) -> bool {
    let id = request.id;
    let was_granted = lock.holders.is_live(id, context.now);
    // An expired holder stays until it is purged.
    if was_granted {
        lock.holders.take_out(id);
    }
    lock.queue.leave(id);
    move_on(lock, Demand::of(request).lock(), id, context);
    was_granted
}

/// Why the request can have no lease at all.
fn refusal(lock: &LockState, request: &Request) -> Option<Attempt> {
    let record = lock.record.as_ref()?;
    if record.ended == Some(request.id) {
        return Some(Attempt::Ended);
    }
    record.is_other(Demand::of(request).lock()).then_some(Attempt::WrongKind)
}

/// Adds a holder, or starts its TTL anew.
fn let_in(lock: &mut LockState, request: &Request, context: &mut Context<'_>) -> Attempt {
    let (how, may_have_waiters) = (Demand::of(request), !lock.nobody_waits());
    let limit = how.limit();
    // An owner that re-enters may also have been in the queue.
    lock.queue.leave(request.id);
    let (kind, mut token) = (how.lock(), lock.token());
    let own = lock.holders.fence(request.id, &how, &mut token, context);
    let until = lock.holders.put_in(request.id, how, context.now + request.ttl, context.now);
    let until = until.max(context.clock_reaches(token));
    let (status, ended) = (Status::Many { limit }, lock.ended());
    lock.record = Some(Record { kind, status, token, may_have_waiters, ended, until });
    Attempt::Granted { token: own }
}

/// Queues a request that was not let in, if it waits. Then serves the waiters whose turn it
/// is, which may be this one.
fn line_up(
    lock: &mut LockState,
    request: &Request,
    waiting: Option<Waiting>,
    context: &mut Context<'_>,
) -> Attempt {
    let (id, now, demand) = (request.id, context.now, Demand::of(request));
    let kind = demand.lock();
    let joined = waiting.map(|waiting| (lock.queue.join(request, waiting, context), waiting));
    let first = lock.queue.first(now);
    let is_alone = first.is_none() && lock.queue.is_empty();
    if !is_alone && first.as_ref().is_none_or(|(_, waiter)| waiter.demand.lock() != kind) {
        lock.queue.leave(id);
        // With more dead waiters left, the request has to ask again.
        return if first.is_some() { Attempt::WrongKind } else { busy(Duration::ZERO) };
    }
    let mut token = lock.token();
    let mut served = serve(lock, kind, Some(request), &mut token, context);
    // All waiters were dead.
    if is_alone && lock.holders.fits(&demand, now) {
        served.mine = Some(lock.holders.fence(id, &demand, &mut token, context));
        lock.holders.put_in(id, demand.clone(), now + request.ttl, now);
        served.limit = demand.limit();
    }
    match &mut lock.record {
        Some(record) if served.mine.is_none() && served.offers.is_empty() => {
            record.may_have_waiters = true;
        }
        _ => settle(lock, kind, token, lock.ended(), served.limit, context),
    }
    served.tell_all(lock, context);
    if let Some(token) = served.mine {
        return Attempt::Granted { token };
    }
    let left = lock.holders.free_in(&demand, now);
    let Some(joined) = joined else { return refused(lock, request, left, context) };
    if lock.queue.ids().next() == Some(id) {
        recall_clients(lock, request, true, context);
    }
    lock.queue.queued(id, joined, left, now)
}

/// The answer to a request that was not let in and does not wait.
fn refused(
    lock: &mut LockState,
    request: &Request,
    left: Duration,
    context: &mut Context<'_>,
) -> Attempt {
    if recall_clients(lock, request, false, context) {
        return Attempt::Recalled { retry_after: left, other_kind: false };
    }
    busy(left)
}

/// After a holder or a waiter has gone: serves the queue, and remembers the request.
fn move_on(lock: &mut LockState, kind: LockKind, id: RequestId, context: &mut Context<'_>) {
    let is_other = if let Some(record) = &lock.record {
        record.is_other(kind)
    } else {
        let first = lock.queue.first(context.now);
        first.is_some_and(|(_, waiter)| waiter.demand.lock() != kind)
    };
    // A name that is in use for something else is left alone.
    if is_other {
        return;
    }
    let (mut token, mut served) = (lock.token(), Served::default());
    if !lock.nobody_waits() {
        served = serve(lock, kind, None, &mut token, context);
    }
    settle(lock, kind, token, Some(id), served.limit, context);
    served.tell_all(lock, context);
}

/// Ends a lease. True if the request held it, or was the last to end.
fn give_back(lock: &mut LockState, request: &Request, context: &mut Context<'_>) -> bool {
    let id = request.id;
    if !lock.holders.is_live(id, context.now) {
        // A late copy of its acquire may have queued it again.
        lock.queue.leave(id);
        return lock.ended() == Some(id);
    }
    lock.holders.take_out(id);
    move_on(lock, Demand::of(request).lock(), id, context);
    true
}

/// Why a lease has ended.
fn lost(has_others: bool) -> LossReason {
    if has_others { LossReason::Taken } else { LossReason::Expired }
}
