//! The queue inside a process. Of a client's acquisitions of one lock, only as
//! many ask the store as can be of use: one for a mutex, as much weight as the
//! limit for a semaphore, up to 64 of them. The others wait in here for their
//! turn, in their own order, and cost the store nothing.
//!
//! What the store has granted goes from one to the next without it, for a
//! [`turn`]. Then it is released, and those who wait in other processes come first.
//!
//! One whose future is not polled can't be told from one that waits. So whoever
//! asks gives a sign with each command, and where there was none of anybody for as
//! long as the store would wait for one, those behind go past them, and ask
//! themselves.

mod admission;
mod handoff;
mod waiter;

use std::collections::{HashMap, VecDeque};
use std::mem::{Discriminant, discriminant};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

pub(crate) use self::admission::Admission;
pub(crate) use self::handoff::TurnId;
use self::handoff::{Ends, Turns};
pub(crate) use self::waiter::Waiter;
use crate::client::Client;
use crate::client::pending::PendingRequest;
use crate::core::key::LockKey;
use crate::store::{Kind, LIVE, Owner, Wanted};

/// A lock, as one kind of it; and for one owner, if he may have it already: who comes
/// again to what he has must not wait behind those who wait for him.
type Name = (LockKey, Discriminant<Kind>, Option<Owner>);

/// What one asks for in a line. Who asks for the same can go on with his request.
type What = (Kind, Option<Owner>);

/// How many ask the store at a time, however large a semaphore's limit is: each
/// says every other second that it lives.
const MOST: u32 = 64;

/// The lines of a client, one for each lock that somebody asks for.
pub(crate) struct LocalQueues {
    client: Arc<Client>,
    all: Mutex<All>,
    /// Makes generations, turns and places, which are never the same.
    numbers: AtomicU64,
    hands_over: bool,
}

#[derive(Default)]
struct All {
    queues: HashMap<Name, LocalQueue>,
    ends: Ends,
}

struct LocalQueue {
    /// How many ask the store, and their weight.
    askers: u32,
    pending: u64,
    /// When one of them asked last, or had his turn.
    sign: Instant,
    /// Those of an earlier one were silent for too long, and do not count.
    generation: u64,
    /// What the store has granted, and those who wait may have next.
    turns: Turns,
    waiting: VecDeque<Place>,
}

struct Place {
    /// No other has it, in no other line of the name either: some come back to one that is
    /// not there any more.
    number: u64,
    what: What,
    ttl: Duration,
    admit: oneshot::Sender<Admission>,
}

/// What has entered a line.
pub(crate) enum Entry {
    /// It may ask the store.
    Admitted(Admission),
    /// Others are before it.
    Waiter(Waiter),
}

impl LocalQueues {
    /// Lines in which leases go from one to the next without the store, or not.
    pub(crate) fn new(client: Arc<Client>, hands_over: bool) -> Self {
        Self { client, all: Mutex::default(), numbers: AtomicU64::new(0), hands_over }
    }

    /// Enters the line of a lock, to have it for `ttl`.
    pub(crate) fn enter(self: &Arc<Self>, wanted: &Wanted, ttl: Duration) -> Entry {
        let name = name(&wanted.key, wanted.kind, wanted.owner.as_ref());
        let what = (wanted.kind, wanted.owner.clone());
        let now = self.now();
        let mut all = self.all();
        let queue = self.queue(&mut all, &name, now);
        if queue.waiting.is_empty() && queue.has_room(what.0) {
            queue.admit(what.0, now);
            let generation = queue.generation;
            return Entry::Admitted(Admission::asker(self, name, what, generation));
        }
        let (admit, admitted) = oneshot::channel();
        let number = self.number();
        queue.waiting.push_back(Place { number, what: what.clone(), ttl, admit });
        Entry::Waiter(Waiter::new(self, name, what, number, admitted))
    }

    /// The line of a lock, be it a new one.
    fn queue<'a>(&self, all: &'a mut All, name: &Name, now: Instant) -> &'a mut LocalQueue {
        all.queues.entry(name.clone()).or_insert_with(|| LocalQueue {
            askers: 0,
            pending: 0,
            sign: now,
            generation: self.number(),
            turns: Turns::default(),
            waiting: VecDeque::new(),
        })
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether somebody waits for his turn: then nobody may try past him.
    pub(crate) fn has_waiters(&self, wanted: &Wanted) -> bool {
        let name = name(&wanted.key, wanted.kind, wanted.owner.as_ref());
        let all = self.all();
        let queue = all.queues.get(&name).filter(|queue| !queue.waiting.is_empty());
        queue.is_some_and(|queue| self.now() < queue.sign + LIVE)
    }

    fn now(&self) -> Instant {
        self.client.store.now()
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes a line, if there is one, and lets in whoever has room now. The first who
    /// asks for the same inherits what was begun.
    fn change<T>(
        self: &Arc<Self>,
        name: &Name,
        mut inherited: Option<(What, Box<PendingRequest>)>,
        change: impl FnOnce(&mut LocalQueue) -> Option<T>,
    ) -> Option<T> {
        let mut admitted = Vec::new();
        let (generation, result);
        {
            let mut all = self.all();
            let queue = all.queues.get_mut(name)?;
            result = change(queue);
            generation = queue.generation;
            while let Some(first) = queue.waiting.front()
                && queue.has_room(first.what.0)
                && let Some(place) = queue.waiting.pop_front()
            {
                queue.admit(place.what.0, self.now());
                admitted.push(place);
            }
            if queue.askers == 0 && queue.turns.is_empty() {
                all.queues.remove(name);
            }
        }
        for Place { what, admit, .. } in admitted {
            let same = inherited.take_if(|(of, _)| *of == what);
            let mut admission = Admission::asker(self, name.clone(), what, generation);
            admission.inherited = same.map(|(_, pending)| pending);
            // If it is gone, its admission is dropped, and so passed on.
            let _ = admit.send(admission);
        }
        result
    }
}

impl LocalQueue {
    /// One that is alone may always ask: the store tells it if it may not.
    fn has_room(&self, kind: Kind) -> bool {
        let capacity = match kind {
            Kind::Mutex | Kind::Write => 1,
            Kind::Semaphore { limit, .. } => limit.into(),
            // All of an owner's are let in together.
            Kind::Read | Kind::Reentrant => MOST.into(),
        };
        let taken = self.pending + self.turns.weight();
        taken == 0 || self.askers < MOST && taken + weight(kind) <= capacity
    }

    /// Takes a place out; it is not there any more if it was let in.
    fn leave(&mut self, number: u64) -> Option<Place> {
        let at = self.waiting.binary_search_by_key(&number, |place| place.number).ok()?;
        self.waiting.remove(at)
    }

    fn admit(&mut self, kind: Kind, now: Instant) {
        self.askers += 1;
        self.pending += weight(kind);
        self.sign = now;
    }

    /// One asks no more. Those of an earlier generation do not count.
    fn dismiss(&mut self, kind: Kind, generation: u64) {
        if self.generation == generation {
            self.askers -= 1;
            self.pending -= weight(kind);
        }
    }
}

fn name(key: &LockKey, kind: Kind, owner: Option<&Owner>) -> Name {
    let owner = owner.filter(|_| kind.may_be_had_already());
    (key.clone(), discriminant(&kind), owner.cloned())
}

fn weight(kind: Kind) -> u64 {
    match kind {
        Kind::Semaphore { weight, .. } => weight.into(),
        _ => 1,
    }
}
