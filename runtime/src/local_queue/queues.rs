//! All queues of a client: finding one, changing one, and admitting the waiters that a change
//! has made room for. Nothing is dropped or sent while they are locked.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::queue::{Admitted, LocalQueue, Name, Place, Standing, What, name};
use super::turns::TurnId;
use crate::client::Client;
use crate::client::pending::PendingRequest;
use crate::store::{LIVE, Wanted};

/// The queues of a client, one for each lock that somebody asks for.
pub(crate) struct LocalQueues {
    pub(super) client: Arc<Client>,
    all: Mutex<All>,
    /// Makes generations, turns and places, none of which is used twice.
    numbers: AtomicU64,
    pub(super) hands_over: bool,
}

#[derive(Default)]
pub(super) struct All {
    pub(super) queues: HashMap<Name, LocalQueue>,
    pub(super) ends: Ends,
}

/// When turns end, in all queues. All last equally long, so the first to begin is the first
/// to end. Some have ended before.
#[derive(Default)]
pub(super) struct Ends {
    pub(super) in_order: VecDeque<(Instant, Name, TurnId)>,
    /// A task is there to end them.
    pub(super) is_timed: bool,
}

impl LocalQueues {
    /// `hands_over` lets leases go from one waiter to the next without the store.
    pub(crate) fn new(client: Arc<Client>, hands_over: bool) -> Self {
        Self { client, all: Mutex::default(), numbers: AtomicU64::new(0), hands_over }
    }

    /// Whether somebody waits for its turn: then no try may pass it.
    pub(crate) fn has_waiters(&self, wanted: &Wanted) -> bool {
        let name = name(&wanted.key, wanted.kind, wanted.owner.as_ref());
        let all = self.all();
        let queue = all.queues.get(&name).filter(|queue| !queue.waiting.is_empty());
        queue.is_some_and(|queue| self.now() < queue.sign + LIVE)
    }

    /// The queue of a lock, be it a new one.
    pub(super) fn queue<'a>(
        &self,
        all: &'a mut All,
        name: &Name,
        now: Instant,
    ) -> &'a mut LocalQueue {
        let queue = all.queues.entry(name.clone());
        queue.or_insert_with(|| LocalQueue::new(self.number(), now))
    }

    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn now(&self) -> Instant {
        self.client.store.now()
    }

    pub(super) fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes a queue, if there is one, and admits the waiters that there is room for now.
    /// The first of them that asks for the same inherits the request that was begun.
    pub(super) fn change<T>(
        &self,
        name: &Name,
        mut inherited: Option<(&What, Box<PendingRequest>)>,
        change: impl FnOnce(&mut LocalQueue) -> Option<T>,
    ) -> Option<T> {
        let mut admitted = Vec::new();
        let (generation, result);
        {
            let mut all = self.all();
            let queue = all.queues.get_mut(name)?;
            result = change(queue);
            generation = queue.generation;
            while let Some(place) = queue.admit_first(self.now()) {
                admitted.push(place);
            }
            if queue.is_idle() {
                all.queues.remove(name);
            }
        }
        for place in admitted {
            let same = inherited.take_if(|(what, _)| **what == place.what);
            let inherited = same.map(|(_, pending)| pending);
            self.admit(name, place, Admitted { standing: Standing::Asks(generation), inherited });
        }
        result
    }

    /// Tells a waiter. If it is gone, what it was admitted to goes to the next.
    pub(super) fn admit(&self, name: &Name, place: Place, admitted: Admitted) {
        if let Err(admitted) = place.admit.send(admitted) {
            self.withdraw(name, &place.what, admitted);
        }
    }

    /// Gives what one was admitted to, and does not use, to the next.
    pub(super) fn withdraw(&self, name: &Name, what: &What, admitted: Admitted) {
        match admitted.standing {
            Standing::Asks(generation) => {
                let inherited = admitted.inherited.map(|pending| (what, pending));
                self.change(name, inherited, |queue| {
                    queue.dismiss(what.0, generation);
                    None::<()>
                });
            }
            Standing::InTurn(turn) => self.pass_on(name, what, turn),
            Standing::Served => {}
        }
    }

    /// Hands a lease that one did not take up to the next, or cancels it.
    fn pass_on(&self, name: &Name, what: &What, turn: TurnId) {
        let place = self.change(name, None, |queue| {
            let ttl = queue.turns.find(turn)?.handoff.as_ref()?.ttl()?;
            let place = queue.next_in_turn(turn, what, ttl, self.now());
            Some(place.ok_or_else(|| queue.turns.end(turn)))
        });
        if let Some(Ok(place)) = place {
            self.admit(name, place, Standing::InTurn(turn).into());
        }
    }
}
