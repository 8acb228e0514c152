//! Several mutexes at once: all of them, or none.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::consume_budget;

use super::lock_spec::{Key, lifetime_options};
use crate::core::error::LockError;
use crate::core::key::IntoLockKey;
use crate::core::options::{Options, Wait};
use crate::engine::acquire::acquire_all;
use crate::engine::lease_set::LeaseSet;
use crate::engine::shared::Shared;

/// Several mutexes by name, to be held together: a cheap handle, from [`Locks::all`](crate::Locks::all).
///
/// They are the same locks as of [`Locks::mutex`](crate::Locks::mutex): who has one of them keeps all
/// others from it. Where all are free, one command takes them; else they are taken one
/// after another, in the order of their names, whatever order they were given in. So
/// two that have some in common never wait for each other.
///
/// On a cluster, only what shares a slot is taken by one command: see
/// [`LockKey`](crate::LockKey).
///
/// The idea is Redisson's `MultiLock`; that it has an order is ours.
#[derive(Clone, Debug)]
#[must_use = "the locks do nothing until they are locked"]
pub struct MultiLock {
    shared: Arc<Shared>,
    keys: Vec<Key>,
    options: Options,
}

impl MultiLock {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        keys: impl IntoIterator<Item = impl IntoLockKey>,
    ) -> Self {
        let keys = keys.into_iter().map(Key::new).collect();
        Self { shared: shared.clone(), keys, options: Options::default() }
    }

    /// How long each lease lasts unless it is renewed, which it is every third of this:
    /// 100 ms to 24 h, by default 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = ttl;
        self
    }

    /// How long [`lock`](Self::lock) waits, for all of them together: a duration, by
    /// default 10 s, or [`Wait::Forever`].
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.options.wait = wait.into();
        self
    }

    lifetime_options!(options);

    /// Waits until it holds all of them. What it has while it waits for the next is
    /// renewed; if one of those is lost meanwhile, it gives all back and starts over.
    ///
    /// # Errors
    ///
    /// In each case nothing stays held.
    ///
    /// - [`LockError::TimedOut`], with the lock that was waited for last, if not all
    ///   could be had within the wait.
    /// - [`LockError::InvalidOption`] for no name at all, or more than 64.
    /// - All others as of [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Panics
    ///
    /// If one command can't take all of them outside of a tokio runtime with timers; and
    /// over Redis in a tokio runtime without them.
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped before it is ready, nothing stays held. What it
    /// has by then is released in the background, and its place in a queue is given up
    /// as of [`Mutex::lock`](crate::Mutex::lock). But a future that is kept, and not
    /// polled, keeps what it has.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    ///
    /// let leases = locks.all(["account:7", "account:3"]).lock().await?;
    /// assert!(locks.mutex("account:3").try_lock().await.is_err());
    /// for lease in &leases {
    ///     println!("{} with the fencing token {}", lease.key(), lease.fence()?);
    /// }
    /// leases.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lock(&self) -> Result<LeaseSet, LockError> {
        self.acquire(self.options).await
    }

    /// Takes all of them if all are free and nobody waits for one, and does not wait.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`], with the first that another holds or waits for; all others
    /// as of [`lock`](Self::lock). A store that fails is asked again for a second.
    ///
    /// # Panics
    ///
    /// If it has to ask again outside of a tokio runtime with timers; and over Redis in a
    /// tokio runtime without them.
    ///
    /// # Cancel safety
    ///
    /// As of [`lock`](Self::lock).
    pub async fn try_lock(&self) -> Result<LeaseSet, LockError> {
        self.acquire(self.options.at_once()).await
    }

    async fn acquire(&self, options: Options) -> Result<LeaseSet, LockError> {
        // Some are refused without the store.
        consume_budget().await;
        let keys = self.keys.iter().map(Key::get).collect::<Result<_, _>>()?;
        acquire_all(&self.shared, keys, options).await
    }
}
