//! The read-write lock: readers together, or one writer.

use std::sync::Arc;
use std::time::Duration;

use super::lock_spec::{LockSpec, lifetime_options};
use crate::core::error::LockError;
use crate::core::key::IntoLockKey;
use crate::core::options::Wait;
use crate::engine::lease::Lease;
use crate::engine::shared::Shared;
use crate::store::Kind;

/// A lock that many may read at a time, or one may write, from [`Locks::rw_lock`](crate::Locks::rw_lock).
///
/// First come, first served: readers who wait behind a writer are let in together when
/// he has gone, and a writer waits for no reader who came after him. Each reader has a
/// lease of his own: who dies keeps a writer waiting until his own TTL is over, and no
/// longer, however many others read.
///
/// A writer's lease has a fencing token, a reader's has none.
///
/// With an [`owner`](Self::owner), who has the lock may have more of it:
///
/// - Who reads may read once more, past a writer who waits: he waits for him.
/// - Who writes may read, and release the writer's lease: from then on he only reads,
///   and nobody wrote in between.
/// - Who reads, and nobody else does, may [`try_write`](Self::try_write).
/// - Who has it and would wait for himself gets [`LockError::WouldDeadlock`].
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct RwLock {
    spec: LockSpec,
    /// Of writers; the face has that of readers.
    write_ttl: Duration,
}

impl RwLock {
    pub(crate) fn new(shared: &Arc<Shared>, key: impl IntoLockKey) -> Self {
        let spec = LockSpec::new(shared, key);
        let write_ttl = spec.options.ttl;
        Self { spec, write_ttl }
    }

    /// How long a lease lasts unless it is renewed, which it is every third of this:
    /// 100 ms to 24 h, by default 30 s.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.read_ttl(ttl).write_ttl(ttl)
    }

    /// The [`ttl`](Self::ttl) of readers alone.
    pub fn read_ttl(mut self, ttl: Duration) -> Self {
        self.spec.options.ttl = ttl;
        self
    }

    /// The [`ttl`](Self::ttl) of writers alone.
    pub fn write_ttl(mut self, ttl: Duration) -> Self {
        self.write_ttl = ttl;
        self
    }

    /// How long [`read`](Self::read) and [`write`](Self::write) wait: a duration, by
    /// default 10 s, or [`Wait::Forever`].
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.spec.options.wait = wait.into();
        self
    }

    lifetime_options!(spec.options);

    /// Whose leases these are: 1 to 128 bytes without control characters. Whoever
    /// gives the same name, in whatever process, is the same owner. By default each
    /// lease is nobody's in particular, and has no more than itself.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.spec.set_owner(owner);
        self
    }

    /// Waits until it may read.
    ///
    /// # Errors
    ///
    /// As of [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Panics
    ///
    /// As of [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    ///
    /// As of [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let catalogue = leasehold::Locks::in_memory().rw_lock("catalogue");
    ///
    /// let one = catalogue.read().await?;
    /// let other = catalogue.read().await?;
    /// assert!(catalogue.try_write().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read(&self) -> Result<Lease, LockError> {
        self.spec.acquire(Kind::Read).await
    }

    /// Reads if nobody writes, and nobody waits, and does not wait; or if its
    /// [`owner`](Self::owner) has it already, whoever waits.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`] if another writes, or anybody waits; all others as of
    /// [`read`](Self::read). A store that fails is asked again for a second.
    ///
    /// # Panics
    ///
    /// If it has to ask again outside of a tokio runtime with timers; and over Redis in a
    /// tokio runtime without them.
    ///
    /// # Cancel safety
    ///
    /// As of [`read`](Self::read).
    pub async fn try_read(&self) -> Result<Lease, LockError> {
        self.spec.try_acquire(Kind::Read).await
    }

    /// Waits until it may write, alone.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldDeadlock`] if its [`owner`](Self::owner) reads or writes
    /// already, and goes on for a quarter of a second: a lease that was dropped just
    /// before is released in the background. All others as of [`read`](Self::read).
    ///
    /// # Panics
    ///
    /// As of [`read`](Self::read).
    ///
    /// # Cancel safety
    ///
    /// As of [`read`](Self::read).
    pub async fn write(&self) -> Result<Lease, LockError> {
        self.spec.with_ttl(self.write_ttl).acquire(Kind::Write).await
    }

    /// Writes if nobody reads, writes or waits, and does not wait; or if nobody but its
    /// [`owner`](Self::owner) reads, whoever waits.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`] if others have it, or wait; [`LockError::WouldDeadlock`] if
    /// its owner reads, and others do as well, or if he writes already; all others as
    /// of [`read`](Self::read). A store that fails is asked again for a second.
    ///
    /// # Panics
    ///
    /// As of [`try_read`](Self::try_read).
    ///
    /// # Cancel safety
    ///
    /// As of [`read`](Self::read).
    ///
    /// # Examples
    ///
    /// From reading to writing, and back, with nobody in between:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let mine = leasehold::Locks::in_memory().rw_lock("catalogue").owner("editor-3");
    ///
    /// let read = mine.read().await?;
    /// let write = mine.try_write().await?;
    /// println!("write with the fencing token {}", write.fence()?);
    /// write.release().await?;
    /// assert!(read.is_held());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_write(&self) -> Result<Lease, LockError> {
        self.spec.with_ttl(self.write_ttl).try_acquire(Kind::Write).await
    }
}
