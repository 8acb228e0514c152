//! Wakes what waits for news of a lock: jobs that sleep until their next tick, when their work may run
//! again; and leases that may be replaced, when others want their lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::core::key::LockKey;
use crate::core::sync::lock;
use crate::keeper::Keeper;
use crate::store::{Ask, LimitCommand, Store};
use crate::system;

/// How often lost messages wake all at most: each asks the store.
const MISSED: Duration = Duration::from_secs(60);

/// The jobs of a client, or its leases that may be replaced.
#[derive(Debug)]
pub(super) struct Wakeups {
    keeper: Keeper,
    by_key: Mutex<HashMap<LockKey, Vec<Arc<Notify>>>>,
    missed: Mutex<Option<Instant>>,
    /// The client is subscribed to what tells of them.
    are_watched: AtomicBool,
}

impl Wakeups {
    pub(super) fn new(keeper: Keeper) -> Self {
        let (by_key, missed, are_watched) =
            (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        Self { keeper, by_key, missed, are_watched }
    }

    /// There is news of this lock.
    pub(super) fn wake(&self, key: &LockKey) {
        for woken in lock(&self.by_key).get(key).into_iter().flatten() {
            woken.notify_one();
        }
    }

    /// Messages may be lost.
    pub(super) fn missed(&self) {
        let by_key = lock(&self.by_key);
        if by_key.is_empty() {
            return;
        }
        {
            let (mut missed, now) = (lock(&self.missed), system::now());
            if missed.is_some_and(|at| now.saturating_duration_since(at) < MISSED) {
                return;
            }
            *missed = Some(now);
        }
        by_key.values().flatten().for_each(|woken| woken.notify_one());
    }
}

/// Somebody who can be woken, until it is dropped.
#[derive(Debug)]
pub(crate) struct Wakeup {
    all: Arc<Wakeups>,
    key: LockKey,
    woken: Arc<Notify>,
}

impl Wakeup {
    pub(super) fn open(all: &Arc<Wakeups>, key: &LockKey) -> Self {
        let (key, woken) = (key.clone(), Arc::new(Notify::new()));
        lock(&all.by_key).entry(key.clone()).or_default().push(woken.clone());
        Self { all: all.clone(), key, woken }
    }

    /// Waits until there is news of its lock. Cancel safe.
    pub(crate) async fn woken(&self) {
        self.woken.notified().await;
    }

    /// Subscribes the client, where it is not subscribed from its first command on.
    pub(crate) async fn watch(&self, store: &dyn Store) {
        let are_watched = &self.all.are_watched;
        if are_watched.load(Ordering::Acquire) {
            return;
        }
        // The limits come by the same channel, and reading them subscribes to it.
        let is_final = match store.limits(LimitCommand::Read).await {
            // On a cluster the subscription may have failed.
            Ok(_) => store.gives_hints(),
            Err(error) => !error.is_passing,
        };
        are_watched.store(is_final, Ordering::Release);
    }
}

impl Drop for Wakeup {
    fn drop(&mut self) {
        // In a process that was forked off, the routes may stay locked.
        if self.all.keeper.is_forked() {
            return;
        }
        let mut by_key = lock(&self.all.by_key);
        if let Some(others) = by_key.get_mut(&self.key) {
            others.retain(|other| !Arc::ptr_eq(other, &self.woken));
            if others.is_empty() {
                by_key.remove(&self.key);
            }
        }
    }
}
