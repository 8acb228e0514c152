//! Several locks that are acquired together: all of them, or none.

#[cfg(feature = "tower")]
mod for_layer;
mod part;

use std::sync::Arc;

use tokio::task::consume_budget;

pub(crate) use self::part::{Part, PartKind};
use super::lock_options::{LockOptions, common_setters, setters, text_setters};
use crate::core::error::LockError;
use crate::core::key::IntoLockKey;
use crate::core::options::Options;
use crate::core::rate::Rate;
#[cfg(feature = "tower")]
pub(crate) use crate::engine::acquire::MAX_KEYS;
use crate::engine::acquire::{SetSpec, acquire_all};
use crate::engine::lease_set::LeaseSet;
use crate::engine::shared::Shared;

/// Several locks that are acquired together, all or none: a cheap handle, from
/// [`Locks::all`](crate::Locks::all) or [`Locks::together`](crate::Locks::together).
///
/// They are the same locks as those of [`Locks::mutex`](crate::Locks::mutex),
/// [`Locks::semaphore`](crate::Locks::semaphore) and [`Locks::rw_lock`](crate::Locks::rw_lock). If
/// all are mutexes or permits and all are free, one command acquires them. Otherwise they are
/// acquired one after another, in the order of their names, whatever order they were given in. So
/// callers with names in common never wait for each other in a circle.
///
/// A caller that waits for one lock holds those whose names come before. So give the limit of
/// one tenant a name that comes before that of the limit for all: `tenant:acme`, then
/// `total`. In the other order the requests of one busy tenant take the permits of all, and
/// wait with them.
///
/// On a cluster, one command acquires only locks that share a slot: see [`LockKey`](crate::LockKey).
/// With several `LocksBuilder::connections`, it acquires only locks that share a connection.
///
/// After Redisson's `MultiLock`; the fixed order is ours.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// let locks = leasehold::Locks::in_memory();
/// let both = locks.all(["account:1", "account:2"]).lock().await?;
/// both.run(async { /* dropped if one of them is lost */ }).await?;
/// both.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// At most 4 jobs of a tenant at a time, at most 64 in all, and one for each order:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// let locks = leasehold::Locks::in_memory();
/// let job = locks.all(["order:1"]).permit("tenant:acme", 4).permit("total", 64);
/// let leases = job.lock().await?;
/// leases.run(async { /* dropped if one of them is lost */ }).await?;
/// leases.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "the locks do nothing until they are locked"]
pub struct MultiLock {
    shared: Arc<Shared>,
    parts: Vec<Part>,
    given: LockOptions,
}

impl MultiLock {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        keys: impl IntoIterator<Item = impl IntoLockKey>,
    ) -> Self {
        let parts = keys.into_iter().map(|key| Part::new(key, PartKind::Mutex)).collect();
        Self::of(shared, parts, LockOptions::default())
    }

    /// These locks, with these options.
    pub(crate) fn of(shared: &Arc<Shared>, parts: Vec<Part>, given: LockOptions) -> Self {
        Self { shared: shared.clone(), parts, given }
    }

    fn with(mut self, key: impl IntoLockKey, kind: PartKind) -> Self {
        self.parts.push(Part::new(key, kind));
        self
    }

    /// Adds a permit of the semaphore of this name: at most `limit` permits at a time, from 1
    /// up.
    ///
    /// It is that of [`Semaphore::acquire`](crate::Semaphore::acquire), and has no fencing token. A
    /// name must not be given twice, or to a mutex and a permit.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// let job = locks.together().permit("tenant:acme", 1).permit("total", 64);
    /// let leases = job.lock().await?;
    /// assert!(job.try_lock().await.unwrap_err().is_held_by_another());
    /// assert!(locks.semaphore("total", 2).try_acquire().await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn permit(self, key: impl IntoLockKey, limit: u32) -> Self {
        self.weighted_permit(key, limit, 1)
    }

    /// Adds a permit that takes `weight` of the semaphore's limit, from 1 to all of it. Otherwise as
    /// [`permit`](Self::permit).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// let leases = locks.all(["report:7"]).weighted_permit("cores", 8, 6).lock().await?;
    /// assert!(locks.semaphore("cores", 8).try_acquire_many(3).await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn weighted_permit(self, key: impl IntoLockKey, limit: u32, weight: u32) -> Self {
        self.with(key, PartKind::Permit { limit, weight })
    }

    /// Adds a read lock of the read-write lock of this name, beside others that read.
    ///
    /// It is that of [`RwLock::read`](crate::RwLock::read), and has no fencing token. A set with
    /// it is acquired one lock after another.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// let both = locks.all(["invoice:7"]).read("prices").lock().await?;
    /// assert!(locks.rw_lock("prices").try_read().await.is_ok());
    /// assert!(locks.rw_lock("prices").try_write().await.is_err());
    /// # drop(both);
    /// # Ok(())
    /// # }
    /// ```
    pub fn read(self, key: impl IntoLockKey) -> Self {
        self.with(key, PartKind::Read)
    }

    /// Adds the write lock of the read-write lock of this name, for one writer alone.
    ///
    /// It is that of [`RwLock::write`](crate::RwLock::write). See [`read`](Self::read).
    pub fn write(self, key: impl IntoLockKey) -> Self {
        self.with(key, PartKind::Write)
    }

    /// Adds a part of the rate of this name: how often the set is acquired, beside how often at a time.
    ///
    /// It is that of [`Locks::rate`](crate::Locks::rate), and no lease: time gives it back, and not the
    /// release. It is taken when all locks are, so a set that waits for a lock takes nothing, and one
    /// that waits for a rate holds nothing. [`LeaseSet::rates`] says what is left.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{Locks, Rate};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// // 3 at a time, and 100 in a minute.
    /// let locks = Locks::in_memory();
    /// let job = locks.together().permit("acme", 3).rate("acme", Rate::per_minute(100));
    /// let leases = job.lock().await?;
    /// assert_eq!((leases.len(), leases.rates()[0].remaining()), (1, 99));
    /// # Ok(())
    /// # }
    /// ```
    pub fn rate(self, key: impl IntoLockKey, rate: Rate) -> Self {
        self.weighted_rate(key, rate, 1)
    }

    /// Adds a part of a rate that takes `weight` of it, from 1 to its burst.
    pub fn weighted_rate(self, key: impl IntoLockKey, rate: Rate, weight: u32) -> Self {
        self.with(key, PartKind::Rate { rate, weight })
    }

    setters! {
        (given):
        /// How long each lease lasts without a renewal: 100 ms to 24 h, by default 30 s. The
        /// client renews it every third of this time.
        ttl;
        /// How long [`lock`](Self::lock) waits for all locks together: a duration, or
        /// [`Wait::Forever`](crate::Wait::Forever). The default is 10 s.
        wait;
        /// The owner of all leases of the set, which [`Locks::inspect`](crate::Locks::inspect) shows:
        /// 1 to 128 bytes without control characters. By default there is none.
        owner;
    }

    common_setters!((given));

    text_setters!((given));

    /// Acquires all locks, or none. While one is not free, waits for at most
    /// [`wait`](Self::wait).
    ///
    /// While it waits for the next lock, it renews those that it holds. If one of them is
    /// lost meanwhile, it releases all and starts over.
    ///
    /// # Errors
    ///
    /// Nothing stays held after an error.
    ///
    /// - [`LockError::TimedOut`] if others held one of the locks, or were before this
    ///   request in its queue, when the wait ended. It names the lock that was waited for
    ///   last.
    /// - [`LockError::Busy`] in the same case, with a wait of zero.
    /// - [`LockError::InvalidOption`] if no name is given, or more than 64; if a name is given
    ///   to two locks that are not both mutexes, readers or writers; if a limit is 0, or a weight is 0 or above its
    ///   limit; or if an option is out of its range. No command is sent.
    /// - [`LockError::Closed`] if an operator has set a [limit](crate::Locks::limits) of one of the
    ///   semaphores that leaves no room for the request, such as 0.
    /// - [`LockError::RateLimited`] if a rate does not allow the set in time. It says when it does.
    #[doc = include_str!("errors/waiting.md")]
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped before it is ready, nothing stays held. The locks
    /// that it has acquired by then are released in the background, and its place in a
    /// queue is given up as in [`Mutex::lock`](crate::Mutex::lock). But a future that is
    /// kept and no longer polled keeps its locks.
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
    pub fn lock(&self) -> impl Future<Output = Result<LeaseSet, LockError>> + Send + use<> {
        self.acquire(self.given.options)
    }

    /// Acquires all locks if all are free and have no waiters, and never waits.
    ///
    /// # Errors
    ///
    /// Nothing stays held after an error.
    ///
    /// - [`LockError::Busy`] if one of the locks is not free, or is waited for. It names the
    ///   first such lock.
    /// - [`LockError::InvalidOption`] if no name is given, or more than 64; if a name is given
    ///   to two locks that are not both mutexes, readers or writers; if a limit is 0, or a weight is 0 or above its
    ///   limit; or if an option is out of its range. No command is sent.
    /// - [`LockError::Closed`] if an operator has set a [limit](crate::Locks::limits) of one of the
    ///   semaphores that leaves no room for the request, such as 0.
    /// - [`LockError::RateLimited`] if a rate is used up. It says when it is not.
    #[doc = include_str!("errors/trying.md")]
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped before it is ready, nothing stays held.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LockError, Locks};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// let locks = Locks::in_memory();
    /// let three = locks.mutex("account:3").lock().await?;
    /// let both = locks.all(["account:3", "account:7"]).try_lock().await;
    /// assert!(matches!(both, Err(LockError::Busy { key, .. }) if key.name() == "account:3"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_lock(&self) -> impl Future<Output = Result<LeaseSet, LockError>> + Send + use<> {
        self.acquire(self.given.options.at_once())
    }

    fn acquire(
        &self,
        options: Options,
    ) -> impl Future<Output = Result<LeaseSet, LockError>> + Send + use<> {
        let (shared, specs) = (self.shared.clone(), self.specs());
        async move {
            // Some are refused without the store.
            consume_budget().await;
            acquire_all(&shared, specs?, options).await
        }
    }

    fn specs(&self) -> Result<SetSpec, LockError> {
        let mut set = SetSpec::default();
        self.parts.iter().try_for_each(|part| part.add_to(&mut set, &self.given))?;
        Ok(set)
    }
}
