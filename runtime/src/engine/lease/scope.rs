//! The scope in which work finds the leases that it runs under.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::Either;

use super::LeaseHandle;
use crate::core::key::LockKey;
use crate::store::{ClientId, Kind, RequestId, RequestSpec};

/// The lease that code runs under, and the leases around it.
#[derive(Clone)]
pub(in crate::engine) struct Scope {
    lease: LeaseHandle,
    /// The lease is held until its code has ended, or its loss ends the code.
    lasts: bool,
    /// Its place in a set of leases, of which the others are around it.
    place: Option<usize>,
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

impl Scope {
    fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(|scope| Arc::new(scope.clone())).ok()
    }

    /// The scopes of a set of leases, in its order: the innermost, with the others around it. `None` if
    /// it is a set of rates alone.
    pub(in crate::engine) fn of_set<'a>(
        set: impl Iterator<Item = &'a LeaseHandle>,
        lasts: bool,
    ) -> Option<Self> {
        let mut innermost: Option<Self> = None;
        for (place, lease) in set.enumerate() {
            let outer = innermost.map(Arc::new).or_else(Self::current);
            innermost = Some(Self { lease: lease.clone(), lasts, place: Some(place), outer });
        }
        innermost
    }

    /// Runs a future in it, if there is one. The future is dropped in it, too.
    pub(in crate::engine) fn around<F: Future>(
        this: Option<Self>,
        work: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        match this {
            Some(scope) => Either::Left(CURRENT.scope(scope, work)),
            None => Either::Right(work),
        }
    }

    /// Runs a function in it, if there is one.
    pub(in crate::engine) fn sync_around<R>(this: Option<Self>, work: impl FnOnce() -> R) -> R {
        match this {
            Some(scope) => CURRENT.sync_scope(scope, work),
            None => work(),
        }
    }
}

impl LeaseHandle {
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
    /// far out. A waiter for the lock then waits for itself.
    pub(crate) fn around(client: ClientId, key: &LockKey) -> Option<Self> {
        let is_of = |lease: &&Self| {
            lease.local().request.id.client() == client && lease.key() == key && lease.is_held()
        };
        let in_any = |scope: &Scope| {
            let scopes = std::iter::successors(Some(scope), |scope| scope.outer.as_deref());
            scopes.map(|scope| &scope.lease).find(is_of).cloned()
        };
        CURRENT.try_with(in_any).ok().flatten()
    }

    /// Whether the leases that the calling code runs under are in the way of its own request.
    pub(crate) fn own_lock(client: ClientId, spec: &RequestSpec) -> OwnLock {
        let own = |scope: &Scope| {
            let scopes = || std::iter::successors(Some(scope), |scope| scope.outer.as_deref());
            let are_in_the_way = |lasting_only: bool| {
                let (mut is_in_the_way, mut seen, mut weight) = (false, Vec::<RequestId>::new(), 0);
                for Scope { lease, lasts, .. } in scopes() {
                    let held = &lease.local().request;
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

    /// The leases of the innermost set that the calling code runs under, in the set's order.
    pub(in crate::engine) fn current_set() -> Option<Vec<Self>> {
        let of_set = |scope: &Scope| {
            let mut scopes = std::iter::successors(Some(scope), |scope| scope.outer.as_deref())
                .skip_while(|scope| scope.place.is_none())
                .peekable();
            let count = scopes.peek()?.place? + 1;
            let mut leases: Vec<_> = scopes.take(count).map(|scope| scope.lease.clone()).collect();
            leases.reverse();
            Some(leases)
        };
        CURRENT.try_with(of_set).ok().flatten()
    }

    fn inside(&self, lasts: bool) -> Scope {
        Scope { lease: self.clone(), lasts, place: None, outer: Scope::current() }
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
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::LeaseHandle;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let lease = leasehold::Locks::in_memory().mutex("order:42").lock().await?;
    /// let task = async { LeaseHandle::current().map(|lease| lease.fence()) };
    /// let fence = tokio::spawn(lease.handle().scope(task)).await.expect("no panic");
    /// assert_eq!(fence.expect("it is in the scope")?, lease.fence()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scope<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        CURRENT.scope(self.inside(false), work)
    }

    /// Runs a function in which [`current`](Self::current) returns this handle: for futures
    /// that are polled by hand.
    pub fn sync_scope<R>(&self, work: impl FnOnce() -> R) -> R {
        CURRENT.sync_scope(self.inside(false), work)
    }
}
