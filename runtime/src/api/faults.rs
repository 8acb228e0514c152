//! Faults that a test plans for a store in memory.

use std::sync::Arc;

use crate::core::error::Step;
use crate::core::key::IntoLockKey;
use crate::store::fault_injection::{Fault, FaultInjector};
use crate::store::memory::MemoryStore;

/// Plans failures of the store of
/// [`Locks::in_memory_with_faults`](crate::Locks::in_memory_with_faults), for tests. Cheap
/// to clone; all clones plan for the same store.
///
/// A command is anything that a client sends to the store, including in the background: a
/// renewal, or the release of a dropped lease. A fault hits all commands, unless
/// [`on`](Self::on) selects a kind. A command without a fault works.
///
/// Pause Tokio's clock in the test: then waits and delays take no time. To see
/// [`Busy`](crate::LockError::Busy) or [`TimedOut`](crate::LockError::TimedOut), hold the
/// lock in the test. No fault is needed for that.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::{Fault, LockError, Locks, Step};
///
/// /// The code under test.
/// async fn charge(locks: &Locks) -> Result<&'static str, LockError> {
///     let lease = locks.mutex("order:42").ttl(Duration::from_secs(9)).lock().await?;
///     lease.run(tokio::time::sleep(Duration::from_secs(20))).await?; // asks the bank
///     let _ = lease.release().await; // the order is charged even if the release fails
///     Ok("charged")
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// // In a test, under `#[tokio::test(start_paused = true)]`:
/// let (locks, faults) = Locks::in_memory_with_faults();
///
/// faults.next(Fault::LoseReply); // the client asks again, and gets one lease
/// assert_eq!(charge(&locks).await.unwrap(), "charged");
///
/// faults.on(Step::Release).always(Fault::Unreachable);
/// assert_eq!(charge(&locks).await.unwrap(), "charged");
/// faults.heal();
///
/// let test = async {
///     tokio::time::sleep(Duration::from_secs(10)).await;
///     assert!(faults.expire("order:42"));
/// };
/// let (charged, ()) = tokio::join!(charge(&locks), test);
/// assert!(matches!(charged, Err(LockError::Lost { .. })));
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Faults {
    pub(super) store: Arc<FaultInjector>,
    memory: Arc<MemoryStore>,
    only: Option<Step>,
}

impl Faults {
    pub(crate) fn new() -> Self {
        let memory = Arc::new(MemoryStore::default());
        let store = Arc::new(FaultInjector::over(memory.clone()));
        Self { store, memory, only: None }
    }

    /// The store with the faults.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn store(&self) -> &Arc<FaultInjector> {
        &self.store
    }

    /// Plans a fault for one command: the next one, or the one after those that are already
    /// planned.
    pub fn next(&self, fault: Fault) {
        self.store.next(self.only, Some(fault));
    }

    /// Lets this many commands succeed before the next planned fault.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{Fault, Locks};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let (locks, faults) = Locks::in_memory_with_faults();
    /// faults.pass(1);
    /// faults.always(Fault::Refuse);
    /// let lease = locks.mutex("order:42").lock().await?; // passes
    /// assert!(lease.release().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn pass(&self, commands: u32) {
        for _ in 0..commands {
            self.store.next(self.only, None);
        }
    }

    /// Plans a fault for all later commands, after those that are planned one by one. A
    /// second call replaces the first.
    pub fn always(&self, fault: Fault) {
        self.store.always(self.only, fault);
    }

    /// Deletes all planned faults, so that later commands work. A command in flight keeps
    /// its fault: it stays late, or without an answer.
    pub fn heal(&self) {
        self.store.heal(self.only);
    }

    /// A handle to the same store that plans and heals faults for one kind of command
    /// alone. These faults take precedence over the faults for all commands.
    ///
    /// | step | commands |
    /// |---|---|
    /// | [`Step::Acquire`] | each request for a lock, of any kind |
    /// | [`Step::Renew`] | each renewal, by hand or in the background |
    /// | [`Step::Release`] | each release, by hand or in the background |
    /// | [`Step::Adopt`] | each adoption of a ticket |
    /// | [`Step::Inspect`] | each `inspect` and `is_held_by` |
    /// | [`Step::ForceRelease`] | each forced release |
    /// | [`Step::Connect`] | none in memory |
    ///
    /// A command that takes back an abandoned acquisition belongs to none of them.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::{Fault, Locks, LossReason, Step};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let (locks, faults) = Locks::in_memory_with_faults();
    /// faults.on(Step::Renew).always(Fault::Unreachable);
    /// let lease = locks.mutex("order:42").lock().await?;
    /// assert_eq!(lease.lost().await, LossReason::Expired); // after 30 s, the TTL
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "plan a fault with it"]
    pub fn on(&self, step: Step) -> Self {
        Self { only: Some(step), ..self.clone() }
    }

    /// Ends all leases of a lock in the store now, as if the server had lost them. Returns
    /// whether there were any; assert it, because a misspelt name expires nothing.
    ///
    /// A `hold_at_least` of the lock ends too. Leases of other locks go on.
    ///
    /// The store tells nobody. The holder learns of it from its next renewal, within a
    /// third of the TTL, or from its release. The reason is
    /// [`Gone`](crate::LossReason::Gone), or [`Taken`](crate::LossReason::Taken) if
    /// another holder had the lock since. A waiter gets the lock within 2 seconds, when it
    /// asks again. So for a while two holders may work, as after a server has forgotten a
    /// lock. Fencing tokens tell them apart.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{Locks, LossReason};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let (locks, faults) = Locks::in_memory_with_faults();
    /// let lease = locks.mutex("order:42").lock().await?;
    /// assert!(faults.expire("order:42"));
    /// let next = locks.mutex("order:42").try_lock().await?;
    /// assert!(next.fence()? > lease.fence()?);
    /// assert_eq!(lease.lost().await, LossReason::Taken);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "whether anything was held: assert it"]
    pub fn expire(&self, key: impl IntoLockKey) -> bool {
        // A name that no lock can have is held by nobody.
        key.into_lock_key().is_ok_and(|key| self.memory.expire(&key))
    }
}
