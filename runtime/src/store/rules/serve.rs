//! Gives a lock that can have several holders to its waiters, and writes the record of it: the
//! include `serve`.

use super::context::Context;
use super::counters::Token;
use super::limits::BATCH;
use super::queue::Waiter;
use super::state::{LockState, Record, Status};
use super::tell::tell;
use crate::store::{LockKind, Request, RequestId};

/// The waiters that were served.
#[derive(Default)]
pub(super) struct Served {
    /// The token of the request that asks, if it was among them.
    pub(super) mine: Option<u64>,
    /// The others: each has an offer, and is told when the record is written.
    pub(super) offers: Vec<(RequestId, Waiter, u64)>,
    /// The limit that the last of them was counted against.
    pub(super) limit: Option<u32>,
}

impl Served {
    pub(super) fn tell_all(&self, lock: &mut LockState, context: &mut Context<'_>) {
        for (id, waiter, token) in &self.offers {
            tell(&mut lock.queue, (*id, waiter), *token, context);
        }
    }
}

/// Serves the waiters in order, as long as the first one fits. Room behind a heavy waiter may
/// stay free, so that it does not starve. The request `me` gets the lock at once, all others
/// get an offer.
pub(super) fn serve(
    lock: &mut LockState,
    kind: LockKind,
    me: Option<&Request>,
    token: &mut Token,
    context: &mut Context<'_>,
) -> Served {
    let (now, mut served) = (context.now, Served::default());
    for _ in 0..BATCH {
        let Some((first, waiter)) = lock.queue.first(now) else { break };
        if waiter.demand.lock() != kind || !lock.holders.fits(&waiter.demand, now) {
            break;
        }
        lock.queue.leave(first);
        let own = lock.holders.fence(first, &waiter.demand, token, context);
        let deadline = if let Some(me) = me.filter(|me| me.id == first) {
            served.mine = Some(own);
            now + me.ttl
        } else {
            served.offers.push((first, waiter.clone(), own));
            waiter.offer_ends(now)
        };
        served.limit = waiter.demand.limit();
        lock.holders.put_in(first, waiter.demand, deadline, now);
    }
    served
}

/// Writes the record: held until the last lease ends, or free for a while. A token that came
/// from another store's clock stays until the clock of this one reaches it.
pub(super) fn settle(
    lock: &mut LockState,
    kind: LockKind,
    token: Token,
    ended: Option<RequestId>,
    limit: Option<u32>,
    context: &Context<'_>,
) {
    let now = context.now;
    let limit = limit.or(lock.limit());
    let last = lock.holders.settle(now).map(|last| last.max(context.clock_reaches(token)));
    lock.record = Some(Record {
        kind,
        status: if last.is_some() { Status::Many { limit } } else { Status::Free },
        token,
        may_have_waiters: !lock.queue.is_empty(),
        ended,
        until: last.unwrap_or(context.free_until(token)),
    });
}
