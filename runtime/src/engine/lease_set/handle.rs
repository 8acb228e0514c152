//! The handle that observes a set of leases, and what is true of several handles together.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::core::error::{LockError, LossReason};
use crate::core::fence::Fence;
use crate::core::key::LockKey;
use crate::engine::lease::{LeaseHandle, LeaseState, Scope};

/// Observes a [`LeaseSet`](crate::LeaseSet) from elsewhere: a cheap handle, from
/// [`LeaseSet::handle`](crate::LeaseSet::handle), in the handlers of a layer with several locks, and
/// from [`current`](Self::current).
///
/// It does not keep the leases: they end with their set. The handles of a request whose connection is
/// upgraded do, as [`LeaseHandle`](crate::LeaseHandle) says.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// let locks = leasehold::Locks::in_memory();
/// let leases = locks.all(["account:1", "account:2"]).lock().await?;
/// let handle = leases.handle();
/// assert!(handle.is_held() && handle.fence("account:1").is_ok());
/// leases.release().await?;
/// assert!(!handle.is_held());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LeaseSetHandle {
    /// In the order of their names.
    leases: Arc<[LeaseHandle]>,
}

impl LeaseSetHandle {
    pub(super) fn new(leases: impl Iterator<Item = LeaseHandle>) -> Self {
        Self { leases: leases.collect() }
    }

    /// The leases of the innermost set that the calling code runs under: of
    /// [`LeaseSet::run`](crate::LeaseSet::run), of a function with `#[distributed_lock(all(…))]`, or
    /// of a layer with several locks.
    ///
    /// `None` outside of all of them, and in tasks that were spawned inside. Run those tasks' futures in
    /// [`scope`](Self::scope).
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::LeaseSetHandle;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// let leases = locks.all(["account:1", "account:2"]).lock().await?;
    /// let is_held = leases.run(async { LeaseSetHandle::current().unwrap().is_held() }).await?;
    /// assert!(is_held && LeaseSetHandle::current().is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn current() -> Option<Self> {
        LeaseHandle::current_set().map(|leases| Self { leases: leases.into() })
    }

    /// Runs a future in which [`current`](Self::current) returns this handle, and
    /// [`LeaseHandle::current`](crate::LeaseHandle::current) that of its last lease: for a task that is
    /// spawned under the leases. The future does not keep them, and is not dropped when one is lost.
    ///
    /// # Cancel safety
    ///
    /// As safe as the given future, which is dropped with this one.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::LeaseSetHandle;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let leases = leasehold::Locks::in_memory().all(["a", "b"]).lock().await?;
    /// let task = async { LeaseSetHandle::current().map(|leases| leases.len()) };
    /// assert_eq!(tokio::spawn(leases.handle().scope(task)).await.expect("no panic"), Some(2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn scope<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        Scope::around(Scope::of_set(self.iter(), false), work)
    }

    /// The handles one by one, in the order of the locks' names.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &LeaseHandle> {
        self.leases.iter()
    }

    /// The number of leases.
    #[must_use]
    pub fn len(&self) -> usize {
        self.leases.len()
    }

    /// Returns true if it is a set of rates alone.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// The state of all leases together, as [`LeaseSet::state`](crate::LeaseSet::state) has it.
    #[must_use]
    pub fn state(&self) -> LeaseState {
        state(self.iter())
    }

    /// The fencing token of one lock, for the resource that checks it.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] once any lease of the set is lost.
    /// - [`LockError::NotFenced`] for a permit or a reader, because several are held at the same time.
    /// - [`LockError::InvalidOption`] if the set has no lock of that name.
    pub fn fence(&self, key: impl AsRef<str>) -> Result<Fence, LockError> {
        fence(self.iter(), key.as_ref())
    }

    /// The time until the first lease ends, unless it is renewed before. Zero once one is lost or
    /// released.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        remaining(self.iter())
    }

    /// Fails unless all leases are held now, as
    /// [`LeaseHandle::ensure_held`](crate::LeaseHandle::ensure_held).
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] of the first lease, in the order of the locks' names, that is not held.
    pub fn ensure_held(&self) -> Result<(), LockError> {
        self.iter().try_for_each(LeaseHandle::ensure_held)
    }

    /// Returns true while all leases are held, by this process's own clock. No command is sent.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.iter().all(LeaseHandle::is_held)
    }

    /// Waits until the first lease is lost, and returns its lock and the reason. It is pending for
    /// ever if none is.
    ///
    /// # Panics
    ///
    /// If it has to wait outside of a Tokio runtime with timers.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::LossReason;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let locks = leasehold::Locks::in_memory();
    /// let leases = locks.all(["a", "b"]).lock().await?;
    /// let handle = leases.handle();
    /// let watch = tokio::spawn(async move { handle.lost().await });
    /// let _ = locks.force_release("b").await?;
    /// assert_eq!(watch.await.unwrap().1, LossReason::Forced);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lost(&self) -> (LockKey, LossReason) {
        lost(self.iter()).await
    }
}

impl fmt::Debug for LeaseSetHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for &'a LeaseSetHandle {
    type Item = &'a LeaseHandle;
    type IntoIter = std::slice::Iter<'a, LeaseHandle>;

    fn into_iter(self) -> Self::IntoIter {
        self.leases.iter()
    }
}

/// The state of several leases together: lost if one is, and suspect if one is.
pub(super) fn state<'a>(leases: impl Iterator<Item = &'a LeaseHandle>) -> LeaseState {
    let mut all = LeaseState::Held;
    for state in leases.map(LeaseHandle::state) {
        match (state, all) {
            (LeaseState::Lost(_), _) => return state,
            (LeaseState::Held, _) | (_, LeaseState::Released) => {}
            (LeaseState::Released | LeaseState::Suspect, _) => all = state,
        }
    }
    all
}

pub(super) fn remaining<'a>(leases: impl Iterator<Item = &'a LeaseHandle>) -> Duration {
    leases.map(LeaseHandle::remaining).min().unwrap_or_default()
}

pub(super) fn fence<'a>(
    leases: impl Iterator<Item = &'a LeaseHandle>,
    name: &str,
) -> Result<Fence, LockError> {
    let mut found = None;
    for lease in leases {
        let fence = lease.fence();
        // First of all what was lost, whichever that is.
        if matches!(fence, Err(LockError::Lost { .. })) {
            return fence;
        }
        if lease.key().name() == name {
            found = Some(fence);
        }
    }
    found.unwrap_or_else(|| {
        let problem = format!("`{name}` is not among the locks of this set");
        Err(LockError::InvalidOption { option: "key", problem })
    })
}

pub(super) async fn lost<'a>(
    leases: impl Iterator<Item = &'a LeaseHandle>,
) -> (LockKey, LossReason) {
    let of_one = async |lease: &LeaseHandle| (lease.key().clone(), lease.lost().await);
    let mut losses: FuturesUnordered<_> = leases.map(of_one).collect();
    match losses.next().await {
        Some(lost) => lost,
        None => pending().await,
    }
}
