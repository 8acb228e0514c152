//! The batcher of one connection: sends commands that are ready at the same time together.
//!
//! A caller puts its command into a queue and has a future at once. A task on the keeper's
//! runtime takes everything from the queue, and sends it in batches. The command is queued by
//! the call, not by the first poll of the future, and goes on if the future is dropped.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;

use super::batch;
use super::batch::Queued;
use super::connection::Connection;
use super::sync::lock;

/// Queues commands for one connection. When it is dropped, its task sends what is queued, and
/// ends.
pub(super) struct Batcher {
    pub(super) connection: Arc<Connection>,
    pub(super) runtime: Handle,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    commands: Vec<Queued>,
    /// The task, while it sleeps.
    sleeper: Option<Waker>,
    /// Either end is gone: the batcher, or its task.
    is_closed: bool,
}

impl Batcher {
    /// Starts the task on the runtime that drives the connections.
    pub(super) fn start(connection: Connection, runtime: &Handle) -> Self {
        let (connection, queue) = (Arc::new(connection), Arc::default());
        // Made before the task: a runtime that has ended drops the task unpolled.
        let end = TaskEnd(Arc::clone(&queue));
        runtime.spawn(run(end, connection.clone()));
        Self { connection, runtime: runtime.clone(), queue }
    }

    /// Queues commands in this order.
    pub(super) fn push(&self, commands: impl IntoIterator<Item = Queued>) {
        let mut queue = lock(&self.queue);
        if queue.is_closed {
            // Dropped without an answer, they fail as after a shutdown.
            return;
        }
        queue.commands.extend(commands);
        let sleeper = queue.sleeper.take();
        drop(queue);
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }
}

/// Leaves out the queue, which names locks.
impl fmt::Debug for Batcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.connection.fmt(f)
    }
}

impl Drop for Batcher {
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

/// The task's end of the queue. When the task ends, also because its runtime was dropped, no
/// command waits for an answer any more.
struct TaskEnd(Arc<Mutex<Queue>>);

impl Drop for TaskEnd {
    fn drop(&mut self) {
        let mut queue = lock(&self.0);
        queue.is_closed = true;
        let left = std::mem::take(&mut queue.commands);
        drop(queue);
        drop(left);
    }
}

/// Sends what is queued, until the batcher is dropped.
async fn run(queue: TaskEnd, connection: Arc<Connection>) {
    let mut taken = Vec::new();
    while take(&queue.0, &mut taken).await {
        for (limit, commands) in divide(&mut taken) {
            // A task of its own: neither a missing answer nor a connection that is slow to
            // make holds up the next batch.
            tokio::spawn(batch::run(connection.clone(), commands, limit));
        }
    }
}

/// Waits until something is queued, and takes all of it. False once nothing more will come.
async fn take(queue: &Mutex<Queue>, taken: &mut Vec<Queued>) -> bool {
    poll_fn(|context| {
        let mut queue = lock(queue);
        if !queue.commands.is_empty() {
            std::mem::swap(&mut queue.commands, taken);
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

/// Divides commands into batches of one time limit each: those of a short TTL give up early,
/// and the others need not. Commands of one limit keep their order, and so do all of one
/// request.
fn divide(taken: &mut Vec<Queued>) -> Vec<(Duration, Vec<Queued>)> {
    let mut batches: Vec<(Duration, Vec<Queued>)> = Vec::with_capacity(1);
    for queued in taken.drain(..) {
        let has_room = |(limit, commands): &&mut (Duration, Vec<Queued>)| {
            *limit == queued.limit && commands.len() < batch::MAX_COMMANDS
        };
        match batches.iter_mut().rev().find(has_room) {
            Some((_, commands)) => commands.push(queued),
            None => batches.push((queued.limit, vec![queued])),
        }
    }
    batches
}
