//! The client of a quorum, and what takes that or another client.

#[cfg(feature = "redis")]
mod connect;

use std::fmt;
use std::ops::Deref;

#[cfg(feature = "redis")]
pub(crate) use self::connect::{connect_quorum, connect_quorum_lazy};
use super::locks::Locks;
use super::mutex::Mutex;
use super::rw_lock::RwLock;
use crate::core::error::LockError;
use crate::core::key::IntoLockKey;
use crate::engine::lease::LeaseHandle;
use crate::state::shutdown::ShutdownReport;

/// A client whose locks are held where a majority of several servers says so: an odd
/// number of masters that know nothing of each other. From
/// `Locks::quorum`, which comes with the feature `redis`.
///
/// What one server can't promise, this can: a server that dies, forgets or is cut off
/// takes no lock with it, and makes no second holder, as long as a majority stands. After
/// [Redlock](https://redis.io/docs/latest/develop/use/patterns/distributed-locks/), with
/// fencing tokens that grow over all majorities.
///
/// What one server can, this can't: there is no queue, so who waits asks again at random
/// moments, and nobody is sure to come before another; and there are no semaphores, since
/// a majority for each holder is no count of all.
///
/// It can't be [installed](Locks::install): an attribute names it with `locks = …`. A
/// `LockLayer` takes it like any other client.
#[derive(Clone)]
pub struct QuorumLocks {
    locks: Locks,
}

impl QuorumLocks {
    /// A client of a store that has no queue.
    #[cfg(feature = "redis")]
    pub(super) fn new(locks: Locks) -> Self {
        Self { locks }
    }

    /// The same over a store that a test has made.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn of(locks: Locks) -> Self {
        Self { locks }
    }

    /// A mutex: one holder at a time. Its options and answers are those of
    /// [`Locks::mutex`]; but who waits is in no queue, and a store without a majority is
    /// [`LockError::Quorum`](crate::LockError::Quorum), at once for who does not wait.
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

    /// A read-write lock: readers together, or one writer. A writer who was refused and
    /// waits keeps later readers out, so that they do not starve him.
    pub fn rw_lock(&self, key: impl IntoLockKey) -> RwLock {
        self.locks.rw_lock(key)
    }

    /// Runs a future on one process at a time: see [`Locks::lead`].
    ///
    /// # Errors
    ///
    /// As of [`Mutex::lead`].
    ///
    /// # Cancel safety
    ///
    /// As of [`Mutex::lead`].
    pub async fn lead<W: Future>(
        &self,
        key: impl IntoLockKey,
        work: impl FnMut(LeaseHandle) -> W,
    ) -> Result<W::Output, LockError> {
        self.locks.lead(key, work).await
    }

    /// Ends the client in order: see [`Locks::shutdown`].
    ///
    /// # Cancel safety
    ///
    /// As of [`Locks::shutdown`].
    pub async fn shutdown(&self) -> ShutdownReport {
        self.locks.shutdown().await
    }
}

impl fmt::Debug for QuorumLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("QuorumLocks").field(&self.locks).finish()
    }
}

/// What keeps mutexes and read-write locks: [`Locks`], [`QuorumLocks`], and whatever
/// leads to one of them, such as a reference or an `Arc`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no lock client",
    note = "give a `Locks` or a `QuorumLocks`, or a reference to one"
)]
pub trait LockClient: sealed::Client {}

/// What keeps semaphores as well: [`Locks`], and whatever leads to it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` keeps no semaphores",
    label = "this can't count permits",
    note = "on a quorum each permit would have a majority of its own, which is no count of all: keep semaphores on one server, with `Locks::connect`"
)]
pub trait SemaphoreClient: LockClient {}

impl LockClient for Locks {}
impl SemaphoreClient for Locks {}
impl LockClient for QuorumLocks {}
impl<D: Deref<Target: LockClient>> LockClient for D {}
impl<D: Deref<Target: SemaphoreClient>> SemaphoreClient for D {}

pub(crate) mod sealed {
    use super::{Deref, Locks, QuorumLocks};

    pub trait Client {
        #[doc(hidden)]
        fn locks(&self) -> &Locks;
    }

    impl Client for Locks {
        fn locks(&self) -> &Locks {
            self
        }
    }

    impl Client for QuorumLocks {
        fn locks(&self) -> &Locks {
            &self.locks
        }
    }

    impl<D: Deref<Target: Client>> Client for D {
        fn locks(&self) -> &Locks {
            self.deref().locks()
        }
    }
}
