//! The semaphore: a limit on how many do something at a time, on all servers
//! together.

use std::time::Duration;

use crate::acquire::acquire;
use crate::mutex::Key;
use crate::options::Options;
use crate::store::Kind;
use crate::{IntoLockKey, Lease, LockError, Locks, Wait};

/// A semaphore by name: a cheap handle, from [`Locks::semaphore`].
///
/// Its permits are leases: each has an owner and a TTL of its own, so that a
/// crash costs none, and none is given back twice. The limit is the caller's,
/// held against all permits that are out; callers with different limits each
/// keep to their own.
#[derive(Clone, Debug)]
#[must_use = "a semaphore does nothing until a permit is acquired"]
pub struct Semaphore {
    locks: Locks,
    key: Key,
    limit: u32,
    options: Options,
}

impl Semaphore {
    pub(crate) fn new(locks: Locks, key: impl IntoLockKey, limit: u32) -> Self {
        Self { locks, key: Key::new(key), limit, options: Options::default() }
    }

    /// How long a permit lasts unless it is renewed, which it is every third of
    /// this: 100 ms to 24 h, by default 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = ttl;
        self
    }

    /// How long [`acquire`](Self::acquire) waits: a duration, by default 10 s,
    /// or [`Wait::Forever`].
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.options.wait = wait.into();
        self
    }

    /// Waits until it has a permit.
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
    /// If it has to wait outside of a tokio runtime with timers.
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped before it is ready, no permit stays out.
    /// One that was on its way is taken back in the background; if the store
    /// can't be reached, it ends with its TTL.
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
        self.acquire_with(self.options).await
    }

    /// Takes a permit if there is one, and does not wait.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`] if there is none; all others as of
    /// [`acquire`](Self::acquire). A store that fails is asked again for a
    /// second.
    ///
    /// # Cancel safety
    ///
    /// As of [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Lease, LockError> {
        self.acquire_with(self.options.at_once()).await
    }

    async fn acquire_with(&self, options: Options) -> Result<Lease, LockError> {
        if self.limit == 0 {
            return Err(LockError::InvalidOption {
                option: "permits",
                problem: "a semaphore with a limit of 0 never lets anybody in; 1 is the least"
                    .to_owned(),
            });
        }
        let kind = Kind::Semaphore { limit: self.limit, weight: 1 };
        acquire(self.locks.client(), self.key.get()?, kind, options).await
    }
}
