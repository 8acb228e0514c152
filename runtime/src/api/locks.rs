//! The client, and how the attribute finds it.

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

#[cfg(feature = "faults")]
use super::faults::Faults;
use super::lock_spec::LockSpec;
use super::multi_lock::MultiLock;
use super::mutex::Mutex;
use super::rate_limit::RateLimit;
use super::reentrant_mutex::ReentrantMutex;
use super::rw_lock::RwLock;
use super::semaphore::Semaphore;
use crate::client::Client;
use crate::core::error::LockError;
use crate::core::key::IntoLockKey;
use crate::core::rate::Rate;
#[cfg(feature = "tower")]
pub(crate) use crate::engine::acquire::Look;
use crate::engine::acquire::adopt;
use crate::engine::lease::Lease;
use crate::engine::shared::Shared;
use crate::engine::ticket::Ticket;
use crate::keeper::Keeper;
use crate::state::telemetry;
use crate::store::memory::MemoryStore;
use crate::store::{Ask, ClientId, ClientInfo, Store};

/// A client of one lock store. It makes handles to all kinds of lock, and renews their
/// leases. It is cheap to clone; one for each process is enough.
///
/// Over Redis it has a thread of its own, which renews leases and drives the connection. So
/// it may live in a `static`, and outlive the runtime that made it. Waiting needs the
/// timers of a Tokio runtime, which `#[tokio::main]` provides.
///
/// A child that was forked without `exec` has no such thread. All commands of the copied
/// client fail at once; connect a new client in the child.
///
/// When the last clone and the last lease are dropped, the client finishes the pending
/// releases, for at most 2 seconds.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// use leasehold::Locks;
///
/// let locks = Locks::in_memory(); // in production: Locks::connect(url).await?
/// let lease = locks.mutex("order:42").lock().await?;
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Locks {
    shared: Arc<Shared>,
}

impl Locks {
    pub(crate) fn new(shared: Shared) -> Self {
        telemetry::describe();
        Self { shared: Arc::new(shared) }
    }

    /// Returns true if all locks are out of reach together.
    #[cfg(feature = "tower")]
    pub(crate) fn fails_as_one(&self) -> bool {
        self.shared.client.store.fails_as_one()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.shared.client
    }

    /// Makes a client that keeps locks in this process's memory: for tests, examples, and
    /// services with a single process.
    ///
    /// Each call makes a separate store; clones share it.
    ///
    /// Leases follow Tokio's clock. In a test that pauses it, `tokio::time::advance` past
    /// the TTL makes a lease expire; a `sleep` lets it be renewed on the way. Renewals run
    /// on the caller's runtime, so work that blocks the runtime loses its lease.
    ///
    /// Pause the clock only if nothing in the test talks to a real server. A paused clock
    /// jumps to the next timer when all tasks wait, so a pool of sqlx, for example, times
    /// out while it connects.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::on_callers_runtime(Arc::new(MemoryStore::default()))
    }

    /// Makes a client with a store in memory that can be made to fail: for tests of your
    /// code when the store is down, slow, or loses a lease.
    ///
    /// It works as [`in_memory`](Self::in_memory) until a fault is planned.
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
    #[cfg(feature = "faults")]
    pub fn in_memory_with_faults() -> (Self, Faults) {
        let faults = Faults::new();
        (Self::on_callers_runtime(faults.store.clone()), faults)
    }

    /// A client of a store whose commands need no runtime of their own.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn over(store: Arc<dyn Store>) -> Self {
        Self::on_callers_runtime(store)
    }

    /// Returns true if the store's messages arrive.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn gives_hints(&self) -> bool {
        self.client().store.gives_hints()
    }

    fn on_callers_runtime(store: Arc<dyn Store>) -> Self {
        let id = ClientId::random();
        // Sent once, for as long as the client exists. Nobody waits for the answer: only
        // `inspect` would miss the record.
        drop(store.introduce(&ClientInfo::of_process(id, None), Duration::MAX));
        Self::of_known_client(store, id)
    }

    fn of_known_client(store: Arc<dyn Store>, id: ClientId) -> Self {
        let keeper = Keeper::on_callers_runtime(store.clone());
        Self::new(Shared::new(store, keeper, id, true))
    }

    /// The same, for a store that knows the client's id already.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn over_as(store: Arc<dyn Store>, id: ClientId) -> Self {
        Self::of_known_client(store, id)
    }

    /// A handle to the mutex of this name: one holder at a time. No command is sent.
    pub fn mutex(&self, key: impl IntoLockKey) -> Mutex {
        Mutex::new(LockSpec::new(&self.shared, key))
    }

    /// A handle to the mutexes of these names, which are acquired together, all or none: 1
    /// to 64 names. A name that is given twice counts once. No command is sent.
    ///
    /// [`MultiLock::permit`] adds permits of semaphores, and [`MultiLock::read`] and
    /// [`MultiLock::write`] the halves of read-write locks.
    pub fn all(&self, keys: impl IntoIterator<Item = impl IntoLockKey>) -> MultiLock {
        MultiLock::new(&self.shared, keys)
    }

    /// A handle to locks that are acquired together, all or none, and to no mutex:
    /// [`MultiLock::permit`], [`MultiLock::read`] and [`MultiLock::write`] add 1 to 64 of them. No
    /// command is sent.
    pub fn together(&self) -> MultiLock {
        MultiLock::new(&self.shared, [""; 0])
    }

    /// A handle to the semaphore of this name: at most `limit` permits at a time, from 1
    /// up. No command is sent.
    pub fn semaphore(&self, key: impl IntoLockKey, limit: u32) -> Semaphore {
        Semaphore::new(LockSpec::new(&self.shared, key), limit)
    }

    /// A handle to the rate limit of this name. No command is sent.
    ///
    /// Each call brings its own rate, which the store compares with what all calls have taken. So a
    /// deploy can change the rate: processes with the old and the new one run side by side. A lock may
    /// have the same name, and is something else.
    pub fn rate(&self, key: impl IntoLockKey, rate: Rate) -> RateLimit {
        RateLimit::new(&self.shared, key, rate)
    }

    /// A handle to the reentrant mutex of this name: one owner at a time, which may lock it
    /// again. No command is sent.
    pub fn reentrant_mutex(&self, key: impl IntoLockKey) -> ReentrantMutex {
        ReentrantMutex::new(LockSpec::new(&self.shared, key))
    }

    /// A handle to the read-write lock of this name: many readers, or one writer. No
    /// command is sent.
    pub fn rw_lock(&self, key: impl IntoLockKey) -> RwLock {
        RwLock::new(LockSpec::new(&self.shared, key))
    }

    /// Takes over a lease that another process has [detached](crate::Lease::detach), with a
    /// new fencing token and its whole TTL.
    ///
    /// A ticket can be adopted once, by a client of the same server and prefix.
    ///
    /// # Errors
    ///
    /// - [`LockError::TicketEnded`] if the lease has ended, or the ticket was adopted before.
    /// - [`LockError::Store`] if the store failed for a second; at once if it refuses the
    ///   client. The ticket may be used up then. If so, the lock is released in the
    ///   background.
    /// - [`LockError::InvalidOption`] if the ticket's text was changed, and has a time out
    ///   of its range.
    /// - [`LockError::ShutDown`] once the client was [shut down](Self::shutdown).
    /// - [`LockError::NoRuntime`] outside of a Tokio runtime with timers. The ticket can still be
    ///   adopted.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, this client holds nothing. The ticket
    /// may be used up.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let locks = leasehold::Locks::in_memory();
    /// let ticket = locks.mutex("import:7").lock().await?.detach().await?;
    /// let lease = locks.adopt(ticket).await?; // usually in another process
    /// lease.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn adopt(&self, ticket: Ticket) -> Result<Lease, LockError> {
        adopt(&self.shared, ticket).await
    }

    /// Makes this the client that `#[distributed_lock]` uses in this process, unless the
    /// attribute says `locks = …` or the task runs in a [scope](Self::scope).
    ///
    /// A second call replaces the client, and logs a warning with both places.
    #[track_caller]
    pub fn install(&self) {
        let at = Location::caller();
        // With the lock of ours let go of: a subscriber may ask for the current client.
        let before =
            INSTALLED.write().unwrap_or_else(PoisonError::into_inner).replace((self.clone(), at));
        if let Some((_, before)) = before {
            tracing::warn!(%at, %before, "the installed lock client was replaced");
        }
    }

    /// Runs a future whose attributes use this client, whatever is installed. So each test
    /// can have its own.
    ///
    /// Tasks that the future spawns are outside of the scope, and so are the handlers of an
    /// HTTP server. Wrap their futures as well, or name a client with `locks = …`.
    ///
    /// # Cancel safety
    ///
    /// As safe as the given future, which is dropped with this one.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LockError, Locks, distributed_lock};
    ///
    /// #[distributed_lock(key = "nightly")]
    /// async fn nightly() -> Result<u32, LockError> {
    ///     Ok(7)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// assert_eq!(Locks::in_memory().scope(nightly()).await?, 7);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scope<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        SCOPE.scope(self.clone(), work)
    }

    /// The client that an attribute uses here: the one of the task's [scope](Self::scope),
    /// otherwise the [installed](Self::install) one. `None` if there is neither.
    #[must_use]
    pub fn current() -> Option<Self> {
        let installed = || {
            let installed = INSTALLED.read().unwrap_or_else(PoisonError::into_inner);
            installed.as_ref().map(|(locks, _)| locks.clone())
        };
        SCOPE.try_with(Clone::clone).ok().or_else(installed)
    }
}

/// The installed client, and where it was installed.
static INSTALLED: std::sync::RwLock<Option<(Locks, &Location<'static>)>> =
    std::sync::RwLock::new(None);

tokio::task_local! {
    static SCOPE: Locks;
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.shared, f)
    }
}
