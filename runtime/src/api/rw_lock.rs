//! The read-write lock: many readers, or one writer.

use std::time::Duration;

use super::lock_options::{common_setters, setters, text_setters};
use super::lock_spec::LockSpec;
use crate::core::error::LockError;
#[cfg(feature = "tower")]
use crate::engine::acquire::Look;
use crate::engine::lease::Lease;
use crate::store::Kind;

/// A lock for many readers or one writer: a cheap handle, from
/// [`Locks::rw_lock`](crate::Locks::rw_lock).
///
/// Requests are served in the order in which they came. A writer does not wait for readers
/// that came after it. When it has gone, the readers behind it are let in together.
///
/// Each reader has a lease of its own. If a reader dies, it delays a writer until its own
/// TTL is over, however many others read. A writer's lease has a fencing token; a reader's
/// has none.
///
/// With an [`owner`](Self::owner), a holder may acquire more:
///
/// - An owner that reads may take another read lock, ahead of waiting writers.
/// - An owner that writes may also read, and then release the write lease. Nobody writes in
///   between.
/// - An owner that is the only reader may upgrade with [`try_write`](Self::try_write).
/// - An owner that would wait for itself gets [`LockError::WouldDeadlock`].
///
/// The idea is Redisson's `RReadWriteLock`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// let locks = leasehold::Locks::in_memory();
/// let write = locks.rw_lock("catalogue").write().await?;
/// println!("write with the fencing token {}", write.fence()?);
/// write.release().await?;
/// let read = locks.rw_lock("catalogue").read().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct RwLock {
    spec: LockSpec,
    /// The TTL of writers. The spec has that of readers.
    write_ttl: Duration,
}

impl RwLock {
    pub(crate) fn new(spec: LockSpec) -> Self {
        let write_ttl = spec.given.options.ttl;
        Self { spec, write_ttl }
    }

    /// How long a lease of either kind lasts without a renewal: 100 ms to 24 h, by default
    /// 30 s. The client renews it every third of this time.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.read_ttl(ttl).write_ttl(ttl)
    }

    /// How long a reader's lease lasts without a renewal: 100 ms to 24 h, by default 30 s.
    pub fn read_ttl(mut self, ttl: Duration) -> Self {
        self.spec.given.options.ttl = ttl;
        self
    }

    /// How long a writer's lease lasts without a renewal: 100 ms to 24 h, by default 30 s.
    pub fn write_ttl(mut self, ttl: Duration) -> Self {
        self.write_ttl = ttl;
        self
    }

    setters! {
        (spec.given):
        /// How long [`read`](Self::read) and [`write`](Self::write) wait: a duration, or
        /// [`Wait::Forever`](crate::Wait::Forever). The default is 10 s.
        wait;
        /// How long a released lease of a reader or a writer stays with this process, idle, after
        /// its last use. Off by default; at most 1 h.
        ///
        /// The next acquisition here has it without a command, until another client wants it. If
        /// the process dies while the lease is idle, it stays held for the rest of its TTL. With an
        /// owner, on a quorum or a pool of your own it has no effect.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        ///
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), leasehold::LockError> {
        /// # let locks = leasehold::Locks::in_memory();
        /// let prices = locks.rw_lock("prices").linger(Duration::from_secs(2));
        /// for _ in 0..1000 {
        ///     let lease = prices.read().await?; // the first asks the server
        ///     lease.release().await?;
        /// }
        /// # Ok(())
        /// # }
        /// ```
        linger;
        /// The owner of these leases: 1 to 128 bytes without control characters. By default
        /// there is none, and each lease stands alone.
        ///
        /// Callers that give the same name are one owner, in whatever process they run.
        owner;
    }

    common_setters!((spec.given));

    text_setters!((spec.given));

    /// Acquires a read lock, beside other readers. While another writes, waits for at most
    /// [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// - [`LockError::TimedOut`] if a writer held the lock, or others were before this
    ///   request in the queue, for the whole wait.
    /// - [`LockError::Busy`] in the same case, with a wait of zero.
    /// - [`LockError::Quorum`] on a quorum, if too few servers agreed for the whole wait
    ///   because too many of them failed.
    /// - [`LockError::InvalidOption`] if an option is out of its range. No command is sent.
    #[doc = include_str!("errors/waiting.md")]
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped before it is ready, it holds nothing. It gives up its
    /// place in the queue as [`Mutex::lock`](crate::Mutex::lock) does.
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
    pub fn read(&self) -> impl Future<Output = Result<Lease, LockError>> + Send + use<> {
        self.spec.acquire(Ok(Kind::Read))
    }

    /// Acquires a read lock if nobody writes or waits, or if its [`owner`](Self::owner)
    /// holds the lock already, and never waits.
    ///
    /// # Errors
    ///
    /// - [`LockError::Busy`] if its owner does not hold the lock, and another writes or
    ///   waits.
    /// - [`LockError::Quorum`] on a quorum, if too few servers agreed because too many of
    ///   them failed.
    /// - [`LockError::InvalidOption`] if an option is out of its range. No command is sent.
    #[doc = include_str!("errors/trying.md")]
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped before it is ready, it holds nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let catalogue = leasehold::Locks::in_memory().rw_lock("catalogue");
    /// let read = catalogue.try_read().await?;
    /// assert!(read.fence().is_err()); // a reader has no fencing token
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_read(&self) -> impl Future<Output = Result<Lease, LockError>> + Send + use<> {
        self.spec.try_acquire(Ok(Kind::Read))
    }

    /// Acquires the write lock, for one writer alone. While others read or write, waits for
    /// at most [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// - [`LockError::WouldDeadlock`] if its [`owner`](Self::owner) reads or writes
    ///   already, and still does after a quarter of a second. The pause is for a lease that
    ///   was dropped just before and is released in the background. With a wait of zero it is
    ///   granted beside its owner's own reads, as by [`try_write`](Self::try_write).
    /// - [`LockError::TimedOut`] if others held the lock, or were before this request in
    ///   the queue, for the whole wait.
    /// - [`LockError::Busy`] in the same case, with a wait of zero.
    /// - [`LockError::Quorum`] on a quorum, if too few servers agreed for the whole wait
    ///   because too many of them failed.
    /// - [`LockError::InvalidOption`] if an option is out of its range. No command is sent.
    #[doc = include_str!("errors/waiting.md")]
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped before it is ready, it holds nothing. It gives up its
    /// place in the queue as [`Mutex::lock`](crate::Mutex::lock) does.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let catalogue = leasehold::Locks::in_memory().rw_lock("catalogue");
    /// let write = catalogue.write().await?;
    /// assert!(catalogue.try_read().await.is_err());
    /// write.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn write(&self) -> impl Future<Output = Result<Lease, LockError>> + Send + use<> {
        self.spec.with_ttl(self.write_ttl).acquire(Ok(Kind::Write))
    }

    /// Acquires the write lock if nobody reads, writes or waits, or if its
    /// [`owner`](Self::owner) is the only reader, and never waits.
    ///
    /// # Errors
    ///
    /// - [`LockError::Busy`] if its owner does not hold the lock, and others hold it or
    ///   wait for it.
    /// - [`LockError::WouldDeadlock`] if its owner reads together with others, or writes
    ///   already. Readers that only [linger](Self::linger) release the lock instead.
    /// - [`LockError::Quorum`] on a quorum, if too few servers agreed because too many of
    ///   them failed.
    /// - [`LockError::InvalidOption`] if an option is out of its range. No command is sent.
    #[doc = include_str!("errors/trying.md")]
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped before it is ready, it holds no more than before.
    ///
    /// # Examples
    ///
    /// An owner upgrades from reading to writing and goes back, with no other writer in
    /// between:
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
    pub fn try_write(&self) -> impl Future<Output = Result<Lease, LockError>> + Send + use<> {
        self.spec.with_ttl(self.write_ttl).try_acquire(Ok(Kind::Write))
    }

    #[cfg(feature = "tower")]
    pub(crate) fn look(&self, writes: bool) -> Option<Look> {
        if writes {
            self.spec.with_ttl(self.write_ttl).look(Kind::Write)
        } else {
            self.spec.look(Kind::Read)
        }
    }

    #[cfg(feature = "tower")]
    pub(crate) fn take_idle(&self, writes: bool) -> Option<Lease> {
        if writes {
            self.spec.with_ttl(self.write_ttl).take_idle(Kind::Write)
        } else {
            self.spec.take_idle(Kind::Read)
        }
    }
}
