//! The semaphore: a limit on how much runs at a time, across all processes.

use super::lock_options::{common_setters, setters, text_setters};
use super::lock_spec::LockSpec;
use crate::core::error::LockError;
#[cfg(feature = "tower")]
use crate::engine::acquire::Look;
use crate::engine::lease::Lease;
use crate::store::Kind;

/// A semaphore, for a limited number of permits at a time: a cheap handle, from
/// [`Locks::semaphore`](crate::Locks::semaphore).
///
/// Each permit is a lease with an id and a TTL of its own. So a crash loses no permit, and
/// none is given back twice. Requests are served in the order in which they came. Permits
/// have no fencing token, because several holders are valid at the same time.
///
/// Each call passes its own limit, and the store compares that limit with all permits that
/// are held. So a deploy can change the limit: processes with the old and the new one can
/// run side by side.
///
/// The idea is Redisson's `RPermitExpirableSemaphore`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// let locks = leasehold::Locks::in_memory();
/// let permit = locks.semaphore("thumbnails", 4).acquire().await?;
/// permit.run(async { /* at most four at a time */ }).await?;
/// permit.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a semaphore does nothing until a permit is acquired"]
pub struct Semaphore {
    spec: LockSpec,
    limit: u32,
}

impl Semaphore {
    pub(crate) fn new(spec: LockSpec, limit: u32) -> Self {
        Self { spec, limit }
    }

    #[cfg(feature = "tower")]
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    setters! {
        (spec.given):
        /// How long a permit lasts without a renewal: 100 ms to 24 h, by default 30 s. The
        /// client renews it every third of this time.
        ttl;
        /// How long [`acquire`](Self::acquire) waits: a duration, or [`Wait::Forever`](crate::Wait::Forever). The
        /// default is 10 s.
        wait;
        /// How long a released permit stays with this process, idle, after its last use. Off by
        /// default; at most 1 h.
        ///
        /// The next acquisition here has it without a command, until another client wants it. If
        /// the process dies while the permit is idle, it stays taken for the rest of its TTL. On a
        /// quorum or a pool of your own it has no effect.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        ///
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), leasehold::LockError> {
        /// # let locks = leasehold::Locks::in_memory();
        /// let reports = locks.semaphore("reports", 8).linger(Duration::from_secs(2));
        /// for _ in 0..1000 {
        ///     let lease = reports.acquire().await?; // the first asks the server
        ///     lease.release().await?;
        /// }
        /// # Ok(())
        /// # }
        /// ```
        linger;
        /// A name for the holder of these permits, which
        /// [`Locks::is_held_by`](crate::Locks::is_held_by) and
        /// [`Locks::inspect`](crate::Locks::inspect) show: 1 to 128 bytes without control
        /// characters. By default there is none.
        owner;
    }

    common_setters!((spec.given));

    text_setters!((spec.given));

    /// Acquires one permit. While none is free, waits for at most [`wait`](Self::wait).
    ///
    /// Clients are served in the order in which they came, and so are the tasks of one
    /// client. A client with several waiting tasks hands a permit over among them for at
    /// most 20 ms or 64 leases, whichever ends first.
    ///
    /// # Errors
    ///
    /// - [`LockError::TimedOut`] if no permit was free for this request for the whole wait.
    /// - [`LockError::Busy`] in the same case, with a wait of zero.
    /// - [`LockError::InvalidOption`] if the limit is 0, or an option is out of its range.
    ///   No command is sent.
    /// - [`LockError::Closed`] if an operator has set a [limit](crate::Locks::limits) that leaves no
    ///   room for the request, such as 0.
    #[doc = include_str!("errors/waiting.md")]
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped before it is ready, it holds no permit. Its place in
    /// the queue goes to the next task of this client that waits for the same semaphore. If
    /// there is none, the place, or a permit in flight, is taken back in the background. If
    /// the store can't be reached, it ends after the TTL or after 6 s, whichever is longer.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    ///
    /// let first = locks.semaphore("thumbnails", 2).acquire().await?;
    /// let second = locks.semaphore("thumbnails", 2).acquire().await?;
    /// assert!(locks.semaphore("thumbnails", 2).try_acquire().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> impl Future<Output = Result<Lease, LockError>> + Send + use<> {
        self.spec.acquire(self.kind(1))
    }

    /// Acquires one permit that takes `weight` of the limit, from 1 to all of it. While too
    /// little is free, waits for at most [`wait`](Self::wait).
    ///
    /// A heavy request waits for all it needs, and no lighter request that came later
    /// passes it. So it is served in the end.
    ///
    /// # Errors
    ///
    /// - [`LockError::TimedOut`] if too little was free for this request for the whole
    ///   wait.
    /// - [`LockError::Busy`] in the same case, with a wait of zero.
    /// - [`LockError::InvalidOption`] if `weight` is 0 or above the limit, the limit is 0,
    ///   or an option is out of its range. No command is sent.
    /// - [`LockError::Closed`] if an operator has set a [limit](crate::Locks::limits) that leaves no
    ///   room for the request, such as 0.
    #[doc = include_str!("errors/waiting.md")]
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped before it is ready, it holds no permit. It gives up
    /// its place in the queue as [`acquire`](Self::acquire) does.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let cores = leasehold::Locks::in_memory().semaphore("cores", 8);
    ///
    /// let heavy = cores.acquire_many(6).await?;
    /// let light = cores.acquire_many(2).await?;
    /// assert!(cores.try_acquire().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire_many(
        &self,
        weight: u32,
    ) -> impl Future<Output = Result<Lease, LockError>> + Send + use<> {
        self.spec.acquire(self.kind(weight))
    }

    /// Acquires one permit if one is free and nobody else waits, and never waits.
    ///
    /// # Errors
    ///
    /// - [`LockError::Busy`] if no permit is free, or another request waits.
    /// - [`LockError::InvalidOption`] if the limit is 0, or an option is out of its range.
    ///   No command is sent.
    /// - [`LockError::Closed`] if an operator has set a [limit](crate::Locks::limits) that leaves no
    ///   room for the request, such as 0.
    #[doc = include_str!("errors/trying.md")]
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped before it is ready, it holds no permit.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LockError, Locks};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// let reports = Locks::in_memory().semaphore("reports", 1);
    /// let permit = reports.try_acquire().await?;
    /// assert!(matches!(reports.try_acquire().await, Err(LockError::Busy { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire(&self) -> impl Future<Output = Result<Lease, LockError>> + Send + use<> {
        self.spec.try_acquire(self.kind(1))
    }

    /// Acquires one permit that takes `weight` of the limit, from 1 to all of it, if so much
    /// is free and nobody else waits, and never waits.
    ///
    /// # Errors
    ///
    /// - [`LockError::Busy`] if too little is free, or another request waits.
    /// - [`LockError::InvalidOption`] if `weight` is 0 or above the limit, the limit is 0,
    ///   or an option is out of its range. No command is sent.
    /// - [`LockError::Closed`] if an operator has set a [limit](crate::Locks::limits) that leaves no
    ///   room for the request, such as 0.
    #[doc = include_str!("errors/trying.md")]
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped before it is ready, it holds no permit.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let cores = leasehold::Locks::in_memory().semaphore("cores", 8);
    /// let heavy = cores.try_acquire_many(6).await?;
    /// assert!(cores.try_acquire_many(3).await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire_many(
        &self,
        weight: u32,
    ) -> impl Future<Output = Result<Lease, LockError>> + Send + use<> {
        self.spec.try_acquire(self.kind(weight))
    }

    #[cfg(feature = "tower")]
    pub(crate) fn look(&self, weight: u32) -> Option<Look> {
        self.spec.look(self.kind(weight).ok()?)
    }

    #[cfg(feature = "tower")]
    pub(crate) fn take_idle(&self, weight: u32) -> Option<Lease> {
        self.spec.take_idle(self.kind(weight).ok()?)
    }

    fn kind(&self, weight: u32) -> Result<Kind, LockError> {
        permit(self.limit, weight)
    }
}

/// The lease that is a permit of this weight, if there can be one.
pub(in crate::api) fn permit(limit: u32, weight: u32) -> Result<Kind, LockError> {
    if limit == 0 {
        return Err(LockError::InvalidOption {
            option: "permits",
            problem: "a semaphore with a limit of 0 never grants a permit; the minimum is 1"
                .to_owned(),
        });
    }
    if weight == 0 || weight > limit {
        return Err(LockError::InvalidOption {
            option: "weight",
            problem: format!("{weight} is not between 1 and the semaphore's limit of {limit}"),
        });
    }
    Ok(Kind::Semaphore { limit, weight })
}
