//! Wakes what waits for news of a lock: jobs that sleep until their next tick, when their work may run
//! again; and leases that may be replaced, when others want their lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio::time::sleep;

use crate::core::key::LockKey;
use crate::core::sync::lock;
use crate::keeper::Keeper;
use crate::store::{Ask, LimitCommand, Store};
use crate::system;

/// How often lost messages wake anybody at most: each asks the store.
const MISSED: Duration = Duration::from_secs(60);

/// The jobs of a client, or its leases that may be replaced.
#[derive(Debug)]
pub(super) struct Wakeups {
    keeper: Keeper,
    by_key: Mutex<HashMap<LockKey, Vec<Arc<Bell>>>>,
    /// How often messages may have been lost.
    losses: AtomicU64,
    /// The client has subscribed to what tells of them after so many losses. One job does it for all.
    watched: AsyncMutex<Option<u64>>,
}

/// Wakes one of them.
#[derive(Debug, Default)]
struct Bell {
    /// There is news of its lock.
    news: Notify,
    /// News may be lost.
    missed: Notify,
}

impl Wakeups {
    pub(super) fn new(keeper: Keeper) -> Self {
        let (by_key, losses, watched) =
            (Mutex::default(), AtomicU64::new(0), AsyncMutex::default());
        Self { keeper, by_key, losses, watched }
    }

    /// There is news of this lock.
    pub(super) fn wake(&self, key: &LockKey) {
        for bell in lock(&self.by_key).get(key).into_iter().flatten() {
            bell.news.notify_one();
        }
    }

    /// Messages may be lost. Jobs subscribe again before they ask: the commands of a job may go by
    /// connections that carry no messages.
    pub(super) fn missed(&self) {
        self.losses.fetch_add(1, Ordering::AcqRel);
        lock(&self.by_key).values().flatten().for_each(|bell| bell.missed.notify_one());
    }
}

/// A job that can be woken, until it is dropped.
#[derive(Debug)]
pub(crate) struct Wakeup {
    all: Arc<Wakeups>,
    key: LockKey,
    bell: Arc<Bell>,
    /// When lost messages last woke it.
    missed: Mutex<Option<Instant>>,
}

impl Wakeup {
    pub(super) fn open(all: &Arc<Wakeups>, key: &LockKey) -> Self {
        let (key, bell) = (key.clone(), Arc::<Bell>::default());
        lock(&all.by_key).entry(key.clone()).or_default().push(bell.clone());
        Self { all: all.clone(), key, bell, missed: Mutex::default() }
    }

    /// Waits until there may be news of its lock, or until news may be lost. Anybody may have sent the
    /// message, so the caller asks the store. Cancel safe, if its caller asks the store then.
    pub(crate) async fn woken(&self) {
        let missed = async {
            self.bell.missed.notified().await;
            let last = *lock(&self.missed);
            let since = last.map_or(MISSED, |at| system::now().saturating_duration_since(at));
            sleep(MISSED.saturating_sub(since)).await;
            *lock(&self.missed) = Some(system::now());
        };
        tokio::select! {
            biased;
            () = self.bell.news.notified() => {}
            () = missed => {}
        }
    }

    /// Subscribes the client, where it is not subscribed from its first command on, or has lost the
    /// connection.
    pub(crate) async fn watch(&self, store: &dyn Store) {
        let mut watched = self.all.watched.lock().await;
        let losses = self.all.losses.load(Ordering::Acquire);
        if *watched == Some(losses) {
            return;
        }
        // The limits come by the same channel, and reading them subscribes to it.
        let is_final = match store.limits(LimitCommand::Read).await {
            Ok(_) => true,
            Err(error) => !error.is_passing,
        };
        if is_final {
            *watched = Some(losses);
        }
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
            others.retain(|other| !Arc::ptr_eq(other, &self.bell));
            if others.is_empty() {
                by_key.remove(&self.key);
            }
        }
    }
}
