//! What the client uses instead of `std::sync`: shuttle may switch threads at each use.

pub(crate) use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::task::Waker;

use shuttle::future::JoinHandle;
use tokio::runtime::TryCurrentError;

pub(crate) use shuttle::future::spawn;
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
