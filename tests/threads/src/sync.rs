//! What the client uses instead of `std::sync`: shuttle may switch threads at each use.

pub(crate) use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::task::Waker;

pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard, atomic};

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
