//! The handle that observes a lease, and the scope in which work finds it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "tower")]
use super::kept::Kept;
use crate::core::error::{LockError, LossReason};
use crate::core::fence::Fence;
use crate::core::key::LockKey;
use crate::state::lease::LocalLease;
use crate::store::{ClientId, Kind, RequestId, RequestSpec};

/// Observes a lease without keeping or ending it. Cheap to clone; it may outlive the lease.
///
/// There is one exception: what a `LockLayer` gives to the handler of an HTTP upgrade keeps the
/// lease. While the upgraded connection's task has a clone, the lease is renewed; the drop of the
/// last clone releases it.
///
/// It comes from [`Lease::handle`](crate::Lease::handle), and inside guarded work, however
/// deep, from [`LeaseHandle::current`].
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

/// The lease that code runs under, and the leases around it.
#[derive(Clone)]
struct Scope {
    lease: LeaseHandle,
    /// The lease is held until its code has ended, or its loss ends the code.
    lasts: bool,
    outer: Option<Arc<Scope>>,
}

/// Whether a request is for a lock that its own caller holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnLock {
    /// It is not.
    No,
    /// The caller's leases are in its way, but may end before the caller does.
    Waits,
    /// It can't be granted while the caller runs.
    Never,
}

tokio::task_local! {
    static CURRENT: Scope;
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

    /// The lease that the calling code runs under: the innermost
    /// [`Lease::run`](crate::Lease::run), `#[distributed_lock]`, `LockLayer` or
    /// [`lead`](crate::Locks::lead) around it.
    ///
    /// `None` outside of all of them, and in tasks that were spawned inside. Run those
    /// tasks' futures in [`scope`](Self::scope).
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LeaseHandle, Locks};
    ///
    /// /// Deep inside, where no lease was passed as an argument.
    /// async fn write() {
    ///     let lease = LeaseHandle::current().expect("the caller holds the lock");
    ///     println!("writing, with the fencing token {:?}", lease.fence());
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let lease = Locks::in_memory().mutex("order:42").lock().await?;
    /// lease.run(write()).await?;
    /// assert!(LeaseHandle::current().is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(|scope| scope.lease.clone()).ok()
    }

    /// The lease of this lock that the calling code runs under and this client holds, however
    /// far out.
    pub(crate) fn around(client: ClientId, key: &LockKey) -> Option<Self> {
        let is_of = |lease: &&Self| {
            lease.local.request.id.client() == client && lease.key() == key && lease.is_held()
        };
        let in_any = |scope: &Scope| {
            let scopes = std::iter::successors(Some(scope), |scope| scope.outer.as_deref());
            scopes.map(|scope| &scope.lease).find(is_of).cloned()
        };
        CURRENT.try_with(in_any).ok().flatten()
    }

    /// Returns true if the calling code runs under such a lease. Then a waiter for the lock
    /// waits for itself.
    pub(crate) fn is_around(client: ClientId, key: &LockKey) -> bool {
        Self::around(client, key).is_some()
    }

    /// Whether the leases that the calling code runs under are in the way of its own request.
    pub(crate) fn own_lock(client: ClientId, spec: &RequestSpec) -> OwnLock {
        let own = |scope: &Scope| {
            let scopes = || std::iter::successors(Some(scope), |scope| scope.outer.as_deref());
            let are_in_the_way = |lasting_only: bool| {
                let (mut is_in_the_way, mut seen, mut weight) = (false, Vec::<RequestId>::new(), 0);
                for Scope { lease, lasts, .. } in scopes() {
                    let held = &lease.local.request;
                    let is_of = held.id.client() == client && held.key == spec.key;
                    let counts = is_of && (*lasts || !lasting_only) && !seen.contains(&held.id);
                    if !counts || !lease.is_held() {
                        continue;
                    }
                    seen.push(held.id);
                    let is_same_owner = held.owner.is_some() && held.owner == spec.owner;
                    is_in_the_way |= match (held.kind, spec.kind) {
                        (Kind::Mutex | Kind::Once(_), Kind::Mutex | Kind::Once(_)) => true,
                        (Kind::Reentrant, Kind::Reentrant)
                        | (Kind::Write, Kind::Read | Kind::Write)
                        | (Kind::Read, Kind::Write) => !is_same_owner,
                        // Behind a writer that waits for the first lease.
                        (Kind::Read, Kind::Read) => !lasting_only,
                        (Kind::Semaphore { weight: held, .. }, Kind::Semaphore { .. }) => {
                            weight = held.saturating_add(weight);
                            false
                        }
                        _ => false,
                    };
                }
                is_in_the_way
                    || matches!(spec.kind, Kind::Semaphore { limit, weight: more }
                        if weight > 0 && weight.saturating_add(more) > limit)
            };
            match () {
                () if are_in_the_way(true) => OwnLock::Never,
                () if are_in_the_way(false) => OwnLock::Waits,
                () => OwnLock::No,
            }
        };
        CURRENT.try_with(own).unwrap_or(OwnLock::No)
    }

    #[cfg_attr(not(feature = "macros"), expect(dead_code, reason = "the attribute calls it"))]
    pub(crate) fn is_of_mutex(&self) -> bool {
        self.local.request.kind == Kind::Mutex
    }

    fn inside(&self, lasts: bool) -> Scope {
        let outer = CURRENT.try_with(|scope| Arc::new(scope.clone())).ok();
        Scope { lease: self.clone(), lasts, outer }
    }

    /// The same as [`scope`](Self::scope). If it `lasts`, the future runs no longer than the lease.
    pub(super) fn scope_of<F: Future>(
        &self,
        lasts: bool,
        work: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        CURRENT.scope(self.inside(lasts), work)
    }

    /// The same as [`sync_scope`](Self::sync_scope). If it `lasts`, this is a part of work that
    /// runs no longer than the lease.
    #[cfg(feature = "tower")]
    pub(super) fn sync_scope_of<R>(&self, lasts: bool, work: impl FnOnce() -> R) -> R {
        CURRENT.sync_scope(self.inside(lasts), work)
    }

    /// Runs a future in which [`current`](Self::current) returns this handle. The future
    /// does not keep the lease, and is not dropped when the lease is lost.
    ///
    /// # Cancel safety
    ///
    /// As safe as the given future, which is dropped with this one.
    pub fn scope<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        CURRENT.scope(self.inside(false), work)
    }

    /// Runs a function in which [`current`](Self::current) returns this handle: for futures
    /// that are polled by hand.
    pub fn sync_scope<R>(&self, work: impl FnOnce() -> R) -> R {
        CURRENT.sync_scope(self.inside(false), work)
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
