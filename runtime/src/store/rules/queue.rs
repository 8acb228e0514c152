//! The waiters of a lock, in the order they came: the include `queue`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use super::context::Context;
use super::demand::Demand;
use super::limits::{BATCH, QUEUE_KEPT, SPREAD};
use super::time::Time;
use crate::store::{
    Attempt, ClientId, LIVE_MOST, OFFER, QueuePosition, Request, RequestId, Waiting,
};

/// How far a position may be ahead of the clock, in microseconds, before the clock counts as set
/// back.
const AHEAD: u64 = 100_000;

/// The waiters by position. A waiter that has not asked again in time is dead, and is passed
/// over. If it is alive after all, it returns to its position when it asks.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) order: BTreeSet<(u64, RequestId)>,
    pub(super) waiters: HashMap<RequestId, Waiter>,
    pub(super) until: Option<Time>,
}

/// A waiter, as of its last ask.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) position: u64,
    /// Until when it is taken to be alive.
    pub(super) until: Time,
    pub(super) demand: Demand,
}

impl Waiter {
    /// When an offer that is made now ends.
    pub(super) fn offer_ends(&self, now: Time) -> Time {
        self.until.min(now + OFFER)
    }
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn expire(&mut self, now: Time) {
        if self.until.is_some_and(|until| until <= now) {
            *self = Self::default();
        }
    }

    /// Adds a waiter, or renews its heartbeat. Returns its position.
    pub(super) fn join(
        &mut self,
        request: &Request,
        waiting: Waiting,
        context: &mut Context<'_>,
    ) -> u64 {
        let (id, demand, now) = (request.id, Demand::of(request), context.now);
        let position = match self.waiters.get(&id) {
            Some(waiter) => waiter.position,
            None => self.place(waiting.position, context),
        };
        self.order.insert((position, id));
        self.waiters.insert(id, Waiter { position, until: now + waiting.live, demand });
        self.until = Some(now + QUEUE_KEPT);
        position
    }

    /// The position of a request that comes, or comes back. After the clock was set back, those
    /// that wait have positions ahead of it: nobody passes them. Nobody comes back further ahead
    /// than they.
    fn place(&self, told: QueuePosition, context: &mut Context<'_>) -> u64 {
        let now = context.now.micros();
        let last = self.order.last().map_or(0, |(position, _)| *position);
        let latest = now.max(last + 1);
        match told {
            QueuePosition::Assigned(position) => position.min(latest),
            QueuePosition::New { .. } if last > now + AHEAD => latest,
            QueuePosition::New { age } => context.counters.next_position(age, context.now),
        }
    }

    pub(super) fn leave(&mut self, id: RequestId) {
        if self.is_empty() {
            return;
        }
        if let Some(waiter) = self.waiters.remove(&id) {
            self.order.remove(&(waiter.position, id));
        }
    }

    /// The first live waiter. Removes the dead ones before it, at most [`BATCH`]: if it finds
    /// nobody and the queue is not empty, there are more.
    pub(super) fn first(&mut self, now: Time) -> Option<(RequestId, Waiter)> {
        for _ in 0..BATCH {
            let &(_, id) = self.order.first()?;
            let waiter = self.waiters.get(&id).cloned();
            // A heartbeat further ahead than any waiter may claim is not believed.
            let lives = |waiter: &Waiter| waiter.until > now && waiter.until - now <= LIVE_MOST;
            if let Some(waiter) = waiter.filter(lives) {
                return Some((id, waiter));
            }
            self.leave(id);
        }
        None
    }

    /// All waiters in order, dead ones included.
    pub(super) fn waiters(&self) -> impl Iterator<Item = (RequestId, &Waiter)> {
        self.order.iter().filter_map(|(_, id)| Some((*id, self.waiters.get(id)?)))
    }

    /// The first [`BATCH`] of them.
    pub(super) fn ids(&self) -> impl Iterator<Item = RequestId> {
        self.order.iter().take(BATCH).map(|(_, id)| *id)
    }

    /// From now on a client's waiters live until then at most, unless they ask again.
    pub(super) fn doubt(&mut self, client: ClientId, until: Time) {
        for (_, id) in self.order.iter().take(BATCH) {
            if id.client() == client
                && let Some(waiter) = self.waiters.get_mut(id)
            {
                waiter.until = waiter.until.min(until);
            }
        }
    }

    /// The answer to a waiter. When the lock may be free, the first waiter asks, and then the
    /// first waiter of each other client, one [`SPREAD`] after another: those before it may be
    /// dead. All others ask only to show that they are alive.
    pub(super) fn queued(
        &self,
        id: RequestId,
        (position, waiting): (u64, Waiting),
        left: Duration,
        now: Time,
    ) -> Attempt {
        let mut ask_again = waiting.live / 3;
        if left < ask_again
            && let Some(before) = self.clients_before(id)
        {
            ask_again = ask_again.min(left + SPREAD * before);
        }
        Attempt::Queued { position, until: (now + waiting.live).micros(), ask_again }
    }

    /// How many other clients have a waiter before this one; `None` if its own client has one,
    /// or if it is not among the first [`BATCH`].
    fn clients_before(&self, id: RequestId) -> Option<u32> {
        let (mut clients, mut seen) = (0, HashSet::new());
        for other in self.ids() {
            if other == id {
                return Some(clients);
            } else if other.client() == id.client() {
                return None;
            }
            clients += u32::from(seen.insert(other.client()));
        }
        None
    }
}
