//! Wakes jobs that sleep until their next tick, when their work may run again.

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

/// How often lost messages wake all jobs at most: each asks the store.
const MISSED: Duration = Duration::from_secs(60);

/// The jobs of a client.
#[derive(Debug)]
pub(super) struct SleepingJobs {
    keeper: Keeper,
    by_key: Mutex<HashMap<LockKey, Vec<Arc<Notify>>>>,
    missed: Mutex<Option<Instant>>,
    /// The client is subscribed to what tells of them.
    are_watched: AtomicBool,
}

impl SleepingJobs {
    pub(super) fn new(keeper: Keeper) -> Self {
        let (by_key, missed, are_watched) =
            (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        Self { keeper, by_key, missed, are_watched }
    }

    /// The work of this lock may run again.
    pub(super) fn wake(&self, key: &LockKey) {
        for job in lock(&self.by_key).get(key).into_iter().flatten() {
            job.notify_one();
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
        by_key.values().flatten().for_each(|job| job.notify_one());
    }
}

/// A job that can be woken, until it is dropped.
#[derive(Debug)]
pub(crate) struct JobRoute {
    all: Arc<SleepingJobs>,
    key: LockKey,
    woken: Arc<Notify>,
}

impl JobRoute {
    pub(super) fn open(all: &Arc<SleepingJobs>, key: &LockKey) -> Self {
        let (key, woken) = (key.clone(), Arc::new(Notify::new()));
        lock(&all.by_key).entry(key.clone()).or_default().push(woken.clone());
        Self { all: all.clone(), key, woken }
    }

    /// Waits until its work may run again. Cancel safe.
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
            Ok(_) => true,
            Err(error) => !error.is_passing,
        };
        are_watched.store(is_final, Ordering::Release);
    }
}

impl Drop for JobRoute {
    fn drop(&mut self) {
        // In a process that was forked off, the routes may stay locked.
        if self.all.keeper.is_forked() {
            return;
        }
        let mut by_key = lock(&self.all.by_key);
        if let Some(jobs) = by_key.get_mut(&self.key) {
            jobs.retain(|job| !Arc::ptr_eq(job, &self.woken));
            if jobs.is_empty() {
                by_key.remove(&self.key);
            }
        }
    }
}
