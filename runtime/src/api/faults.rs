//! What a test makes go wrong.

use std::sync::Arc;

use crate::core::error::Step;
use crate::core::key::IntoLockKey;
use crate::store::fault_injection::{Fault, FaultInjector};
use crate::store::memory::MemoryStore;

/// Makes the store of [`Locks::in_memory_with_faults`](crate::Locks::in_memory_with_faults)
/// fail, as a test plans it. Cheap to clone; all clones plan for the same store.
///
/// A command is what a client sends to the store, unasked ones included: renewals, and
/// what is done in the background for what was dropped. Faults are for all commands,
/// unless [`on`](Self::on) chooses. What nothing is planned for works.
///
/// Let the test pause tokio's clock: then waits and delays take no time. To see
/// [`Busy`](crate::LockError::Busy) or [`TimedOut`](crate::LockError::TimedOut), hold the
/// lock in the test: that is no fault.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::{Fault, LockError, Locks, Step};
///
/// /// What is tested.
/// async fn charge(locks: &Locks) -> Result<&'static str, LockError> {
///     let lease = locks.mutex("order:42").ttl(Duration::from_secs(9)).lock().await?;
///     lease.run(tokio::time::sleep(Duration::from_secs(20))).await?; // asks the bank
///     let _ = lease.release().await; // the order is charged, whatever comes of it
///     Ok("charged")
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// // In a test, under `#[tokio::test(start_paused = true)]`:
/// let (locks, faults) = Locks::in_memory_with_faults();
///
/// faults.next(Fault::LoseReply); // asked for again, and had once
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

    /// The store that fails.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn store(&self) -> &Arc<FaultInjector> {
        &self.store
    }

    /// A fault for the next command, or for the one after those that are planned already.
    pub fn next(&self, fault: Fault) {
        self.store.next(self.only, Some(fault));
    }

    /// Lets so many commands pass before what is planned next.
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

    /// A fault for all commands from now on, once those that are planned one by one are
    /// through. Called again, it replaces the fault.
    pub fn always(&self, fault: Fault) {
        self.store.always(self.only, fault);
    }

    /// Forgets what is planned: from now on commands work. What is under way stays as it
    /// is: late, or without an answer.
    pub fn heal(&self) {
        self.store.heal(self.only);
    }

    /// The same store, for faults of one kind of command: what is planned and healed
    /// by this handle is for that alone, and goes before what is planned for all.
    ///
    /// [`Step::Acquire`] is each time that a lock is asked for, of whatever kind and
    /// however many; [`Step::Renew`] each renewal and [`Step::Release`] each release, be
    /// it by hand or in the background. [`Step::Connect`] does not happen in memory.
    /// Taking back an acquisition that was given up is none of them.
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

    /// Ends all leases of a lock on the store now, as if their TTLs were over, and that
    /// of a `hold_at_least`, and says whether there were any: assert it, or a misspelt name
    /// expires nothing. The leases of other locks go on.
    ///
    /// Nobody is told. Who held it finds out by the next renewal, within a third of the
    /// TTL, or by the release: it is [`Expired`](crate::LossReason::Expired), or
    /// [`Taken`](crate::LossReason::Taken) if another has had it since. Who waits for it
    /// has it within 2 seconds, when it asks again. So for a while two may be at work, as
    /// when a server has forgotten a lock: fencing tokens tell them apart.
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
