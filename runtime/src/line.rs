//! The queue inside a process. Of a client's acquisitions of one lock, only as
//! many ask the store as can be of use: one for a mutex, as much weight as the
//! limit for a semaphore. The others wait in here for their turn, in their own
//! order, and cost the store nothing.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::mem::{Discriminant, discriminant};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::LockKey;
use crate::acquire::Asking;
use crate::locks::Client;
use crate::store::Kind;

/// A lock, as one kind of it.
type Name = (LockKey, Discriminant<Kind>);

/// The lines of a client, one for each lock that somebody asks for.
#[derive(Default)]
pub(crate) struct Lines {
    lines: Mutex<HashMap<Name, Line>>,
}

#[derive(Default)]
struct Line {
    /// The weight of those that ask the store.
    asking: u64,
    waiting: VecDeque<Waiter>,
    /// The number of the next waiter.
    next: u64,
}

struct Waiter {
    number: u64,
    kind: Kind,
    admit: oneshot::Sender<Turn>,
}

/// What has entered a line.
pub(crate) enum Entry {
    /// It may ask the store.
    Admitted(Turn),
    /// Others are before it.
    Behind(Behind),
}

impl Lines {
    /// Enters the line of a lock.
    pub(crate) fn enter(client: &Arc<Client>, key: &LockKey, kind: Kind) -> Entry {
        let name = (key.clone(), discriminant(&kind));
        let mut lines = client.lines.lines();
        let line = lines.entry(name.clone()).or_default();
        if line.waiting.is_empty() && line.has_room(kind) {
            line.asking += weight(kind);
            return Entry::Admitted(Turn::new(client, name, kind));
        }
        let (admit, admitted) = oneshot::channel();
        let number = line.next;
        line.next += 1;
        line.waiting.push_back(Waiter { number, kind, admit });
        Entry::Behind(Behind { client: client.clone(), name, number, admitted })
    }

    /// Whether somebody waits for his turn: then nobody may try past him.
    pub(crate) fn has_waiters(&self, key: &LockKey, kind: Kind) -> bool {
        let name = (key.clone(), discriminant(&kind));
        self.lines().get(&name).is_some_and(|line| !line.waiting.is_empty())
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Name, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes a line, and lets in whoever has room now. The first who asks for
    /// the same inherits what was begun.
    fn change(
        client: &Arc<Client>,
        name: &Name,
        mut inherited: Option<(Kind, Box<Asking>)>,
        change: impl FnOnce(&mut Line),
    ) {
        let mut admitted = Vec::new();
        {
            let mut lines = client.lines.lines();
            let Some(line) = lines.get_mut(name) else { return };
            change(line);
            while let Some(first) = line.waiting.front()
                && line.has_room(first.kind)
                && let Some(waiter) = line.waiting.pop_front()
            {
                line.asking += weight(waiter.kind);
                admitted.push(waiter);
            }
            if line.asking == 0 {
                lines.remove(name);
            }
        }
        for Waiter { kind, admit, .. } in admitted {
            let mut turn = Turn::new(client, name.clone(), kind);
            turn.inherited = inherited.take_if(|(of, _)| *of == kind).map(|(_, asking)| asking);
            // If it is gone, its turn is dropped, and so passed on.
            let _ = admit.send(turn);
        }
    }
}

impl Line {
    /// One that is alone may always ask: the store tells it if it may not.
    fn has_room(&self, kind: Kind) -> bool {
        let capacity = match kind {
            Kind::Mutex => 1,
            Kind::Semaphore { limit, .. } => limit.into(),
        };
        self.asking == 0 || self.asking + weight(kind) <= capacity
    }
}

fn weight(kind: Kind) -> u64 {
    match kind {
        Kind::Mutex => 1,
        Kind::Semaphore { weight, .. } => weight.into(),
    }
}

/// The right to ask the store for a lock; it goes to the next when dropped.
pub(crate) struct Turn {
    client: Arc<Client>,
    name: Name,
    kind: Kind,
    inherited: Option<Box<Asking>>,
}

impl Turn {
    fn new(client: &Arc<Client>, name: Name, kind: Kind) -> Self {
        Self { client: client.clone(), name, kind, inherited: None }
    }

    /// What the one before has begun, and not ended.
    pub(crate) fn inherit(&mut self) -> Option<Box<Asking>> {
        self.inherited.take()
    }

    /// Goes, and leaves what was begun to the next: its place in the store's
    /// queue is the client's.
    pub(crate) fn leave_behind(mut self, asking: Asking) {
        self.inherited = Some(Box::new(asking));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let inherited = self.inherited.take().map(|asking| (self.kind, asking));
        Lines::change(&self.client, &self.name, inherited, |line| {
            line.asking -= weight(self.kind);
        });
    }
}

/// Waits in a line; leaves it when dropped.
pub(crate) struct Behind {
    client: Arc<Client>,
    name: Name,
    number: u64,
    admitted: oneshot::Receiver<Turn>,
}

impl Future for Behind {
    type Output = Option<Turn>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Turn>> {
        Pin::new(&mut self.admitted).poll(context).map(Result::ok)
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        Lines::change(&self.client, &self.name, None, |line| {
            // It is not there any more if it was let in.
            if let Ok(at) = line.waiting.binary_search_by_key(&self.number, |waiter| waiter.number)
            {
                line.waiting.remove(at);
            }
        });
    }
}
