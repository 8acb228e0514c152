//! The queue inside a process. Of a client's acquisitions of one lock, only as
//! many ask the store as can be of use: one for a mutex, as much weight as the
//! limit for a semaphore, up to 64 of them. The others wait in here for their
//! turn, in their own order, and cost the store nothing.
//!
//! One whose future is not polled can't be told from one that waits. So whoever
//! asks gives a sign with each command, and where there was none of anybody for as
//! long as the store would wait for one, those behind go past them, and ask
//! themselves.

use std::collections::{HashMap, VecDeque};
use std::mem::{Discriminant, discriminant};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::LockKey;
use crate::acquire::{Asking, LIVE, Wanted};
use crate::locks::Client;
use crate::store::{Kind, Owner};

/// A lock, as one kind of it; and for one owner, if he may have it already: who comes
/// again to what he has must not wait behind those who wait for him.
type Name = (LockKey, Discriminant<Kind>, Option<Owner>);

/// What one asks for in a line. Who asks for the same can go on with his request.
type What = (Kind, Option<Owner>);

/// How many ask the store at a time, however large a semaphore's limit is: each
/// says every other second that it lives.
const MOST: u32 = 64;

/// By how much later each of those behind loses its patience.
const A_LITTLE: Duration = Duration::from_millis(100);

/// The lines of a client, one for each lock that somebody asks for.
#[derive(Default)]
pub(crate) struct Lines {
    lines: Mutex<HashMap<Name, Line>>,
    /// Makes generations, which are never the same.
    generations: AtomicU64,
}

struct Line {
    /// How many ask the store, and their weight.
    askers: u32,
    asking: u64,
    /// When one of them asked last.
    sign: Instant,
    /// Those of an earlier one were silent for too long, and do not count.
    generation: u64,
    waiting: VecDeque<Place>,
    /// The number of the next place.
    next: u64,
}

struct Place {
    number: u64,
    what: What,
    admit: oneshot::Sender<Admission>,
}

/// What has entered a line.
pub(crate) enum Entry {
    /// It may ask the store.
    Admitted(Admission),
    /// Others are before it.
    Behind(Behind),
}

impl Lines {
    /// Enters the line of a lock.
    pub(crate) fn enter(client: &Arc<Client>, wanted: &Wanted) -> Entry {
        let (name, what) = (name(wanted), (wanted.kind, wanted.owner.clone()));
        let now = client.store.now();
        let mut lines = client.lines.lines();
        let line = lines.entry(name.clone()).or_insert_with(|| client.lines.line(now));
        if line.waiting.is_empty() && line.has_room(what.0) {
            line.admit(what.0, now);
            return Entry::Admitted(Admission::new(client, name, what, line.generation));
        }
        let (admit, admitted) = oneshot::channel();
        let number = line.next;
        line.next += 1;
        line.waiting.push_back(Place { number, what: what.clone(), admit });
        Entry::Behind(Behind { client: client.clone(), name, number, what, admitted })
    }

    /// A line in which nobody is.
    fn line(&self, now: Instant) -> Line {
        let generation = self.generations.fetch_add(1, Ordering::Relaxed);
        Line { askers: 0, asking: 0, sign: now, generation, waiting: VecDeque::new(), next: 0 }
    }

    /// Whether somebody waits for his turn: then nobody may try past him.
    pub(crate) fn has_waiters(client: &Client, wanted: &Wanted) -> bool {
        let lines = client.lines.lines();
        let line = lines.get(&name(wanted)).filter(|line| !line.waiting.is_empty());
        line.is_some_and(|line| client.store.now() < line.sign + LIVE)
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Name, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes a line, and lets in whoever has room now. The first who asks for
    /// the same inherits what was begun.
    fn change(
        client: &Arc<Client>,
        name: &Name,
        mut inherited: Option<(What, Box<Asking>)>,
        change: impl FnOnce(&mut Line) -> Option<Place>,
    ) {
        let mut admitted = Vec::new();
        let (generation, gone);
        {
            let now = client.store.now();
            let mut lines = client.lines.lines();
            let Some(line) = lines.get_mut(name) else { return };
            gone = change(line);
            generation = line.generation;
            while let Some(first) = line.waiting.front()
                && line.has_room(first.what.0)
                && let Some(place) = line.waiting.pop_front()
            {
                line.admit(place.what.0, now);
                admitted.push(place);
            }
            if line.askers == 0 {
                lines.remove(name);
            }
        }
        drop(gone);
        for Place { what, admit, .. } in admitted {
            let same = inherited.take_if(|(of, _)| *of == what);
            let mut admission = Admission::new(client, name.clone(), what, generation);
            admission.inherited = same.map(|(_, asking)| asking);
            // If it is gone, its admission is dropped, and so passed on.
            let _ = admit.send(admission);
        }
    }
}

impl Line {
    /// One that is alone may always ask: the store tells it if it may not.
    fn has_room(&self, kind: Kind) -> bool {
        let capacity = match kind {
            Kind::Mutex | Kind::Write => 1,
            Kind::Semaphore { limit, .. } => limit.into(),
            // All of an owner's are let in together.
            Kind::Read | Kind::Reentrant => MOST.into(),
        };
        self.askers == 0 || self.askers < MOST && self.asking + weight(kind) <= capacity
    }

    /// Takes a place out; it is not there any more if it was let in.
    fn leave(&mut self, number: u64) -> Option<Place> {
        let at = self.waiting.binary_search_by_key(&number, |place| place.number).ok()?;
        self.waiting.remove(at)
    }

    fn admit(&mut self, kind: Kind, now: Instant) {
        self.askers += 1;
        self.asking += weight(kind);
        self.sign = now;
    }
}

fn name(wanted: &Wanted) -> Name {
    let owner = wanted.owner.clone().filter(|_| wanted.may_be_had_already());
    (wanted.key.clone(), discriminant(&wanted.kind), owner)
}

fn weight(kind: Kind) -> u64 {
    match kind {
        Kind::Semaphore { weight, .. } => weight.into(),
        _ => 1,
    }
}

/// The right to ask the store for a lock; it goes to the next when dropped.
pub(crate) struct Admission {
    client: Arc<Client>,
    name: Name,
    what: What,
    generation: u64,
    inherited: Option<Box<Asking>>,
}

impl Admission {
    fn new(client: &Arc<Client>, name: Name, what: What, generation: u64) -> Self {
        Self { client: client.clone(), name, what, generation, inherited: None }
    }

    /// What the one before has begun, and not ended.
    pub(crate) fn inherit(&mut self) -> Option<Box<Asking>> {
        self.inherited.take()
    }

    /// Says that it asks.
    pub(crate) fn sign(&self) {
        if let Some(line) = self.client.lines.lines().get_mut(&self.name) {
            line.sign = self.client.store.now();
        }
    }

    /// Goes, and leaves what was begun to the next: its place in the store's
    /// queue is the client's.
    pub(crate) fn leave_behind(mut self, asking: Asking) {
        self.inherited = Some(Box::new(asking));
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let inherited = self.inherited.take().map(|asking| (self.what.clone(), asking));
        Lines::change(&self.client, &self.name, inherited, |line| {
            if line.generation == self.generation {
                line.askers -= 1;
                line.asking -= weight(self.what.0);
            }
            None
        });
    }
}

/// Waits in a line; leaves it when dropped.
pub(crate) struct Behind {
    client: Arc<Client>,
    name: Name,
    number: u64,
    what: What,
    admitted: oneshot::Receiver<Admission>,
}

impl Behind {
    /// Resolves when it is its turn, or when those who have theirs are silent for
    /// too long. Nothing if there is no line any more.
    pub(crate) async fn admission(&mut self) -> Option<Admission> {
        loop {
            let patience = self.patience();
            if patience.is_zero()
                && let Some(admission) = self.go_past()
            {
                return Some(admission);
            }
            tokio::select! {
                biased;
                admission = &mut self.admitted => return admission.ok(),
                () = sleep(patience.max(A_LITTLE)) => {}
            }
        }
    }

    /// How long it waits yet for a sign: a little longer for each who is before it,
    /// who so has the first chance.
    fn patience(&self) -> Duration {
        let lines = self.client.lines.lines();
        let Some(line) = lines.get(&self.name) else { return LIVE };
        let before = line.waiting.partition_point(|place| place.number < self.number);
        let patience = LIVE + A_LITTLE * u32::try_from(before).unwrap_or(u32::MAX);
        (line.sign + patience).saturating_duration_since(self.client.store.now())
    }

    /// Those who ask count no more; it asks itself. Nothing if its turn has come
    /// at the same moment.
    fn go_past(&mut self) -> Option<Admission> {
        let now = self.client.store.now();
        let mut lines = self.client.lines.lines();
        let line = lines.get_mut(&self.name)?;
        let gone = line.leave(self.number)?;
        line.generation = self.client.lines.generations.fetch_add(1, Ordering::Relaxed);
        (line.askers, line.asking) = (0, 0);
        line.admit(self.what.0, now);
        let generation = line.generation;
        drop(lines);
        drop(gone);
        Some(Admission::new(&self.client, self.name.clone(), self.what.clone(), generation))
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        Lines::change(&self.client, &self.name, None, |line| line.leave(self.number));
    }
}
