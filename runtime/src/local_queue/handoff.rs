//! Handing over inside a process. For the time of a turn a released lease goes to the
//! next who waits here, with the store's grant and without a command.
//!
//! The store sees one request that holds the lock. Each who has it within the turn has
//! a lease of its own: its own token, from the block that the grant reserved, its own
//! renewals and its own end. Those who wait in other processes wait for a turn longer at
//! the most: it is short, and bounded by the block.
//!
//! A turn ends in time whatever the callers' runtimes do: over Redis the keeper ends it.
//! What was handed over and not taken up by then is taken back.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::{Admission, LocalQueue, LocalQueues, Name, Place, What, name, weight};
use crate::client::Client;
use crate::core::fence::Fence;
use crate::core::key::LockKey;
use crate::keeper::Doubt;
use crate::state::lease::{Grant, Granted, LocalLease};
use crate::state::shutdown::ActivityGuard;
use crate::store::{Kind, Request, StoreFuture, TOKENS};

/// For how long a turn lasts. What runs for longer under a lock does not notice two
/// round trips; and who waits elsewhere waits for so much longer, and one section.
const TURN: Duration = Duration::from_millis(20);

/// A turn of a client's. Later ones are greater.
pub(crate) type TurnId = u64;

/// The turns in a line, in the order in which they began.
#[derive(Default)]
pub(super) struct Turns {
    running: VecDeque<Turn>,
    weight: u64,
}

struct Turn {
    id: TurnId,
    weight: u64,
    ends: Instant,
    /// How often the lease may still be handed over.
    left: u64,
    /// What the next takes up, who has been told.
    handoff: Option<Handoff>,
}

/// When turns end, in all lines: they last equally long, so the first to begin is the
/// first to end. Some have ended before.
#[derive(Default)]
pub(super) struct Ends {
    in_order: VecDeque<(Instant, Name, TurnId)>,
    /// A task is there to end them.
    is_timed: bool,
}

impl Turns {
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// The weight of all that is out.
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    fn begin(&mut self, id: TurnId, weight: u64, ends: Instant) {
        self.weight += weight;
        self.running.push_back(Turn { id, weight, ends, left: TOKENS - 1, handoff: None });
    }

    fn find(&mut self, id: TurnId) -> Option<&mut Turn> {
        let at = self.running.binary_search_by_key(&id, |turn| turn.id).ok()?;
        self.running.get_mut(at)
    }

    /// Ends a turn, with what nobody has taken up.
    fn end(&mut self, id: TurnId) -> Option<Handoff> {
        let at = self.running.binary_search_by_key(&id, |turn| turn.id).ok()?;
        let turn = self.running.remove(at)?;
        self.weight -= turn.weight;
        turn.handoff
    }
}

impl LocalQueues {
    /// The next turn whose time is over.
    fn next_over(&self, now: Instant) -> Option<(Name, TurnId)> {
        let in_order = &mut self.all().ends.in_order;
        in_order.front().filter(|(ends, ..)| *ends <= now)?;
        in_order.pop_front().map(|(_, name, id)| (name, id))
    }

    /// The store has granted what was asked for. If those who wait here may have it
    /// next, a turn begins.
    pub(super) fn begin_turn(
        self: &Arc<Self>,
        name: &Name,
        what: &What,
        ttl: Duration,
        generation: u64,
    ) -> Option<TurnId> {
        let can_be = self.hands_over && matches!(what.0, Kind::Mutex | Kind::Semaphore { .. });
        let turn = self.change(name, None, |queue| {
            queue.dismiss(what.0, generation);
            if !can_be || !queue.first_suits(what, ttl) {
                return None;
            }
            let (id, ends) = (self.number(), self.now() + TURN);
            queue.turns.begin(id, weight(what.0), ends);
            Some((id, ends))
        });
        let (id, ends) = turn?;
        let is_timed = {
            let ends_of_all = &mut self.all().ends;
            ends_of_all.in_order.push_back((ends, name.clone(), id));
            std::mem::replace(&mut ends_of_all.is_timed, true)
        };
        if !is_timed && !self.client.keeper.spawn(end_in_time(Timer(Arc::downgrade(self)))) {
            // Without timers it would not end in time.
            self.all().ends.is_timed = false;
            drop(self.change(name, None, |queue| queue.turns.end(id)));
            return None;
        }
        Some(id)
    }

    /// Gives a lease that has just ended to the first who waits here, if he asks for the
    /// same: he is to be told. Nothing if it is to be released.
    pub(crate) fn hand_over(
        self: &Arc<Self>,
        id: TurnId,
        local: &LocalLease,
        rest: Grant,
    ) -> Option<HandedOver> {
        let request = &local.request;
        let name = name(&request.key, request.kind, request.owner.as_ref());
        let what = (request.kind, request.owner.clone());
        let place = {
            let mut all = self.all();
            let queue = all.queues.get_mut(&name)?;
            let now = self.now();
            let place = queue.next_in_turn(id, &what, request.ttl, now)?;
            let turn = queue.turns.find(id)?;
            turn.left -= 1;
            turn.handoff = Some(Handoff::new(&self.client, local, rest));
            queue.sign = now;
            place
        };
        Some(HandedOver { place, admission: Admission::in_turn(self, name, what, id) })
    }

    /// What was handed over, if its turn is not over.
    pub(super) fn take_up(self: &Arc<Self>, name: &Name, id: TurnId) -> Option<Handoff> {
        let now = self.now();
        let handoff = self.change(name, None, |queue| {
            let turn = queue.turns.find(id)?;
            if now < turn.ends { turn.handoff.take().map(Ok) } else { queue.turns.end(id).map(Err) }
        });
        // What is too late is released, now that nothing is locked.
        handoff?.ok()
    }

    /// Passes on what one did not take up, or releases it.
    pub(super) fn pass_on(self: &Arc<Self>, name: &Name, what: &What, id: TurnId) {
        let place = self.change(name, None, |queue| {
            let ttl = queue.turns.find(id)?.handoff.as_ref()?.ttl()?;
            let place = queue.next_in_turn(id, what, ttl, self.now());
            Some(place.ok_or_else(|| queue.turns.end(id)))
        });
        if let Some(Ok(place)) = place {
            let admission = Admission::in_turn(self, name.clone(), what.clone(), id);
            HandedOver { place, admission }.tell();
        }
    }

    /// Ends a turn: the next asks the store.
    pub(crate) fn end_turn(self: &Arc<Self>, request: &Request, id: TurnId) {
        let name = name(&request.key, request.kind, request.owner.as_ref());
        drop(self.change(&name, None, |queue| queue.turns.end(id)));
    }

    /// Ends all turns of a lock: what was granted by then is not to be handed over.
    pub(crate) fn end_turns(self: &Arc<Self>, key: &LockKey) {
        for kind in [Kind::Mutex, Kind::Semaphore { limit: 1, weight: 1 }] {
            let end = |queue: &mut LocalQueue| Some(std::mem::take(&mut queue.turns));
            drop(self.change(&name(key, kind, None), None, end));
        }
    }
}

impl LocalQueue {
    /// Whether the first who waits may have a lease of this kind and TTL.
    fn first_suits(&self, what: &What, ttl: Duration) -> bool {
        self.waiting.front().is_some_and(|first| first.what == *what && first.ttl == ttl)
    }

    /// Who is next in a turn, if it goes on.
    fn next_in_turn(
        &mut self,
        id: TurnId,
        what: &What,
        ttl: Duration,
        now: Instant,
    ) -> Option<Place> {
        self.turns.find(id).filter(|turn| turn.left > 0 && now < turn.ends)?;
        if self.first_suits(what, ttl) { self.waiting.pop_front() } else { None }
    }
}

/// A lease that lies there for the next, who was not told yet.
#[must_use = "the next waits to be told"]
pub(crate) struct HandedOver {
    place: Place,
    admission: Admission,
}

impl HandedOver {
    /// Tells the next. If it is gone, its admission is dropped, and so passed on.
    pub(crate) fn tell(self) {
        let _ = self.place.admit.send(self.admission);
    }
}

/// The task that ends turns. Where its runtime ends before it, the next has another.
struct Timer(Weak<LocalQueues>);

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(queues) = self.0.upgrade() {
            queues.all().ends.is_timed = false;
        }
    }
}

/// Ends turns when their time is over, be it that a lease is held for longer or that
/// who is to have it does not take it up: then others are let in to ask the store.
async fn end_in_time(mut timer: Timer) {
    let mut left = TURN;
    loop {
        sleep(left).await;
        let Some(queues) = timer.0.upgrade() else { return };
        let now = queues.now();
        while let Some((name, id)) = queues.next_over(now) {
            drop(queues.change(&name, None, |queue| queue.turns.end(id)));
        }
        let ends = &mut queues.all().ends;
        if let Some((first, ..)) = ends.in_order.front() {
            left = first.saturating_duration_since(now);
        } else {
            ends.is_timed = false;
            timer.0 = Weak::new();
            return;
        }
    }
}

/// What goes from one to the next within a turn: the store has granted it, and nobody
/// has the lease. It is taken back when dropped.
pub(super) struct Handoff {
    client: Arc<Client>,
    /// It is there until it is a lease.
    request: Option<Request>,
    fence: Option<Fence>,
    grant: Grant,
    /// It is there until it is a lease.
    activity: Option<ActivityGuard>,
}

impl Handoff {
    fn new(client: &Arc<Client>, local: &LocalLease, grant: Grant) -> Self {
        Self {
            client: client.clone(),
            request: Some(local.request.clone()),
            fence: local.fence.map(|fence| Fence::new(fence.get() + 1)),
            grant,
            activity: Some(ActivityGuard::new(&client.keeper.shutdown)),
        }
    }

    fn ttl(&self) -> Option<Duration> {
        self.request.as_ref().map(|request| request.ttl)
    }

    /// What was granted, as of now: whoever has it makes a lease of it.
    pub(super) fn into_granted(mut self) -> Option<(Granted, ActivityGuard)> {
        let (request, activity) = (self.request.take()?, self.activity.take()?);
        let grant = Grant { sent: self.client.store.now(), ..self.grant };
        Some((Granted { request, fence: self.fence, grant }, activity))
    }
}

impl Drop for Handoff {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            let doubt = Doubt::new(self.grant.in_doubt, self.client.store.now());
            self.client.keeper.cancel_later(vec![request], None::<StoreFuture<()>>, doubt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_reserve_as_many_tokens() {
        let record = include_str!("../../lua/include/record.lua");
        assert!(record.contains(&format!("GRACE_MS, BLOCK = '60000', {TOKENS}\n")));
    }
}
