//! Who holds a lock, of whatever kind, and who waits for it.

use std::time::Instant;

use super::context::Shared;
use super::lock::{AT_ONCE, Demand, Lock, State};
use crate::core::fence::Fence;
use crate::store::inspection::MOST;
use crate::store::{Holder, LockInfo, LockKind, Owner, RequestId, Waiter};

pub(super) fn inspect(lock: &Lock, shared: &Shared) -> LockInfo {
    let now = shared.now;
    let waiters = lock.queue.waiters().map(|(id, waiter)| Waiter {
        client: shared.client(id),
        owner: name(&waiter.demand),
        is_writer: waiter.demand.is_writer(),
        weight: waiter.demand.weight(),
        waiting_for: shared.since(waiter.position),
    });
    let (waiting, waiters) = (count(lock.queue.waiters()), waiters.take(MOST).collect());
    let Some(record) = &lock.record else {
        return LockInfo { waiters, waiting, ..LockInfo::default() };
    };
    let holder = |id: RequestId, how: &Demand, until: Instant| {
        let token = how.kind.is_fenced().then_some(record.token);
        Holder {
            client: shared.client(id),
            owner: name(how),
            is_writer: how.is_writer(),
            weight: how.weight(),
            fence: token.map(|token| Fence::new(token.number)),
            held_for: token.and_then(|token| token.since).map(|since| now - since),
            remaining: until - now,
        }
    };
    let (holders, held) = match &record.state {
        State::One { id, how, .. } => (vec![holder(*id, how, record.until)], 1),
        State::Several => {
            let holders = lock.holders.live(now).map(|(id, is)| holder(id, &is.how, is.deadline));
            (holders.take(MOST).collect(), count(lock.holders.live(now)))
        }
        State::Free | State::Kept { .. } => (Vec::new(), 0),
    };
    let kept = matches!(record.state, State::Kept { .. }).then(|| record.until - now);
    LockInfo { kind: Some(record.kind), holders, held, kept, waiters, waiting }
}

/// Whether an owner holds the lock. Forgets holders who ended.
pub(super) fn is_held_by(lock: &mut Lock, owner: &Owner, shared: &Shared) -> bool {
    let Some(record) = &lock.record else { return false };
    if record.kind == LockKind::Mutex {
        return matches!(&record.state, State::One { how, .. } if how.owner.as_ref() == Some(owner));
    }
    while lock.holders.purge(shared.now) == AT_ONCE {}
    lock.holders.count_of(Some(owner)) > 0
}

fn name(demand: &Demand) -> Option<String> {
    demand.owner.as_ref().map(|owner| owner.name().to_owned())
}

fn count(of: impl Iterator) -> u64 {
    u64::try_from(of.count()).unwrap_or(u64::MAX)
}
