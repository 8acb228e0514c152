//! The batcher of one connection: sends commands that are ready at the same time together.
//!
//! A caller puts its command into a queue and has a future at once. If no command is in flight, the
//! connection is there, nobody else works and no burst is expected, the caller sends it too: that
//! saves the time to wake another thread. Otherwise a task on the keeper's runtime takes everything
//! from the queue. That task takes all answers that are not there at once, so a caller whose runtime
//! is blocked holds up nobody. The command is queued by the call, not by the first poll of the
//! future, and goes on if the future is dropped.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::task::coop::unconstrained;
use tokio::time::{Sleep, sleep, timeout_at};

use super::batch::Queued;
use super::calls::Calls;
use super::connection::Connection;
use super::work_queue::{Left, WorkQueue};
use crate::system;

/// Queues commands for one connection. When it is dropped, its task sends what is queued, waits
/// for the answers, and ends.
pub(super) struct Batcher {
    pub(super) connection: Arc<Connection>,
    pub(super) runtime: Handle,
    shared: Arc<TaskState>,
}

/// What the callers and the task share.
struct TaskState {
    connection: Arc<Connection>,
    queue: WorkQueue<Queued, Calls>,
}

impl Batcher {
    /// Starts the task on the runtime that drives the connections.
    pub(super) fn start(connection: Connection, runtime: &Handle) -> Self {
        let connection = Arc::new(connection);
        let queue = WorkQueue::default();
        let shared = Arc::new(TaskState { connection: connection.clone(), queue });
        // Made before the task: a runtime that has ended drops the task unpolled.
        let end = TaskEnd(shared.clone());
        runtime.spawn(run(end).boxed());
        Self { connection, runtime: runtime.clone(), shared }
    }

    /// Queues commands in this order. After the task's end they are dropped without an answer, and
    /// fail as after a shutdown.
    pub(super) fn push(&self, commands: impl IntoIterator<Item = Queued>) {
        let send_here = |calls: &mut Calls| self.shared.send_here(calls);
        self.shared.queue.push(commands, |calls| without_budget(|| send_here(calls)) == Some(true));
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
        self.shared.queue.close();
    }
}

impl TaskState {
    /// Sends what is queued on the caller's thread. False if the task has to do it, or to set
    /// its timer.
    fn send_here(&self, calls: &mut Calls) -> bool {
        if !calls.is_empty() || calls.expect_many() {
            return false;
        }
        let (Some(link), Some(task)) = (self.connection.ready_link(), calls.task.clone()) else {
            return false;
        };
        // On a connection of the program's pool each call has a timer. It must not be one of the
        // caller's runtime, which may end before the call.
        if !link.has_room() {
            return false;
        }
        let (queued, timer) = (self.queue.take(), calls.look_at);
        let mut context = Context::from_waker(&task);
        calls.send(&self.connection, &link, queued, &mut context);
        calls.take_answers(&self.connection, &mut context);
        calls.look_at == timer
    }

    /// Sends what is queued, and takes the answers. Ready once nothing more will come.
    fn poll(
        self: &Arc<Self>,
        mut timer: Pin<&mut Sleep>,
        set_to: &mut Option<Instant>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        self.queue.poll(context, |calls, queued, context| {
            if !calls.task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
                calls.task = Some(context.waker().clone());
            }
            if !queued.is_empty() {
                self.send(calls, queued, context);
            }
            calls.take_answers(&self.connection, context);
            if *set_to != calls.look_at {
                *set_to = calls.look_at;
                if let Some(at) = calls.look_at {
                    timer.as_mut().reset(at.into());
                }
            }
            if calls.look_at.is_some() && timer.as_mut().poll(context).is_ready() {
                calls.give_up_late(&self.connection, system::now());
                return Left::More;
            }
            if calls.is_empty() { Left::Nothing } else { Left::Later }
        })
    }

    fn send(self: &Arc<Self>, calls: &mut Calls, queued: Vec<Queued>, context: &mut Context<'_>) {
        if let Some(link) = self.connection.ready_link() {
            calls.send(&self.connection, &link, queued, context);
            return;
        }
        for (limit, queued) in divide(queued) {
            calls.connecting += 1;
            // A task of its own: a connection that is slow to make does not hold up those who
            // give up earlier.
            tokio::spawn(connect(Connecting(self.clone()), queued, limit).boxed());
        }
    }
}

/// Does `work` without the present task's budget of polls: the connection must not spend it, and with
/// none left, the first poll of a call would not send it. Never `None`: the future is ready at once.
fn without_budget<T>(work: impl FnOnce() -> T) -> Option<T> {
    let mut work = Some(work);
    let mut done = pin!(unconstrained(poll_fn(|_| Poll::Ready(work.take().map(|work| work())))));
    match done.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => None,
    }
}

/// A batch that waits for a connection. Whoever makes one has counted it; its drop counts it out.
struct Connecting(Arc<TaskState>);

impl Drop for Connecting {
    fn drop(&mut self) {
        let mut calls = self.0.queue.work();
        calls.connecting = calls.connecting.saturating_sub(1);
        drop(calls);
        self.0.queue.wake_task();
    }
}

/// Makes a connection, and sends commands of one time limit on it.
async fn connect(connecting: Connecting, queued: Vec<Queued>, limit: Duration) {
    let connection = &connecting.0.connection;
    let deadline = system::now() + limit;
    match timeout_at(deadline.into(), connection.link(limit)).await {
        Ok(Ok(link)) => {
            let mut calls = connecting.0.queue.work();
            // Otherwise the task has ended: the commands are dropped, and fail as after a shutdown.
            if let Some(task) = calls.task.clone() {
                let mut context = Context::from_waker(&task);
                without_budget(|| calls.send(connection, &link, queued, &mut context));
                // A call may have failed at once, and the timer may have to be set.
                task.wake();
            }
        }
        _ => {
            for queued in queued {
                queued.settle(Err(connection.server().no_connection()));
            }
        }
    }
}

/// Divides commands by their time limit.
fn divide(queued: Vec<Queued>) -> Vec<(Duration, Vec<Queued>)> {
    let mut batches: Vec<(Duration, Vec<Queued>)> = Vec::with_capacity(1);
    for queued in queued {
        match batches.iter_mut().find(|(limit, _)| *limit == queued.limit) {
            Some((_, batch)) => batch.push(queued),
            None => batches.push((queued.limit, vec![queued])),
        }
    }
    batches
}

/// The task's end. When the task ends, also because its runtime was dropped, no command waits
/// for an answer any more.
struct TaskEnd(Arc<TaskState>);

impl Drop for TaskEnd {
    fn drop(&mut self) {
        self.0.queue.abandon();
    }
}

/// Sends what is queued, until the batcher is dropped and all commands are answered.
async fn run(end: TaskEnd) {
    let mut timer = pin!(sleep(Duration::ZERO));
    let mut set_to = None;
    // As in `without_budget`.
    unconstrained(poll_fn(|context| end.0.poll(timer.as_mut(), &mut set_to, context))).await;
}
