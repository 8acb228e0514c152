//! The semaphore: a limit on how many do something at a time, on all servers
//! together.

use std::sync::Arc;
use std::time::Duration;

use super::lock_spec::{LockSpec, lifetime_options};
use crate::core::error::LockError;
use crate::core::key::IntoLockKey;
use crate::core::options::Wait;
use crate::engine::lease::Lease;
use crate::engine::shared::Shared;
use crate::store::Kind;

/// A semaphore by name: a cheap handle, from [`Locks::semaphore`](crate::Locks::semaphore).
///
/// Its permits are leases: each has an id and a TTL of its own, so that a
/// crash costs none, and none is given back twice. First come, first served. The
/// limit is the caller's, held against all permits that are out: callers with
/// different limits each keep to their own, so a limit may change while servers
/// of an old and a new version run side by side.
#[derive(Clone, Debug)]
#[must_use = "a semaphore does nothing until a permit is acquired"]
pub struct Semaphore {
    spec: LockSpec,
    limit: u32,
}

impl Semaphore {
    pub(crate) fn new(shared: &Arc<Shared>, key: impl IntoLockKey, limit: u32) -> Self {
        Self { spec: LockSpec::new(shared, key), limit }
    }

    /// How long a permit lasts unless it is renewed, which it is every third of
    /// this: 100 ms to 24 h, by default 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.spec.options.ttl = ttl;
        self
    }

    /// How long [`acquire`](Self::acquire) waits: a duration, by default 10 s,
    /// or [`Wait::Forever`].
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.spec.options.wait = wait.into();
        self
    }

    lifetime_options!(spec.options);

    /// Whose leases these are, for [`Locks::is_held_by`](crate::Locks::is_held_by) and [`Locks::inspect`](crate::Locks::inspect): 1 to
    /// 128 bytes without control characters. By default nobody's in particular.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.spec.set_owner(owner);
        self
    }

    /// Waits until it has a permit: first come, first served between clients, and
    /// the tasks of one client in their own order. A client whose tasks wait for the same
    /// keeps a permit among them for up to 20 ms, and no more than 64 of them.
    ///
    /// # Errors
    ///
    /// - [`LockError::TimedOut`] if there was none for all of the wait.
    /// - [`LockError::Store`] if the store failed, and went on failing for the
    ///   wait, or for a second if that is longer. The request is taken back in
    ///   the background.
    /// - [`LockError::WrongKind`] if the name is in use by another kind of lock.
    /// - [`LockError::InvalidKey`] or [`LockError::InvalidOption`] for a name or
    ///   an option that makes no sense, such as a limit of 0; no command is
    ///   sent.
    ///
    /// # Panics
    ///
    /// If it has to wait outside of a tokio runtime with timers; and over Redis in a tokio
    /// runtime without them.
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped before it is ready, no permit stays out. Its
    /// place in the queue goes to the next task of this client that waits for the
    /// same. Otherwise the place, or a permit that was on its way, is taken back
    /// in the background; if the store can't be reached, it ends with its TTL, or
    /// after 6 s if that is longer.
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
    pub async fn acquire(&self) -> Result<Lease, LockError> {
        self.spec.acquire(self.kind(1)?).await
    }

    /// Waits until it has a permit that takes `weight` of the limit: for work
    /// that needs more than one share, all of it at once.
    ///
    /// A heavy request waits for its turn like any other, and nothing that came
    /// later is let in past it, even if it would fit: so it is served.
    ///
    /// # Errors
    ///
    /// As of [`acquire`](Self::acquire); [`LockError::InvalidOption`] also for a
    /// weight of 0, or above the limit.
    ///
    /// # Panics
    ///
    /// As of [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As of [`acquire`](Self::acquire).
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
    pub async fn acquire_many(&self, weight: u32) -> Result<Lease, LockError> {
        self.spec.acquire(self.kind(weight)?).await
    }

    /// Takes a permit if there is one and nobody waits for it, and does not wait.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`] if there is none; all others as of
    /// [`acquire`](Self::acquire). A store that fails is asked again for a
    /// second.
    ///
    /// # Panics
    ///
    /// If it has to ask again outside of a tokio runtime with timers; and over Redis in a
    /// tokio runtime without them.
    ///
    /// # Cancel safety
    ///
    /// As of [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Lease, LockError> {
        self.spec.try_acquire(self.kind(1)?).await
    }

    /// Takes a permit of this weight if it fits and nobody waits, and does not
    /// wait.
    ///
    /// # Errors
    ///
    /// As of [`try_acquire`](Self::try_acquire), and
    /// [`LockError::InvalidOption`] for a weight of 0, or above the limit.
    ///
    /// # Panics
    ///
    /// As of [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As of [`acquire`](Self::acquire).
    pub async fn try_acquire_many(&self, weight: u32) -> Result<Lease, LockError> {
        self.spec.try_acquire(self.kind(weight)?).await
    }

    fn kind(&self, weight: u32) -> Result<Kind, LockError> {
        let limit = self.limit;
        if limit == 0 {
            return Err(LockError::InvalidOption {
                option: "permits",
                problem: "a semaphore with a limit of 0 never lets anybody in; 1 is the least"
                    .to_owned(),
            });
        }
        if weight == 0 || weight > limit {
            return Err(LockError::InvalidOption {
                option: "weight",
                problem: format!(
                    "{weight} is not between 1 and the semaphore's limit, which is {limit}"
                ),
            });
        }
        Ok(Kind::Semaphore { limit, weight })
    }
}
