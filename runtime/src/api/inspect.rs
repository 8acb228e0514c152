//! An operator's questions: who holds a lock, and can it be taken from them.

use super::locks::Locks;
use crate::core::error::{LockError, Step};
use crate::core::key::{IntoLockKey, LockKey};
use crate::store::{Forced, LockInfo, Owner};

impl Locks {
    /// Who holds a lock, of whatever kind, and who waits for it.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`] for a name that is not allowed, [`LockError::Store`] if
    /// the store failed.
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
        let key = key.into_lock_key()?;
        self.check(Step::Inspect, &key)?;
        let info = self.client().store.inspect(&key).await;
        info.map_err(|error| LockError::store(Step::Inspect, &key, error))
    }

    /// Whether an owner holds a lock, of whatever kind: the name that was given by
    /// `owner`, as in [`Mutex::owner`](crate::Mutex::owner).
    ///
    /// It was so when the store was asked. Whoever holds a lease asks that, by
    /// [`Lease::is_held`](crate::Lease::is_held), which sends nothing.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`] or [`LockError::InvalidOption`] for a name that is not
    /// allowed, [`LockError::Store`] if the store failed.
    ///
    /// # Cancel safety
    ///
    /// Safe: it changes nothing.
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

    /// Takes a lock, of whatever kind, from all who hold it, and lets the next one
    /// who waits have it: for an operator, when a holder is stuck.
    ///
    /// The store tells the holders at once, of many the first 64: their leases are lost, as
    /// [`LossReason::Forced`](crate::LossReason), and their work is cancelled, usually
    /// within milliseconds. A holder that is not told learns of it from its next renewal,
    /// within a third of its TTL, or with `auto_renew(false)` at its deadline: if the message is
    /// lost, on a cluster, on a quorum, and with a pool of your own. Until then two may be
    /// at work. Of a mutex, a reentrant mutex or a writer the fencing
    /// token, which has moved on, keeps the former one from the resource; permits and
    /// readers have none. Who waits for the lock runs at once.
    ///
    /// All leases of the lock are taken: of a semaphore all permits.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`] for a name that is not allowed, [`LockError::Store`] if
    /// the store failed. It may be called again: it then takes the lock from those who
    /// have it by then.
    ///
    /// # Cancel safety
    ///
    /// The command may run all the same.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{Forced, LossReason};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// let stuck = locks.mutex("order:42").lock().await?;
    /// let old = stuck.fence()?;
    ///
    /// let forced = locks.force_release("order:42").await?;
    /// assert!(matches!(forced, Forced::Released { held: 1, fence } if fence > old));
    /// assert_eq!(stuck.lost().await, LossReason::Forced);
    /// assert!(locks.mutex("order:42").try_lock().await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn force_release(&self, key: impl IntoLockKey) -> Result<Forced, LockError> {
        let key = key.into_lock_key()?;
        self.check(Step::ForceRelease, &key)?;
        let forced = self.client().store.force_release(&key).await;
        // What it was taken from in this process is not handed over any more.
        self.shared().queues.end_turns(&key);
        let forced = forced.map_err(|error| LockError::store(Step::ForceRelease, &key, error))?;
        if let Forced::Released { held, .. } = forced {
            tracing::warn!(held, "a lock was taken from its holders by force");
            tracing::debug!(%key, "the lock that was taken by force");
        }
        Ok(forced)
    }

    fn check(&self, step: Step, key: &LockKey) -> Result<(), LockError> {
        self.client().check_not_forked(step, key)
    }
}
