//! The pump: commands that are ready together go together.
//!
//! Whoever sends a command puts it into a queue and has a future at once; a task on the
//! keeper's runtime takes out all that is there, and sends it off in flights. A command
//! is queued when it is sent, not when its future is polled, and goes on when that is
//! dropped.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use redis::Value;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::command::{Command, number_of};
use super::connection::Connections;
use super::{batch, lock};
use crate::core::key::LockKey;
use crate::store::StoreError;

/// What a command was answered; nothing if the runtime of the pump has ended.
pub(super) type Answer = oneshot::Receiver<Result<Value, StoreError>>;

/// A command on its way.
pub(super) struct Entry {
    pub(super) command: Command,
    pub(super) answer: oneshot::Sender<Result<Value, StoreError>>,
    limit: Duration,
}

impl Entry {
    /// A command that is to be answered within `limit`.
    pub(super) fn new(command: Command, limit: Duration) -> (Self, Answer) {
        let (answer, receiver) = oneshot::channel();
        (Self { command, answer, limit }, receiver)
    }
}

/// The pumps of one server, one for each connection. All commands of a lock go through
/// the same one, and so keep their order.
#[derive(Debug)]
pub(super) struct Pumps(Vec<Pump>);

impl Pumps {
    /// Starts a pump for each; there is at least one.
    pub(super) fn start(connections: Vec<Connections>, runtime: &Handle) -> Self {
        Self(connections.into_iter().map(|it| Pump::start(it, runtime)).collect())
    }

    /// The connection that hints come by, and whatever else is asked of the server.
    pub(super) fn connections(&self) -> &Connections {
        &self.0[0].connections
    }

    /// Whether hints can be expected, for who waits. The connection that they come by is made
    /// anew if it is lost: the lock that is waited for may be another's.
    pub(super) fn hear(&self) -> bool {
        let Pump { connections, runtime, .. } = &self.0[0];
        let is_open = connections.shared().ears.are_open();
        if !is_open {
            connections.recover(runtime);
        }
        is_open
    }

    fn place(&self, lock: u64) -> usize {
        usize::try_from(lock % self.0.len() as u64).unwrap_or_default()
    }

    /// Whether the commands of two locks go through the same pump.
    pub(super) fn have_together(&self, first: &LockKey, second: &LockKey) -> bool {
        self.place(number_of(first)) == self.place(number_of(second))
    }

    /// Queues commands, in this order.
    pub(super) fn push(&self, entries: impl IntoIterator<Item = Entry>) {
        if let [pump] = &self.0[..] {
            return pump.push(entries);
        }
        let mut sorted: Vec<Vec<_>> = self.0.iter().map(|_| Vec::new()).collect();
        for entry in entries {
            sorted[self.place(entry.command.lock)].push(entry);
        }
        for (pump, entries) in self.0.iter().zip(sorted).filter(|(_, it)| !it.is_empty()) {
            pump.push(entries);
        }
    }
}

/// Where commands are given to the pump of one connection. When it is dropped, the pump
/// sends what there is, and ends.
struct Pump {
    connections: Arc<Connections>,
    runtime: Handle,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    entries: Vec<Entry>,
    /// The pump, where it sleeps.
    sleeper: Option<Waker>,
    /// Nothing more is put in, or nothing more is taken out.
    is_closed: bool,
}

impl Pump {
    /// Starts a pump on the runtime that drives the connections.
    fn start(connections: Connections, runtime: &Handle) -> Self {
        let (connections, queue) = (Arc::new(connections), Arc::default());
        // Made before the task: a runtime that has ended drops it unpolled.
        let end = End(Arc::clone(&queue));
        runtime.spawn(run(end, connections.clone()));
        Self { connections, runtime: runtime.clone(), queue }
    }

    /// Queues commands, in this order.
    fn push(&self, entries: impl IntoIterator<Item = Entry>) {
        let mut queue = lock(&self.queue);
        if queue.is_closed {
            // Whoever waits for an answer hears that there will be none.
            return;
        }
        queue.entries.extend(entries);
        let sleeper = queue.sleeper.take();
        drop(queue);
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }
}

/// What is queued is left out: it names locks.
impl fmt::Debug for Pump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.connections.fmt(f)
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        let mut queue = lock(&self.queue);
        queue.is_closed = true;
        let sleeper = queue.sleeper.take();
        drop(queue);
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }
}

/// The end of the pump, be it because its runtime was dropped: nobody waits for an
/// answer any more.
struct End(Arc<Mutex<Queue>>);

impl Drop for End {
    fn drop(&mut self) {
        let mut queue = lock(&self.0);
        queue.is_closed = true;
        let left = std::mem::take(&mut queue.entries);
        drop(queue);
        drop(left);
    }
}

/// Sends off what is queued, until the store is dropped.
async fn run(queue: End, connections: Arc<Connections>) {
    let mut taken = Vec::new();
    while take(&queue.0, &mut taken).await {
        for (limit, entries) in sort(&mut taken) {
            // A task of its own: no answer, and no connection that is hard to be
            // had, holds up what comes after.
            tokio::spawn(batch::run(connections.clone(), entries, limit));
        }
    }
}

/// Takes all that is queued, once there is something; false if there will be nothing.
async fn take(queue: &Mutex<Queue>, taken: &mut Vec<Entry>) -> bool {
    poll_fn(|context| {
        let mut queue = lock(queue);
        if !queue.entries.is_empty() {
            std::mem::swap(&mut queue.entries, taken);
            return Poll::Ready(true);
        }
        if queue.is_closed {
            return Poll::Ready(false);
        }
        queue.sleeper = Some(context.waker().clone());
        Poll::Pending
    })
    .await
}

/// The commands of each flight, and its limit: those of a short TTL give up early, and
/// are no reason for others to. Commands of one limit stay in order, and so do all of
/// one request.
fn sort(taken: &mut Vec<Entry>) -> Vec<(Duration, Vec<Entry>)> {
    let mut flights: Vec<(Duration, Vec<Entry>)> = Vec::with_capacity(1);
    for entry in taken.drain(..) {
        let room = |(limit, entries): &&mut (Duration, Vec<Entry>)| {
            *limit == entry.limit && entries.len() < batch::MOST
        };
        match flights.iter_mut().rev().find(room) {
            Some((_, entries)) => entries.push(entry),
            None => flights.push((entry.limit, vec![entry])),
        }
    }
    flights
}
