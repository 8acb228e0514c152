//! The lock of a request, or its locks.

use futures_util::TryFutureExt;
use http::Method;

use super::held::Held;
use super::outage::Part;
use super::waiters::{Acquire, Bound, Bounds, WaiterSlot, bounded};
use crate::api::locks::Look;
use crate::api::multi_lock::MultiLock;
use crate::api::mutex::Mutex;
use crate::api::rw_lock::RwLock;
use crate::api::semaphore::Semaphore;
use crate::core::key::LockKey;
use crate::core::rate::Rate;
use crate::engine::lease::Lease;

/// The kind of lock that a layer takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum LayerKind {
    Mutex,
    Semaphore {
        limit: u32,
    },
    RwLock,
    /// No lock, and a part of a set.
    Rate {
        rate: Rate,
    },
    /// Several locks and rates, or a rate alone.
    Set,
}

impl LayerKind {
    /// Its name in metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Semaphore { .. } => "semaphore",
            Self::RwLock => "rw_lock",
            Self::Rate { .. } => "rate",
            Self::Set => "set",
        }
    }
}

/// A lock of a layer, or its set of locks, with all its options.
#[derive(Clone)]
pub(super) struct RequestLock {
    /// A set has that of its first lock.
    pub(super) key: LockKey,
    pub(super) handle: Handle,
}

/// A lock of one of the kinds that a layer takes.
#[derive(Clone)]
pub(super) enum Handle {
    Mutex(Mutex),
    Semaphore(Semaphore),
    RwLock(RwLock),
    Set(MultiLock),
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
    /// The keys of a set but the first.
    pub(super) fn other_keys(&self) -> Vec<LockKey> {
        match &self.handle {
            Handle::Set(locks) => locks.limits().skip(1).map(|(key, _)| key.clone()).collect(),
            _ => Vec::new(),
        }
    }

    /// How many requests may wait for each lock, if `most` may wait for one with such a limit.
    pub(super) fn bounds(&self, most: impl Fn(Option<u32>) -> usize) -> Bounds {
        let bound = |key: &LockKey, limit: Option<u32>| Bound {
            key: key.clone(),
            most: most(limit),
            is_semaphore: limit.is_some(),
        };
        match &self.handle {
            Handle::Set(locks) => {
                let mut all: Vec<Bound> = Vec::new();
                for (key, limit) in locks.limits() {
                    let bound = bound(key, limit);
                    // A lock and a rate may have one name, and a request waits once.
                    match all.iter_mut().find(|known| known.key == bound.key) {
                        Some(known) => known.most = known.most.min(bound.most),
                        None => all.push(bound),
                    }
                }
                Bounds::All(all)
            }
            Handle::Semaphore(semaphore) => Bounds::One(bound(&self.key, Some(semaphore.limit()))),
            Handle::Mutex(_) | Handle::RwLock(_) => Bounds::One(bound(&self.key, None)),
        }
    }

    /// A lease that is idle in this process. It needs no future, and no second service.
    pub(super) fn take_idle(&self, Share { weight, reads }: Share) -> Option<Lease> {
        match &self.handle {
            Handle::Mutex(mutex) => mutex.take_idle(),
            Handle::Semaphore(semaphore) => semaphore.take_idle(weight),
            Handle::RwLock(lock) => lock.take_idle(!reads),
            Handle::Set(_) => None,
        }
    }

    /// A look whether the store answers, for one of the locks. `None` if the request would be refused
    /// without it.
    pub(super) fn look(&self, part: &Part, Share { weight, reads }: Share) -> Option<Look> {
        match &self.handle {
            Handle::Mutex(mutex) => mutex.look(),
            Handle::Semaphore(semaphore) => semaphore.look(weight),
            Handle::RwLock(lock) => lock.look(!reads),
            Handle::Set(locks) => locks.look(part.as_ref()),
        }
    }

    /// Acquires it. If the request has to wait, it takes the slot.
    pub(super) fn acquire(
        self,
        Share { weight, reads }: Share,
        slot: Option<WaiterSlot>,
    ) -> Acquire {
        match self.handle {
            Handle::Mutex(mutex) => bounded(slot, mutex.lock().map_ok(Held::One)),
            Handle::Semaphore(permits) => {
                bounded(slot, permits.acquire_many(weight).map_ok(Held::One))
            }
            Handle::RwLock(lock) if reads => bounded(slot, lock.read().map_ok(Held::One)),
            Handle::RwLock(lock) => bounded(slot, lock.write().map_ok(Held::One)),
            Handle::Set(locks) => bounded(slot, locks.lock().map_ok(Held::All)),
        }
    }
}
