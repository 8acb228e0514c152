//! The client of a quorum.

mod connect;

use std::fmt;
use std::time::Duration;

pub(crate) use self::connect::{connect_quorum, connect_quorum_lazy};
use super::lock_client::{LockClient, sealed};
use super::locks::Locks;
use super::mutex::Mutex;
use super::rw_lock::RwLock;
use crate::core::error::LockError;
use crate::core::key::IntoLockKey;
use crate::engine::lease::LeaseHandle;
use crate::state::shutdown::ShutdownReport;
#[cfg(feature = "doctor")]
use crate::store::Diagnosis;

/// A client of a quorum: a lock is held if a majority of several independent servers says
/// so. From `Locks::quorum`, which needs the feature `quorum`.
///
/// A server that dies, forgets or is cut off neither loses a lock nor lets in a second
/// holder, as long as a majority works. The servers are an odd number of masters without
/// replicas. The algorithm is
/// [Redlock](https://redis.io/docs/latest/develop/use/patterns/distributed-locks/), with
/// fencing tokens that grow over all majorities.
///
/// A quorum has no queue: waiters ask again at random moments, in no order. It has no
/// semaphores, because no server would know of all permits that are held. It has no
/// reentrant mutexes and no tickets.
///
/// It can't be [installed](Locks::install). An attribute names it with `locks = …`, and a
/// `LockLayer` takes it like any other client.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), leasehold::LockError> {
/// let locks = leasehold::Locks::quorum(["redis://a/", "redis://b/", "redis://c/"]).await?;
/// let lease = locks.mutex("invoice:42").lock().await?;
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// A layer and an attribute take it for what needs no permits:
///
/// ```
/// use leasehold::{LockError, LockLayer, QuorumLocks, distributed_lock};
///
/// fn layer(locks: &QuorumLocks) -> LockLayer<&'static str> {
///     LockLayer::mutex(locks, "reports")
/// }
///
/// #[distributed_lock(key = "reports", locks = locks)]
/// async fn report(locks: &QuorumLocks) -> Result<(), LockError> {
///     Ok(())
/// }
/// ```
///
/// With permits they do not compile:
///
/// ```compile_fail,E0277
/// use leasehold::{LockError, LockLayer, QuorumLocks, distributed_lock};
///
/// fn layer(locks: &QuorumLocks) -> LockLayer<&'static str> {
///     LockLayer::semaphore(locks, "reports", 4)
/// }
/// ```
///
/// ```compile_fail,E0277
/// use leasehold::{LockError, LockLayer, QuorumLocks, distributed_lock};
///
/// #[distributed_lock(key = "reports", permits = 4, locks = locks)]
/// async fn report(locks: &QuorumLocks) -> Result<(), LockError> {
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct QuorumLocks {
    locks: Locks,
}

impl QuorumLocks {
    /// A client of a store that has no queue.
    pub(super) fn new(locks: Locks) -> Self {
        Self { locks }
    }

    /// The same, for a store that a test has made.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn of(locks: Locks) -> Self {
        Self::new(locks)
    }

    /// A handle to the mutex of this name on the quorum: one holder at a time, with the
    /// options and results of [`Locks::mutex`]. No command is sent.
    ///
    /// Waiters have no order. Without a majority of the servers, an acquisition fails with
    /// [`LockError::Quorum`](crate::LockError::Quorum); without a wait it fails at once.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::quorum(["redis://a/", "redis://b/", "redis://c/"]).await?;
    /// let lease = locks.mutex("invoice:42").lock().await?;
    /// println!("write with the fencing token {}", lease.fence()?);
    /// lease.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn mutex(&self, key: impl IntoLockKey) -> Mutex {
        self.locks.mutex(key)
    }

    /// A handle to the read-write lock of this name on the quorum: many readers, or one
    /// writer. No command is sent.
    ///
    /// A writer that was refused and waits keeps later readers out, so that they do not
    /// starve it.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locks: leasehold::QuorumLocks) -> Result<(), leasehold::LockError> {
    /// let read = locks.rw_lock("catalogue").read().await?;
    /// read.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn rw_lock(&self, key: impl IntoLockKey) -> RwLock {
        self.locks.rw_lock(key)
    }

    /// Looks for what puts the locks at risk, or slows them down, on each server of the quorum:
    /// see [`Locks::diagnose`].
    ///
    /// # Cancel safety
    ///
    /// Safe: it changes nothing.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locks: leasehold::QuorumLocks) {
    /// for finding in locks.diagnose().await.findings {
    ///     println!("{}: {}, {}", finding.server, finding.check, finding.found);
    /// }
    /// # }
    /// ```
    #[cfg(feature = "doctor")]
    pub async fn diagnose(&self) -> Diagnosis {
        self.locks.diagnose().await
    }

    /// Elects a leader on the quorum: see [`Mutex::lead`].
    ///
    /// # Errors
    ///
    /// - [`LockError::ShutDown`] when the client is [shut down](Self::shutdown). The future
    ///   was dropped at once, and the lock was released.
    /// - [`LockError::NoRuntime`] outside of a Tokio runtime with timers.
    /// - [`LockError::WrongKind`] if the name is in use by another kind of lock, or by
    ///   something that is not a lock.
    /// - [`LockError::InvalidKey`] if no lock can have this name.
    /// - [`LockError::InvalidOption`] if the quorum's `longest_ttl` is below 30 seconds.
    ///   Use [`Mutex::lead`] with a shorter `ttl` there.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping this future drops the work, and then the lock is released in the
    /// background.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locks: leasehold::QuorumLocks) -> Result<(), leasehold::LockError> {
    /// locks.lead("scheduler", |_lease| async { /* one process at a time */ }).await
    /// # }
    /// ```
    pub async fn lead<W: Future>(
        &self,
        key: impl IntoLockKey,
        work: impl FnMut(LeaseHandle) -> W,
    ) -> Result<W::Output, LockError> {
        self.locks.lead(key, work).await
    }

    /// Asks whether a majority of the servers answers, as [`Locks::ping`] does.
    ///
    /// # Errors
    ///
    /// - [`LockError::Quorum`] if too few servers answered.
    /// - [`LockError::Store`] if the answers took more than a second.
    /// - [`LockError::ShutDown`] once the client was [shut down](Self::shutdown).
    /// - [`LockError::NoRuntime`] outside of a Tokio runtime with timers.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is held.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locks: leasehold::QuorumLocks) -> Result<(), leasehold::LockError> {
    /// println!("a majority answers in {:?}", locks.ping().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ping(&self) -> Result<Duration, LockError> {
        self.locks.ping().await
    }

    /// Shuts the client down and reports what is left: see [`Locks::shutdown`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, nothing new is acquired, and held leases go on.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locks: leasehold::QuorumLocks) {
    /// let report = locks.shutdown().await;
    /// println!("{} released, {} left", report.released, report.left);
    /// # }
    /// ```
    pub async fn shutdown(&self) -> ShutdownReport {
        self.locks.shutdown().await
    }
}

impl fmt::Debug for QuorumLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("QuorumLocks").field(&self.locks).finish()
    }
}

impl LockClient for QuorumLocks {}

impl sealed::Client for QuorumLocks {
    fn locks(&self) -> &Locks {
        &self.locks
    }
}
