//! The reentrant mutex: one owner at a time, who may take it again.

use std::sync::Arc;
use std::time::Duration;

use super::lock_spec::{LockSpec, lifetime_options};
use crate::core::error::LockError;
use crate::core::key::IntoLockKey;
use crate::core::options::Wait;
use crate::engine::lease::Lease;
use crate::engine::shared::Shared;
use crate::store::Kind;

/// A mutex that its owner may lock again while he has it, from
/// [`Locks::reentrant_mutex`](crate::Locks::reentrant_mutex).
///
/// The owner is a name that the caller gives, such as a job's id: never a thread or a
/// task, which are no owners in async code. Whoever gives the same name, in whatever
/// process, is the same owner. Each `lock` is a hold with a TTL of its own, and the
/// mutex is free when the last one is released, or has ended. A hold that is asked
/// for twice, because a reply was lost, counts once.
///
/// All holds of an owner have the same fencing token, as long as he has one of them.
///
/// Prefer a [`Mutex`](crate::Mutex), and handing its lease to who needs it, where you
/// can: then it is seen in the code who relies on the lock.
///
/// The idea is Redisson's `RLock`; that holds are a set and not a count is ours.
#[derive(Clone, Debug)]
#[must_use = "a mutex does nothing until it is locked"]
pub struct ReentrantMutex {
    spec: LockSpec,
}

impl ReentrantMutex {
    pub(crate) fn new(shared: &Arc<Shared>, key: impl IntoLockKey) -> Self {
        Self { spec: LockSpec::new(shared, key) }
    }

    /// Whose holds these are: 1 to 128 bytes without control characters. There is no
    /// default.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.spec.set_owner(owner);
        self
    }

    /// How long a hold lasts unless it is renewed, which it is every third of this:
    /// 100 ms to 24 h, by default 30 s. Other holds of the owner last as long as
    /// they were to.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.spec.options.ttl = ttl;
        self
    }

    /// How long [`lock`](Self::lock) waits: a duration, by default 10 s, or
    /// [`Wait::Forever`].
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.spec.options.wait = wait.into();
        self
    }

    lifetime_options!(spec.options);

    /// Waits until the owner has it: first come, first served. An owner who has it
    /// already has it once more at once, whoever waits: they wait for him.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOption`] if no owner was given; all others as of
    /// [`Mutex::lock`](crate::Mutex::lock).
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
    /// use leasehold::Released;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// let import = locks.reentrant_mutex("import").owner("job-7");
    ///
    /// let outer = import.lock().await?;
    /// let inner = import.lock().await?;
    /// assert_eq!(outer.fence()?, inner.fence()?);
    /// assert_eq!(inner.release().await?, Released::StillHeld(1));
    /// assert_eq!(outer.release().await?, Released::Free);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lock(&self) -> Result<Lease, LockError> {
        self.check_owner()?;
        self.spec.acquire(Kind::Reentrant).await
    }

    /// Takes it if the owner has it already, or if it is free and nobody waits for
    /// it, and does not wait.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`] if another owner has it, or waits for it; all others as of
    /// [`lock`](Self::lock). A store that fails is asked again for a second.
    ///
    /// # Panics
    ///
    /// If it has to ask again outside of a tokio runtime with timers; and over Redis in a
    /// tokio runtime without them.
    ///
    /// # Cancel safety
    ///
    /// As of [`lock`](Self::lock).
    pub async fn try_lock(&self) -> Result<Lease, LockError> {
        self.check_owner()?;
        self.spec.try_acquire(Kind::Reentrant).await
    }

    fn check_owner(&self) -> Result<(), LockError> {
        if self.spec.has_owner() {
            return Ok(());
        }
        Err(LockError::InvalidOption {
            option: "owner",
            problem: "a reentrant mutex is its owner's; name him by `.owner(…)`".to_owned(),
        })
    }
}
