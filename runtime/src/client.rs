//! A client of a store. Its acquisitions and its leases reach the store through it.

pub(crate) mod in_flight;
pub(crate) mod limits;
pub(crate) mod not_granted;
pub(crate) mod pending;
mod subscription;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use self::limits::OperatorLimits;
use crate::core::error::{LockError, Step};
use crate::core::key::LockKey;
use crate::hints::HintRouter;
use crate::keeper::Keeper;
use crate::state::lease::LeaseContext;
use crate::store::{ClientId, RequestId, Store};

/// A client of a store, with its keeper, its hints and the ids of its requests.
// Apart from the count of its `Arc`, which every lease changes on some core.
#[repr(align(64))]
pub(crate) struct Client {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) keeper: Keeper,
    pub(crate) leases: Arc<LeaseContext>,
    pub(crate) hints: Arc<HintRouter>,
    pub(crate) limits: Arc<OperatorLimits>,
    pub(crate) id: ClientId,
    requests: AtomicU64,
}

impl Client {
    pub(crate) fn new(store: Arc<dyn Store>, keeper: Keeper, id: ClientId) -> Self {
        let hints = HintRouter::new(keeper.clone());
        let listener: Weak<HintRouter> = Arc::downgrade(&hints);
        store.listen(id, listener);
        let shutdown = keeper.shutdown.clone();
        let leases = Arc::new(LeaseContext { store: store.clone(), shutdown });
        let limits = OperatorLimits::new(store.clone(), keeper.clone(), hints.clone());
        let listener: Weak<OperatorLimits> = Arc::downgrade(&limits);
        hints.set_limit_listener(listener);
        Self { store, keeper, leases, hints, limits, id, requests: AtomicU64::new(0) }
    }

    /// Fails in a process that was forked off: the keeper's thread is not in it. Every
    /// operation asks this first, because the fork may have copied locked mutexes.
    pub(crate) fn check_not_forked(&self, step: Step, key: &LockKey) -> Result<(), LockError> {
        self.keeper.check_not_forked().map_err(|error| LockError::store(step, key, error))
    }

    pub(crate) fn elapsed(&self, since: Instant) -> Duration {
        self.store.now().saturating_duration_since(since)
    }

    pub(crate) fn next_request(&self) -> RequestId {
        RequestId::next(self.id, &self.requests)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.keeper.end();
    }
}
