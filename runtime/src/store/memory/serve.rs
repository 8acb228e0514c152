//! Who has next a lock that several may hold, and what the record says of it: the
//! include `serve`, function by function.

use std::time::{Duration, Instant};

use super::context::{Shared, Token};
use super::lock::{AT_ONCE, Demand, GRACE, Lock, Record, State, busy};
use super::queue::Waiter;
use crate::core::error::LossReason;
use crate::store::{
    Adoption, Attempt, LIVE_MOST, LockKind, Renewal, Request, RequestId, Stamp, Waiting,
};

/// Who was let in.
#[derive(Default)]
struct Served {
    /// The token of the one who asks, if it was among them.
    mine: Option<u64>,
    /// Who is to be told what, when the record is written.
    offers: Vec<(RequestId, Waiter, u64)>,
}

impl Served {
    fn tell(&self, lock: &mut Lock, shared: &mut Shared) {
        for (id, waiter, token) in &self.offers {
            lock.tell((*id, waiter), *token, shared);
        }
    }
}

/// Gives it to those who wait, in order, for as long as it fits the first: what is
/// free may stay so behind a heavy one, and so nobody starves. They are offers,
/// which wait for their waiter; `me` has it at once.
fn serve(
    lock: &mut Lock,
    kind: LockKind,
    me: Option<&Request>,
    token: &mut Token,
    shared: &mut Shared,
) -> Served {
    let (now, mut served) = (shared.now, Served::default());
    for _ in 0..AT_ONCE {
        let Some((first, waiter)) = lock.queue.first(now) else { break };
        if waiter.demand.lock() != kind || !lock.holders.fits(&waiter.demand, now) {
            break;
        }
        lock.queue.leave(first);
        let own = lock.holders.fence(first, &waiter.demand, token, shared);
        let deadline = if let Some(me) = me.filter(|me| me.id == first) {
            served.mine = Some(own);
            now + me.ttl
        } else {
            served.offers.push((first, waiter.clone(), own));
            waiter.offer_ends(now)
        };
        lock.holders.put_in(first, waiter.demand, deadline);
    }
    served
}

/// Writes the record: held as long as anybody holds it, then free for a while. A token that
/// another store's clock gave stays until the clock of this one is there.
fn settle(
    lock: &mut Lock,
    kind: LockKind,
    token: Token,
    ended: Option<RequestId>,
    shared: &Shared,
) {
    let now = shared.now;
    let last = lock.holders.settle(now).map(|last| last.max(shared.comes_to(token)));
    lock.record = Some(Record {
        kind,
        state: if last.is_some() { State::Several } else { State::Free },
        token,
        is_awaited: !lock.queue.is_empty(),
        ended,
        until: last.unwrap_or(now + GRACE),
    });
}

/// Why there can be no lease.
pub(super) fn look(lock: &Lock, request: &Request) -> Option<Attempt> {
    let record = lock.record.as_ref()?;
    if record.ended == Some(request.id) {
        return Some(Attempt::Ended);
    }
    record.is_other(Demand::of(request).lock()).then_some(Attempt::WrongKind)
}

/// Lets a holder in, or starts its TTL anew.
pub(super) fn let_in(lock: &mut Lock, request: &Request, shared: &mut Shared) -> Attempt {
    let (how, is_awaited) = (Demand::of(request), !lock.nobody_waits());
    // An owner who has it comes in again past his own place in the queue.
    lock.queue.leave(request.id);
    let (kind, mut token) = (how.lock(), lock.token());
    let own = lock.holders.fence(request.id, &how, &mut token, shared);
    let until = lock.holders.put_in(request.id, how, shared.now + request.ttl);
    let until = until.max(shared.comes_to(token));
    let (state, ended) = (State::Several, lock.ended());
    lock.record = Some(Record { kind, state, token, is_awaited, ended, until });
    Attempt::Granted { token: own }
}

/// One who is not let in at once joins the queue, if it waits; and whoever has his
/// turn is served, be it this one.
pub(super) fn line_up(
    lock: &mut Lock,
    request: &Request,
    waiting: Option<Waiting>,
    shared: &mut Shared,
) -> Attempt {
    let (id, now, demand) = (request.id, shared.now, Demand::of(request));
    let kind = demand.lock();
    let place = waiting.map(|waiting| (lock.queue.join(request, waiting, shared), waiting));
    let first = lock.queue.first(now);
    let is_alone = first.is_none() && lock.queue.is_empty();
    if !is_alone && first.as_ref().is_none_or(|(_, waiter)| waiter.demand.lock() != kind) {
        lock.queue.leave(id);
        // With more dead ones there, it is to ask again.
        return if first.is_some() { Attempt::WrongKind } else { busy(Duration::ZERO) };
    }
    let mut token = lock.token();
    let mut served = serve(lock, kind, Some(request), &mut token, shared);
    // Only dead ones were there.
    if is_alone && lock.holders.fits(&demand, now) {
        served.mine = Some(lock.holders.fence(id, &demand, &mut token, shared));
        lock.holders.put_in(id, demand, now + request.ttl);
    }
    match &mut lock.record {
        Some(record) if served.mine.is_none() && served.offers.is_empty() => {
            record.is_awaited = true;
        }
        _ => settle(lock, kind, token, lock.ended(), shared),
    }
    served.tell(lock, shared);
    if let Some(token) = served.mine {
        return Attempt::Granted { token };
    }
    let left = lock.holders.free_in(kind, now);
    place.map_or(busy(left), |place| lock.queued(id, place, left, shared))
}

/// After a holder or a waiter went: serves who waits, and remembers whose it was.
fn move_on(lock: &mut Lock, kind: LockKind, id: RequestId, shared: &mut Shared) {
    let is_other = if let Some(record) = &lock.record {
        record.is_other(kind)
    } else {
        let first = lock.queue.first(shared.now);
        first.is_some_and(|(_, waiter)| waiter.demand.lock() != kind)
    };
    // A name that is in use for something else is left alone.
    if is_other {
        return;
    }
    let (mut token, mut served) = (lock.token(), Served::default());
    if !lock.nobody_waits() {
        served = serve(lock, kind, None, &mut token, shared);
    }
    settle(lock, kind, token, Some(id), shared);
    served.tell(lock, shared);
}

/// Lets an offer, of whatever kind of lock, last until its waiter's heartbeat ends: the
/// script `lock/keep_offer`.
pub(super) fn keep_offer(lock: &mut Lock, request: &Request, until: Stamp, shared: &Shared) {
    let (id, now) = (request.id, shared.now);
    let is_believed = |until: &Instant| *until > now && *until - now <= LIVE_MOST;
    let Some(until) = shared.time_of(until).filter(is_believed) else { return };
    let Some(record) = &mut lock.record else { return };
    let is_offer = matches!(record.state, State::One { id: it, is_offer: true, .. } if it == id);
    if is_offer || lock.holders.keep(id, until, now) {
        record.until = record.until.max(until);
    }
}

/// Puts a request in the place of a holder, for its whole TTL from now. The one before
/// counts as ended.
pub(super) fn adopt(
    lock: &mut Lock,
    from: RequestId,
    request: &Request,
    shared: &mut Shared,
) -> Adoption {
    let (id, how, now) = (request.id, Demand::of(request), shared.now);
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
    let own = lock.holders.fence(id, &how, &mut record.token, shared);
    let until = lock.holders.put_in(id, how, now + request.ttl);
    // The one before may have been the last to end.
    record.until = lock.holders.settle(now).unwrap_or(until);
    record.state = State::Several;
    Adoption::Adopted { token: own }
}

/// Ends what a holder has, and says whether it had it, or ended it before.
pub(super) fn give_back(lock: &mut Lock, request: &Request, shared: &mut Shared) -> bool {
    let id = request.id;
    if !lock.holders.is_live(id, shared.now) {
        // A late copy of an ask may have queued it again.
        lock.queue.leave(id);
        return lock.ended() == Some(id);
    }
    lock.holders.take_out(id);
    move_on(lock, Demand::of(request).lock(), id, shared);
    true
}

/// Takes an acquisition back, and says whether it had been granted. Serves who
/// waits even if it held nothing: what was in their way may be gone.
pub(super) fn take_back(lock: &mut Lock, request: &Request, shared: &mut Shared) -> bool {
    let id = request.id;
    let was_granted = lock.holders.is_live(id, shared.now);
    // One that ended is left to be forgotten.
    if was_granted {
        lock.holders.take_out(id);
    }
    lock.queue.leave(id);
    move_on(lock, Demand::of(request).lock(), id, shared);
    was_granted
}

/// Lets a lease run for its whole TTL from now; `has_others` says whether one it can't
/// be beside has the lock since, if it ended.
pub(super) fn last_anew(
    lock: &mut Lock,
    request: &Request,
    has_others: impl FnOnce(&mut Lock) -> bool,
    now: Instant,
) -> Renewal {
    let Some(until) = lock.holders.last_anew(request.id, now + request.ttl, now) else {
        return Renewal::NotHeld(lost(has_others(lock)));
    };
    if let Some(record) = &mut lock.record {
        record.until = record.until.max(until);
    }
    Renewal::Renewed
}

/// Why a lease that ended is no more.
pub(super) fn lost(has_others: bool) -> LossReason {
    if has_others { LossReason::Taken } else { LossReason::Expired }
}
