//! The client: where locks are kept, and how the attribute finds it.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::faults::Faults;
use super::multi_lock::MultiLock;
use super::mutex::Mutex;
use super::reentrant_mutex::ReentrantMutex;
use super::rw_lock::RwLock;
use super::semaphore::Semaphore;
use crate::client::Client;
use crate::core::error::LockError;
use crate::core::key::IntoLockKey;
use crate::engine::acquire::adopt;
use crate::engine::lease::Lease;
use crate::engine::shared::Shared;
use crate::engine::ticket::Ticket;
use crate::keeper::Keeper;
use crate::store::memory::MemoryStore;
use crate::store::{ClientId, ClientInfo, Store};

/// A client of a lock store: cheap to clone, one a process is enough.
///
/// Over Redis it has a thread of its own, which renews leases and drives the
/// connection; it may live in a `static` and outlive the runtime it was made
/// on. Waiting needs the timers of a tokio runtime, which `#[tokio::main]` has. A process
/// that is forked off without `exec` has no such thread: there every command fails at
/// once, and a client of its own is to be connected.
/// When the last clone and the last lease are gone, it finishes what is
/// still to be released, for at most 2 seconds.
#[derive(Clone)]
pub struct Locks {
    shared: Arc<Shared>,
}

impl Locks {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        keeper: Keeper,
        id: ClientId,
        hands_over: bool,
    ) -> Self {
        Self { shared: Arc::new(Shared::new(store, keeper, id, hands_over)) }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.shared.client
    }

    /// Locks within this process only, kept in memory: for tests, examples,
    /// and services that run alone.
    ///
    /// Each call makes a store of its own; clones share it. Leases live by
    /// tokio's clock: in a test that pauses it, `tokio::time::advance` past the
    /// TTL lets them expire, while a `sleep` renews them on the way. Renewals
    /// run on the caller's runtime, so work that blocks it loses its lease.
    ///
    /// Pause the clock only where nothing in the test speaks to a real server: a paused
    /// clock jumps to the next timer whenever all tasks wait, and so a pool of sqlx is
    /// timed out while its connection is made.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::on_callers_runtime(Arc::new(MemoryStore::default()))
    }

    /// Locks in memory whose store can be made to fail: for tests of what your code does
    /// when it is down, slow, or loses a lease.
    ///
    /// They are those of [`in_memory`](Self::in_memory) until a fault is planned.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{Fault, LockError, Locks};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let (locks, faults) = Locks::in_memory_with_faults();
    /// faults.always(Fault::Unreachable);
    /// let failed = locks.mutex("order:42").lock().await;
    /// assert!(matches!(failed, Err(LockError::Store { .. })));
    /// # }
    /// ```
    #[must_use]
    pub fn in_memory_with_faults() -> (Self, Faults) {
        let faults = Faults::new();
        (Self::on_callers_runtime(faults.store.clone()), faults)
    }

    /// Locks over a store whose commands need no runtime of their own.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn over(store: Arc<dyn Store>) -> Self {
        Self::on_callers_runtime(store)
    }

    fn on_callers_runtime(store: Arc<dyn Store>) -> Self {
        let id = ClientId::random();
        // Sent once, for as long as the client exists. Nobody waits for the answer: only
        // `inspect` would miss the record.
        drop(store.introduce(&ClientInfo::of_process(id, None), Duration::MAX));
        let keeper = Keeper::on_callers_runtime(store.clone());
        Self::new(store, keeper, id, true)
    }

    /// The same, for a store that was told the client's id.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn over_as(store: Arc<dyn Store>, id: ClientId) -> Self {
        let keeper = Keeper::on_callers_runtime(store.clone());
        Self::new(store, keeper, id, true)
    }

    /// A mutex: one holder at a time.
    pub fn mutex(&self, key: impl IntoLockKey) -> Mutex {
        Mutex::new(&self.shared, key)
    }

    /// Several mutexes, all or none: from 1 to 64 of them, with the names that
    /// [`mutex`](Self::mutex) takes. A name that is given twice counts once.
    pub fn all(&self, keys: impl IntoIterator<Item = impl IntoLockKey>) -> MultiLock {
        MultiLock::new(&self.shared, keys)
    }

    /// A semaphore: at most `limit` permits at a time.
    pub fn semaphore(&self, key: impl IntoLockKey, limit: u32) -> Semaphore {
        Semaphore::new(&self.shared, key, limit)
    }

    /// A reentrant mutex: one owner at a time, who may take it again.
    pub fn reentrant_mutex(&self, key: impl IntoLockKey) -> ReentrantMutex {
        ReentrantMutex::new(&self.shared, key)
    }

    /// A read-write lock: readers together, or one writer.
    pub fn rw_lock(&self, key: impl IntoLockKey) -> RwLock {
        RwLock::new(&self.shared, key)
    }

    /// Takes up a lease that was [detached](crate::Lease::detach) elsewhere, with a new
    /// fencing token and its whole TTL.
    ///
    /// A ticket is good for one adoption, by a client of the same server and prefix.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] if the lease had ended, or another has adopted it.
    /// - [`LockError::ShutDown`] once the client was [shut down](Self::shutdown).
    /// - [`LockError::Store`] if the store failed, and went on failing for a second. The
    ///   ticket may be spent then; if so, the lock is released in the background.
    ///
    /// # Panics
    ///
    /// If it has to ask again outside of a tokio runtime with timers; and over Redis in a
    /// tokio runtime without them.
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped before it is ready, nothing stays held by this
    /// client. The ticket may be spent then.
    pub async fn adopt(&self, ticket: Ticket) -> Result<Lease, LockError> {
        adopt(&self.shared, ticket).await
    }

    /// Makes this the client that `#[distributed_lock]` uses in this process,
    /// unless a task has one of its own or the attribute names one.
    ///
    /// Called again, it replaces the client, with a warning.
    pub fn install(&self) {
        // With the lock of ours let go of: a subscriber may ask for the current client.
        let before =
            INSTALLED.write().unwrap_or_else(PoisonError::into_inner).replace(self.clone());
        if before.is_some() {
            tracing::warn!("the installed lock client is replaced by another");
        }
    }

    /// Runs a future whose attributes use this client, whatever is installed:
    /// each test can have its own.
    ///
    /// Tasks that it spawns, and handlers of a server, are outside of the
    /// scope: put their futures into one, or name a client with `locks = …`.
    ///
    /// # Cancel safety
    ///
    /// As safe as the future: it is dropped with this one.
    pub fn scope<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        SCOPE.scope(self.clone(), work)
    }

    /// The client that an attribute uses here: that of the task's [scope](Self::scope), else
    /// the [installed](Self::install) one. `None` if there is neither.
    #[must_use]
    pub fn current() -> Option<Self> {
        let installed = || INSTALLED.read().unwrap_or_else(PoisonError::into_inner).clone();
        SCOPE.try_with(Clone::clone).ok().or_else(installed)
    }
}

static INSTALLED: std::sync::RwLock<Option<Locks>> = std::sync::RwLock::new(None);

tokio::task_local! {
    static SCOPE: Locks;
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.shared, f)
    }
}
