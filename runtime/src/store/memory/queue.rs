//! Who waits for a lock, in the order they came.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use super::context::Shared;
use super::lock::{AT_ONCE, Demand};
use crate::store::{ClientId, LIVE_MOST, OFFER, QueuePosition, Request, RequestId, Waiting};

/// How long a queue is kept after somebody asked last.
const KEPT: Duration = Duration::from_secs(60);

/// The waiters by position. One that has not asked again in time is dead, and
/// passed over; if it lives after all, its position brings it back to its place.
#[derive(Debug, Default)]
pub(super) struct Queue {
    places: BTreeSet<(u64, RequestId)>,
    waiters: HashMap<RequestId, Waiter>,
    until: Option<Instant>,
}

/// What a waiter said last.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) position: u64,
    /// Until when it is known to live.
    pub(super) until: Instant,
    pub(super) demand: Demand,
}

impl Waiter {
    /// When what it is offered now ends.
    pub(super) fn offer_ends(&self, now: Instant) -> Instant {
        self.until.min(now + OFFER)
    }
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn expire(&mut self, now: Instant) {
        if self.until.is_some_and(|until| until <= now) {
            *self = Self::default();
        }
    }

    /// Joins, or says again that it lives; its position.
    pub(super) fn join(&mut self, request: &Request, waiting: Waiting, shared: &mut Shared) -> u64 {
        let (id, demand) = (request.id, Demand::of(request));
        let position = match (self.waiters.get(&id), waiting.position) {
            (Some(waiter), _) => waiter.position,
            (None, QueuePosition::Assigned(position)) => position,
            (None, QueuePosition::New { age }) => shared.next_position(age),
        };
        self.places.insert((position, id));
        self.waiters.insert(id, Waiter { position, until: shared.now + waiting.live, demand });
        self.until = Some(shared.now + KEPT);
        position
    }

    pub(super) fn leave(&mut self, id: RequestId) {
        if self.is_empty() {
            return;
        }
        if let Some(waiter) = self.waiters.remove(&id) {
            self.places.remove(&(waiter.position, id));
        }
    }

    /// The first who lives. Forgets the dead before it, not more than are passed
    /// over at once: if it finds nobody and the queue is not empty, there are more.
    pub(super) fn first(&mut self, now: Instant) -> Option<(RequestId, Waiter)> {
        for _ in 0..AT_ONCE {
            let &(_, id) = self.places.first()?;
            let waiter = self.waiters.get(&id).cloned();
            // No waiter is longer taken to live; one that says so is not believed.
            let lives = |waiter: &Waiter| waiter.until > now && waiter.until - now <= LIVE_MOST;
            if let Some(waiter) = waiter.filter(lives) {
                return Some((id, waiter));
            }
            self.leave(id);
        }
        None
    }

    /// All of them, in their order, with those who died and were not passed over yet.
    pub(super) fn waiters(&self) -> impl Iterator<Item = (RequestId, &Waiter)> {
        self.places.iter().filter_map(|(_, id)| Some((*id, self.waiters.get(id)?)))
    }

    /// The first of them.
    pub(super) fn ids(&self) -> impl Iterator<Item = RequestId> {
        self.places.iter().take(AT_ONCE).map(|(_, id)| *id)
    }

    /// How many other clients have a waiter before this one: nothing where its own client
    /// has, or far behind.
    pub(super) fn clients_before(&self, id: RequestId) -> Option<u32> {
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

    /// A client's waiters are known to live until then at most, unless they ask again.
    pub(super) fn doubt(&mut self, client: ClientId, until: Instant) {
        for (_, id) in self.places.iter().take(AT_ONCE) {
            if id.client() == client
                && let Some(waiter) = self.waiters.get_mut(id)
            {
                waiter.until = waiter.until.min(until);
            }
        }
    }
}
