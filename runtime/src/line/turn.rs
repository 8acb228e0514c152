//! Handing over inside a process. For the time of a turn a released lease goes to the
//! next who waits here, with the store's grant and without a command.
//!
//! The store sees one request that holds the lock. Each who has it within the turn has
//! a lease of its own: its own token, from the block that the grant reserved, its own
//! renewals and its own end. Those who wait in other processes wait for a turn longer at
//! the most: it is short, and bounded by the block.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::time::sleep_until;

use super::{Admission, Line, Lines, Name, Place, What, name, weight};
use crate::Fence;
use crate::keeper::Doubt;
use crate::lease::Lease;
use crate::locks::Client;
use crate::options::Options;
use crate::shutdown::Stay;
use crate::store::{Kind, Request, StoreFuture, TOKENS};
use crate::term::{Grant, Term};

/// For how long a turn lasts. What runs for longer under a lock does not notice two
/// round trips; and who waits elsewhere waits for so much longer, and one section.
const TURN: Duration = Duration::from_millis(20);

/// A turn of a client's.
pub(crate) type TurnId = u64;

/// The turns in a line, in the order in which they began, and so end.
#[derive(Default)]
pub(super) struct Turns {
    running: VecDeque<Turn>,
    weight: u64,
    /// Which task ends them in time.
    timer: Option<u64>,
}

struct Turn {
    id: TurnId,
    weight: u64,
    ends: Instant,
    /// How often the lease may still be handed over.
    left: u64,
    /// What the next takes up, who has been told.
    baton: Option<Baton>,
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
        self.running.push_back(Turn { id, weight, ends, left: TOKENS - 1, baton: None });
    }

    fn at(&self, id: TurnId) -> Option<usize> {
        self.running.binary_search_by_key(&id, |turn| turn.id).ok()
    }

    fn find(&mut self, id: TurnId) -> Option<&mut Turn> {
        let at = self.at(id)?;
        self.running.get_mut(at)
    }

    /// Takes up what was handed over, unless the turn is over.
    pub(super) fn take_up(&mut self, id: TurnId) -> Option<Baton> {
        self.find(id)?.baton.take()
    }

    /// Ends a turn, with what nobody has taken up.
    fn end(&mut self, id: TurnId) -> Option<Baton> {
        let turn = self.running.remove(self.at(id)?)?;
        self.weight -= turn.weight;
        turn.baton
    }

    /// Ends those whose time is over, with what nobody has taken up.
    fn expire(&mut self, now: Instant) -> Vec<Baton> {
        let over = self.running.partition_point(|turn| turn.ends <= now);
        let over = self.running.drain(..over);
        let batons = over.inspect(|turn| self.weight -= turn.weight).filter_map(|turn| turn.baton);
        batons.collect()
    }
}

impl Lines {
    /// The store has granted what was asked for. If those who wait here may have it
    /// next, a turn begins.
    pub(super) fn begin_turn(
        client: &Arc<Client>,
        name: &Name,
        what: &What,
        ttl: Duration,
        generation: u64,
    ) -> Option<TurnId> {
        let can_be = matches!(what.0, Kind::Mutex | Kind::Semaphore { .. });
        Self::change(client, name, None, |line| {
            line.dismiss(what.0, generation);
            if !can_be || !client.lines.hands_over || !line.first_suits(what, ttl) {
                return None;
            }
            // Without timers none would end in time.
            let runtime = Handle::try_current().ok()?;
            let (id, ends) = (client.lines.number(), client.store.now() + TURN);
            line.turns.begin(id, weight(what.0), ends);
            if line.turns.timer.is_none() {
                line.turns.timer = Some(id);
                runtime.spawn(end_in_time(Arc::downgrade(client), name.clone(), (id, ends)));
            }
            Some(id)
        })?
    }

    /// Gives a lease that has just ended to the first who waits here, if he asks for the
    /// same. False if it is to be released.
    pub(crate) fn hand_over(client: &Arc<Client>, id: TurnId, term: &Term, rest: Grant) -> bool {
        let request = &term.request;
        let name = name(&request.key, request.kind, request.owner.as_ref());
        let what = (request.kind, request.owner.clone());
        let place = {
            let mut lines = client.lines.lines();
            let Some(line) = lines.get_mut(&name) else { return false };
            let now = client.store.now();
            let Some(place) = line.next_in_turn(id, &what, request.ttl, now) else { return false };
            if let Some(turn) = line.turns.find(id) {
                turn.left -= 1;
                turn.baton = Some(Baton::new(client, term, rest));
            }
            line.sign = Some(now);
            place
        };
        // If it is gone, its admission is dropped, and so passed on.
        let _ = place.admit.send(Admission::in_turn(client, name, what, id));
        true
    }

    /// Passes on what one did not take up, or releases it.
    pub(super) fn pass_on(client: &Arc<Client>, name: &Name, what: &What, id: TurnId) {
        let place = Self::change(client, name, None, |line| {
            let ttl = line.turns.find(id)?.baton.as_ref()?.ttl()?;
            let place = line.next_in_turn(id, what, ttl, client.store.now());
            let over = if place.is_none() { line.turns.end(id) } else { None };
            Some((place, over))
        });
        let Some(Some((place, over))) = place else { return };
        drop(over);
        if let Some(place) = place {
            let _ = place.admit.send(Admission::in_turn(client, name.clone(), what.clone(), id));
        }
    }

    /// Ends a turn: the next asks the store.
    pub(crate) fn end_turn(client: &Arc<Client>, request: &Request, id: TurnId) {
        let name = name(&request.key, request.kind, request.owner.as_ref());
        drop(Self::change(client, &name, None, |line| line.turns.end(id)));
    }
}

impl Line {
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

/// Ends turns when their time is over, be it that a lease is held for longer or that
/// who is to have it does not take it up: then others are let in to ask the store.
async fn end_in_time(client: Weak<Client>, name: Name, (timer, mut ends): (u64, Instant)) {
    loop {
        sleep_until(ends.into()).await;
        let Some(client) = client.upgrade() else { return };
        let now = client.store.now();
        let next = Lines::change(&client, &name, None, |line| {
            let turns = &mut line.turns;
            // Another line of the name, since then, has another.
            turns.timer.filter(|other| *other == timer)?;
            let over = turns.expire(now);
            let next = turns.running.front().map(|first| first.ends);
            if next.is_none() {
                turns.timer = None;
            }
            Some((over, next))
        });
        let Some(Some((_, Some(next)))) = next else { return };
        ends = next;
    }
}

/// What goes from one to the next within a turn: the store has granted it, and nobody
/// has the lease. It is taken back when dropped.
pub(crate) struct Baton {
    client: Arc<Client>,
    /// It is there until it is a lease.
    request: Option<Request>,
    fence: Option<Fence>,
    grant: Grant,
    _stay: Stay,
}

impl Baton {
    fn new(client: &Arc<Client>, term: &Term, grant: Grant) -> Self {
        Self {
            client: client.clone(),
            request: Some(term.request.clone()),
            fence: term.fence.map(|fence| Fence::new(fence.get() + 1)),
            grant,
            _stay: Stay::new(&client.keeper.shutdown),
        }
    }

    fn ttl(&self) -> Option<Duration> {
        self.request.as_ref().map(|request| request.ttl)
    }

    /// The lease, unless it is over by now.
    pub(crate) fn lease(mut self, turn: TurnId, options: &Options) -> Option<Lease> {
        let request = self.request.take()?;
        let grant = Grant { sent: self.client.store.now(), ..self.grant };
        let mut lease = Lease::new(self.client.clone(), request, self.fence, grant, options);
        lease.have_turn(Some(turn));
        if lease.is_held() {
            return Some(lease);
        }
        lease.discard();
        None
    }
}

impl Drop for Baton {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            let doubt = Doubt::new(None, self.client.store.now());
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
        assert!(record.contains(&format!("GRACE_MS, BLOCK = 60000, {TOKENS}\n")));
    }
}
