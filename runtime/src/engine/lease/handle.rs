//! The handle that observes a lease.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "tower")]
use super::kept::Kept;
use crate::core::error::{LockError, LossReason};
use crate::core::fence::Fence;
use crate::core::key::LockKey;
use crate::state::lease::LocalLease;

/// Observes a lease without keeping or ending it. Cheap to clone; it may outlive the lease.
///
/// There is one exception: what a `LockLayer` gives to the handler of an HTTP upgrade keeps the
/// lease. While the upgraded connection's task has a clone, the lease is renewed; the drop of the
/// last clone releases it.
///
/// It comes from [`Lease::handle`](crate::Lease::handle), and inside guarded work, however
/// deep, from [`LeaseHandle::current`]. With the feature `axum`, a handler takes it as an argument.
/// Without it, axum says no more than that the function is no `Handler`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let locks = leasehold::Locks::in_memory();
/// let lease = locks.mutex("order:42").lock().await?;
/// let handle = lease.handle();
/// tokio::spawn(async move { println!("lost: {}", handle.lost().await) });
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LeaseHandle {
    local: Arc<LocalLease>,
    #[cfg(feature = "tower")]
    pub(super) kept: Option<Arc<Kept>>,
}

/// The state of a lease as this process knows it: held, suspect, lost or released.
///
/// # Examples
///
/// ```
/// use leasehold::LeaseState;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let locks = leasehold::Locks::in_memory();
/// let lease = locks.mutex("order:42").lock().await?;
/// match lease.state() {
///     LeaseState::Held => {}
///     LeaseState::Suspect => println!("the store does not answer"),
///     state => println!("not held any more: {state:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseState {
    /// The lease is held, and the last renewal succeeded.
    Held,
    /// The lease is held, but the last renewal failed. The client tries again until the
    /// deadline, at which the lease would be lost.
    Suspect,
    /// The lease ended before its holder released it.
    Lost(LossReason),
    /// The holder has released or detached the lease.
    Released,
}

impl LeaseHandle {
    pub(super) fn new(local: Arc<LocalLease>) -> Self {
        Self {
            local,
            #[cfg(feature = "tower")]
            kept: None,
        }
    }

    pub(super) fn local(&self) -> &Arc<LocalLease> {
        &self.local
    }

    #[cfg_attr(not(feature = "macros"), expect(dead_code, reason = "the attribute calls it"))]
    pub(crate) fn is_of_mutex(&self) -> bool {
        self.local.request.kind.is_mutex()
    }

    /// The name of the lock.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        &self.local.request.key
    }

    /// The fencing token, for the resource to check.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] once the lease is lost: the token is useless.
    /// - [`LockError::NotFenced`] for a permit or a reader's lease, because several are
    ///   held at the same time.
    pub fn fence(&self) -> Result<Fence, LockError> {
        let key = || self.key().clone();
        if let Some(reason) = self.local.loss_so_far() {
            return Err(LockError::Lost { key: key(), reason });
        }
        self.local.fence.ok_or_else(|| LockError::NotFenced { key: key() })
    }

    /// Fails unless the lease is held now, by this process's own clock. No command is sent. For blocking
    /// code, to ask before each step that another holder must not see done: nothing else can stop it.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lease is lost; with [`LossReason::Released`] if its holder has
    /// released it.
    pub fn ensure_held(&self) -> Result<(), LockError> {
        if self.is_held() {
            return Ok(());
        }
        let reason = self.local.loss_so_far().unwrap_or(LossReason::Released);
        Err(LockError::Lost { key: self.key().clone(), reason })
    }

    /// The time until the lease ends, unless it is renewed before. Zero when it is lost or
    /// released.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.local.remaining()
    }

    /// Returns true while the lease is held, and neither lost nor released, by this
    /// process's own clock. No command is sent.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.local.is_held()
    }

    /// The state of the lease: held, suspect, lost or released, by this process's own
    /// clock. No command is sent.
    #[must_use]
    pub fn state(&self) -> LeaseState {
        if self.local.is_held() {
            return if self.local.is_suspect() { LeaseState::Suspect } else { LeaseState::Held };
        }
        self.local.loss_so_far().map_or(LeaseState::Released, LeaseState::Lost)
    }

    /// Waits until the lease is lost: its deadline has passed, or the store has said so. It
    /// is pending for ever if the lease is released or detached before.
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
    /// let lease = locks.mutex("order:42").lock().await?;
    /// let handle = lease.handle();
    /// let _ = locks.force_release("order:42").await?;
    /// assert_eq!(handle.lost().await, LossReason::Forced);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lost(&self) -> LossReason {
        self.local.lost().await
    }

    /// Resolves when the lease is not held any more: lost, released or detached.
    pub(crate) async fn until_not_held(&self) {
        tokio::select! {
            _ = self.local.lost() => {}
            () = self.local.until_not_held() => {}
        }
    }
}

impl fmt::Debug for LeaseHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show("LeaseHandle", f)
    }
}

impl LeaseHandle {
    pub(super) fn show(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("key", self.key())
            .field("fence", &self.local.fence)
            .field("state", &self.state())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
