//! An operator's view: look at a lock, or take it from its holders.

use tokio::sync::OnceCell;

use super::locks::Locks;
use crate::core::error::{LockError, Step};
use crate::core::key::{IntoLockKey, LockKey};
use crate::core::limit_override::LimitOverride;
use crate::store::{Ask, Forced, LimitCommand, LockInfo, LockKind, Owner};

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
        if info.kind == Some(LockKind::Semaphore) {
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

    /// Takes a lock of any kind from all its holders, and wakes the first waiter: for an
    /// operator, when a holder is stuck.
    ///
    /// All leases of the lock are lost with the reason
    /// [`LossReason::Forced`](crate::LossReason), and so are all permits. The store
    /// tells the first 64 holders at once, which cancels their work, usually within
    /// milliseconds.
    ///
    /// A holder that gets no message learns of it from its next renewal, within a third of
    /// its TTL, or at its deadline with `auto_renew(false)`. No message arrives on a cluster
    /// or with a connection pool of your own, and any message can be lost. Until then two
    /// holders may work. A resource that checks fencing tokens refuses the former holder
    /// once it has seen a newer token: the next holder's, or the one that this call returns
    /// ([`Forced::Released`](crate::Forced)). Permits and readers have no token.
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidKey`] if no lock can have this name.
    /// - [`LockError::Store`] if the store failed, or refuses the client. The command may
    ///   have run. A second call takes the lock from those who hold it by then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the command: it may still run.
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
        // This process hands no former lease of the lock over any more.
        self.shared().queues.end_turns(&key);
        let forced = forced.map_err(|error| LockError::store(Step::ForceRelease, &key, error))?;
        if let Forced::Released { held, .. } = forced {
            tracing::warn!(
                lock = key.log_label(),
                held,
                "a lock was taken from its holders by force"
            );
            tracing::debug!(lock = key.log_label(), %key, "the lock that was taken by force");
        }
        Ok(forced)
    }

    fn check(&self, step: Step, key: &LockKey) -> Result<(), LockError> {
        self.client().check_not_forked(step, key)
    }
}
