//! The lock of a request.

use http::Method;

use super::waiters::{Acquire, WaiterSlot, bounded};
use crate::api::locks::Look;
use crate::api::mutex::Mutex;
use crate::api::rw_lock::RwLock;
use crate::api::semaphore::Semaphore;
use crate::core::key::LockKey;
use crate::engine::lease::Lease;

/// The kind of lock that a layer takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum LayerKind {
    Mutex,
    Semaphore { limit: u32 },
    RwLock,
}

impl LayerKind {
    /// Its name in metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Semaphore { .. } => "semaphore",
            Self::RwLock => "rw_lock",
        }
    }
}

/// A lock of a layer, with all its options.
#[derive(Clone)]
pub(super) struct RequestLock {
    pub(super) key: LockKey,
    pub(super) handle: Handle,
}

/// A lock of one of the kinds that a layer takes.
#[derive(Clone)]
pub(super) enum Handle {
    Mutex(Mutex),
    Semaphore(Semaphore),
    RwLock(RwLock),
}

/// How a request takes its lock.
#[derive(Clone, Copy)]
pub(super) struct Share {
    /// How much of a semaphore.
    weight: u32,
    /// Beside others that read.
    reads: bool,
}

impl Share {
    pub(super) fn new(weight: u32, method: &Method) -> Self {
        Self { weight, reads: method.is_safe() }
    }
}

impl RequestLock {
    pub(super) fn kind(&self) -> LayerKind {
        match &self.handle {
            Handle::Mutex(_) => LayerKind::Mutex,
            Handle::Semaphore(semaphore) => LayerKind::Semaphore { limit: semaphore.limit() },
            Handle::RwLock(_) => LayerKind::RwLock,
        }
    }

    /// A lease that is idle in this process. It needs no future, and no second service.
    pub(super) fn take_idle(&self, Share { weight, reads }: Share) -> Option<Lease> {
        match &self.handle {
            Handle::Mutex(mutex) => mutex.take_idle(),
            Handle::Semaphore(semaphore) => semaphore.take_idle(weight),
            Handle::RwLock(lock) => lock.take_idle(!reads),
        }
    }

    /// A look whether the store answers. `None` if the request would be refused without it.
    pub(super) fn look(&self, Share { weight, reads }: Share) -> Option<Look> {
        match &self.handle {
            Handle::Mutex(mutex) => mutex.look(),
            Handle::Semaphore(semaphore) => semaphore.look(weight),
            Handle::RwLock(lock) => lock.look(!reads),
        }
    }

    /// Acquires it. If the request has to wait, it takes the slot.
    pub(super) fn acquire(
        self,
        Share { weight, reads }: Share,
        slot: Option<WaiterSlot>,
    ) -> Acquire {
        match self.handle {
            Handle::Mutex(mutex) => bounded(slot, async move { mutex.lock().await }),
            Handle::Semaphore(permits) => {
                bounded(slot, async move { permits.acquire_many(weight).await })
            }
            Handle::RwLock(lock) if reads => bounded(slot, async move { lock.read().await }),
            Handle::RwLock(lock) => bounded(slot, async move { lock.write().await }),
        }
    }
}
