//! What the client uses instead of `std::sync`: shuttle may switch threads at each use.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
pub(crate) use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::task::{Poll, Waker};

use shuttle::future::{AbortHandle, JoinHandle};
use shuttle::rand::Rng;
use tokio::runtime::TryCurrentError;

pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard, atomic};
pub(crate) use tokio::runtime::Id;

/// Here shuttle may switch threads.
fn switch() {
    atomic::AtomicBool::new(false).load(atomic::Ordering::SeqCst);
}

/// Tokio's, which shuttle does not know.
#[derive(Debug, Default)]
pub(crate) struct Notify(tokio::sync::Notify);

impl Notify {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn notified(&self) -> tokio::sync::futures::Notified<'_> {
        switch();
        self.0.notified()
    }

    pub(crate) fn notify_one(&self) {
        switch();
        self.0.notify_one();
    }

    pub(crate) fn notify_waiters(&self) {
        switch();
        self.0.notify_waiters();
    }
}

/// The one of `futures_util`, too.
#[derive(Debug, Default)]
pub(crate) struct AtomicWaker(futures_util::task::AtomicWaker);

impl AtomicWaker {
    pub(crate) fn register(&self, waker: &Waker) {
        switch();
        self.0.register(waker);
    }

    pub(crate) fn wake(&self) {
        switch();
        self.0.wake();
    }
}

thread_local! {
    static TASKS: RefCell<Vec<AbortHandle>> = const { RefCell::new(Vec::new()) };
    static ALIVE: Cell<usize> = const { Cell::new(0) };
    /// Waits until none is alive.
    static WAITS: Cell<Option<Waker>> = const { Cell::new(None) };
}

/// Counts a task, until it is dropped.
struct Alive;

impl Alive {
    fn new() -> Self {
        ALIVE.set(ALIVE.get() + 1);
        Self
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        ALIVE.set(ALIVE.get() - 1);
        if let Some(waker) = WAITS.take() {
            waker.wake();
        }
    }
}

/// Starts a task in the background.
pub(crate) fn spawn<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let alive = Alive::new();
    let task = shuttle::future::spawn(async move {
        let _alive = alive;
        task.await
    });
    TASKS.with_borrow_mut(|tasks| tasks.push(task.abort_handle()));
    task
}

/// Ends the tasks in the background, as a runtime does that is dropped. One that is being ended may
/// still start another.
pub(crate) fn end_tasks() {
    shuttle::future::block_on(poll_fn(|context| {
        WAITS.set(Some(context.waker().clone()));
        while let Some(task) = TASKS.with_borrow_mut(Vec::pop) {
            task.abort();
        }
        if ALIVE.get() == 0 { Poll::Ready(()) } else { Poll::Pending }
    }));
}

/// Random bits, by the schedule.
pub(crate) fn random_bits() -> u128 {
    shuttle::rand::thread_rng().r#gen()
}

/// A random number from 0 to 1, by the schedule.
pub(crate) fn chance() -> f64 {
    shuttle::rand::thread_rng().r#gen()
}

/// A runtime whose timers never fire. Its tasks are shuttle's.
#[derive(Clone, Debug)]
pub(crate) struct Handle(tokio::runtime::Handle);

impl Handle {
    pub(crate) fn try_current() -> Result<Self, TryCurrentError> {
        tokio::runtime::Handle::try_current().map(Self)
    }

    pub(crate) fn id(&self) -> Id {
        self.0.id()
    }

    #[expect(clippy::unused_self, reason = "it stands for tokio's")]
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        spawn(task)
    }
}
