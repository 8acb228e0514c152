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

/// The locks of a request, of which each may have so many waiters.
pub(super) enum Bounds {
    One(Bound),
    All(Vec<Bound>),
}

/// How many requests may wait for a lock.
pub(super) struct Bound {
    pub(super) key: LockKey,
    pub(super) most: usize,
    pub(super) is_semaphore: bool,
}

impl Bounds {
    fn all(&self) -> &[Bound] {
        match self {
            Self::One(bound) => std::slice::from_ref(bound),
            Self::All(bounds) => bounds,
        }
    }
}

/// A request's slot among the waiters of its locks, once it has taken one. A drop gives it back.
pub(super) struct WaiterSlot {
    waiters: Waiters,
    bounds: Bounds,
    is_taken: bool,
}

impl WaiterSlot {
    pub(super) fn new(waiters: &Waiters, bounds: Bounds) -> Self {
        Self { waiters: waiters.clone(), bounds, is_taken: false }
    }

    /// Takes a slot at each lock, unless it had them before. If one of them has as many waiters as may
    /// be, takes none and returns that.
    fn take(&mut self) -> Result<(), &Bound> {
        if !self.is_taken {
            let mut all = self.waiters.all();
            let waiting = |bound: &Bound| all.get(&bound.key).copied().unwrap_or(0);
            let bounds = self.bounds.all();
            if let Some(full) = bounds.iter().find(|bound| waiting(bound) >= bound.most) {
                return Err(full);
            }
            for bound in bounds {
                *all.entry(bound.key.clone()).or_default() += 1;
            }
            self.is_taken = true;
        }
        Ok(())
    }
}

impl Drop for WaiterSlot {
    fn drop(&mut self) {
        if !self.is_taken {
            return;
        }
        let mut all = self.waiters.all();
        for Bound { key, .. } in self.bounds.all() {
            debug_assert!(all.contains_key(key), "a slot is given back twice");
            let Some(waiting) = all.get_mut(key) else { continue };
            *waiting -= 1;
            if *waiting == 0 {
                all.remove(key);
            }
        }
    }
}

/// Why there is no lease.
pub(super) enum Denied {
    Because(LockError),
    /// As many requests wait for this lock as may.
    Crowded {
        key: LockKey,
        is_semaphore: bool,
    },
}

/// Acquires, and takes a slot if it has to wait. Without a slot, any number may wait.
pub(super) fn bounded(
    slot: Option<WaiterSlot>,
    acquire: impl Future<Output = Result<Held, LockError>> + Send + 'static,
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

impl<F: Future<Output = Result<Held, LockError>>> Future for Bounded<F> {
    type Output = Result<Held, Denied>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = this.acquire.poll(cx);
        // A lock that is granted at once needs no slot.
        if answer.is_pending()
            && let Some(slot) = this.slot
            && let Err(&Bound { ref key, is_semaphore, .. }) = slot.take()
        {
            return Poll::Ready(Err(Denied::Crowded { key: key.clone(), is_semaphore }));
        }
        let answer = ready!(answer);
        *this.slot = None;
        Poll::Ready(answer.map_err(Denied::Because))
    }
}
