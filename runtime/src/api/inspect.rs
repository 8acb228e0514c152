//! An operator's view: look at a lock.

use tokio::sync::OnceCell;

use super::locks::Locks;
use crate::core::error::{LockError, Step};
use crate::core::key::{IntoLockKey, LockKey};
use crate::core::limit_override::LimitOverride;
use crate::store::{Ask, LimitCommand, LockInfo, LockKind, Owner};

impl Locks {
    /// Looks at a lock of any kind: its holders and its waiters.
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidKey`] if no lock can have this name.
    /// - [`LockError::Store`] if the store failed, or refuses the client.
    ///
    /// # Cancel safety
    ///
    /// Safe: it changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// let lease = locks.mutex("order:42").owner("worker-7").lock().await?;
    ///
    /// let order = locks.inspect("order:42").await?;
    /// assert_eq!(order.holders[0].owner.as_deref(), Some("worker-7"));
    /// assert_eq!(order.holders[0].fence, Some(lease.fence()?));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn inspect(&self, key: impl IntoLockKey) -> Result<LockInfo, LockError> {
        self.look_at(key.into_lock_key()?, &OnceCell::new()).await
    }

    /// Looks at a lock. The limits are read for the first semaphore.
    pub(super) async fn look_at(
        &self,
        key: LockKey,
        limits: &OnceCell<Vec<LimitOverride>>,
    ) -> Result<LockInfo, LockError> {
        self.check(Step::Inspect, &key)?;
        let store = &self.client().store;
        let info = store.inspect(&key).await;
        let mut info = info.map_err(|error| LockError::store(Step::Inspect, &key, error))?;
        // The kind of a free lock is not known.
        if info.kind.is_none_or(|kind| kind == LockKind::Semaphore) {
            // Who can't read them sees the rest.
            let read = async { store.limits(LimitCommand::Read).await.unwrap_or_default() };
            let set = limits.get_or_init(|| read).await;
            info.limit = LimitOverride::that_may_hold(set, &key).map(Box::new);
        }
        if let Some(job) = &mut info.job {
            key.name().clone_into(&mut job.name);
        }
        Ok(LockInfo { name: key.name().to_owned(), ..info })
    }

    /// Asks the store whether this owner holds a lock of any kind. The owner is the name
    /// that was given with `owner`, as in [`Mutex::owner`](crate::Mutex::owner).
    ///
    /// The answer may be out of date when it arrives. A holder asks its own lease with
    /// [`Lease::is_held`](crate::Lease::is_held), which sends no command.
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidKey`] if no lock can have this name.
    /// - [`LockError::InvalidOption`] if the owner's name is empty, longer than 128 bytes,
    ///   or contains a control character.
    /// - [`LockError::Store`] if the store failed, or refuses the client.
    ///
    /// # Cancel safety
    ///
    /// Safe: it changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// let lease = locks.mutex("order:42").owner("worker-7").lock().await?;
    /// assert!(locks.is_held_by("order:42", "worker-7").await?);
    /// assert!(!locks.is_held_by("order:42", "worker-8").await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn is_held_by(
        &self,
        key: impl IntoLockKey,
        owner: impl AsRef<str>,
    ) -> Result<bool, LockError> {
        let (key, owner) = (key.into_lock_key()?, Owner::new(owner.as_ref())?);
        self.check(Step::Inspect, &key)?;
        let held = self.client().store.is_held_by(&key, &owner).await;
        held.map_err(|error| LockError::store(Step::Inspect, &key, error))
    }

    fn check(&self, step: Step, key: &LockKey) -> Result<(), LockError> {
        self.client().check_not_forked(step, key)
    }
}
