//! Counts the waiting requests of each lock, and limits their number.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::held::{Boxed, Held};
use crate::core::error::LockError;
use crate::core::key::LockKey;
use crate::core::sync::lock;

/// An acquisition in flight.
pub(super) type Acquire = Boxed<Result<Held, Denied>>;

/// The number of waiting requests for each lock. A lock without an entry has none.
#[derive(Clone, Default)]
pub(super) struct Waiters(Arc<Mutex<HashMap<LockKey, usize>>>);

impl Waiters {
    fn all(&self) -> MutexGuard<'_, HashMap<LockKey, usize>> {
        lock(&self.0)
    }
}

/// A request's slot among the waiters of its lock, once it has taken one. A drop gives it back.
pub(super) struct WaiterSlot {
    waiters: Waiters,
    key: LockKey,
    most: usize,
    is_taken: bool,
}

impl WaiterSlot {
    pub(super) fn new(waiters: &Waiters, key: LockKey, most: usize) -> Self {
        Self { waiters: waiters.clone(), key, most, is_taken: false }
    }

    /// Takes a slot. Returns true if it has one now, or had it before.
    fn take(&mut self) -> bool {
        if !self.is_taken {
            let mut all = self.waiters.all();
            let waiting = all.get(&self.key).copied().unwrap_or(0);
            if waiting < self.most {
                all.insert(self.key.clone(), waiting + 1);
                self.is_taken = true;
            }
        }
        self.is_taken
    }
}

impl Drop for WaiterSlot {
    fn drop(&mut self) {
        if !self.is_taken {
            return;
        }
        let mut all = self.waiters.all();
        debug_assert!(all.contains_key(&self.key), "a slot is given back twice");
        let Some(waiting) = all.get_mut(&self.key) else { return };
        *waiting -= 1;
        if *waiting == 0 {
            all.remove(&self.key);
        }
    }
}

/// Why an acquisition has failed.
pub(super) struct Failed {
    pub(super) error: LockError,
    /// Its lock is a semaphore.
    pub(super) is_semaphore: bool,
}

/// Why there is no lease.
pub(super) enum Denied {
    Because(Failed),
    /// As many requests wait for this lock as may.
    Crowded(LockKey),
}

/// Acquires, and takes a slot if it has to wait. Without a slot, any number may wait.
pub(super) fn bounded(
    slot: Option<WaiterSlot>,
    acquire: impl Future<Output = Result<Held, Failed>> + Send + 'static,
) -> Acquire {
    Box::pin(Bounded { acquire, slot })
}

pin_project! {
    // Dropped in this order: its slot is free when it has stopped waiting.
    struct Bounded<F> {
        #[pin]
        acquire: F,
        slot: Option<WaiterSlot>,
    }
}

impl<F: Future<Output = Result<Held, Failed>>> Future for Bounded<F> {
    type Output = Result<Held, Denied>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = this.acquire.poll(cx);
        // A lock that is granted at once needs no slot.
        if answer.is_pending()
            && let Some(slot) = this.slot
            && !slot.take()
        {
            return Poll::Ready(Err(Denied::Crowded(slot.key.clone())));
        }
        let answer = ready!(answer);
        *this.slot = None;
        Poll::Ready(answer.map_err(Denied::Because))
    }
}
