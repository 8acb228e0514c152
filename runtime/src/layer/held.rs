//! What a request holds: the lease of one lock, or those of several.

use std::future::Future;
use std::pin::Pin;

use futures_util::future::join_all;
use http::{HeaderMap, Request};

use super::rate_fields;
use crate::core::error::LossReason;
use crate::engine::lease::{Lease, LeaseHandle};
use crate::engine::lease_set::LeaseSet;

/// A future that the layer polls.
pub(super) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pub(super) enum Held {
    One(Lease),
    /// By a layer with several locks.
    All(LeaseSet),
}

impl Held {
    pub(super) fn is_held(&self) -> bool {
        match self {
            Self::One(lease) => lease.is_held(),
            Self::All(leases) => leases.is_held(),
        }
    }

    /// What logs and metrics call the lock: of several, the first that is lost, or else the first.
    pub(super) fn log_label(&self) -> &'static str {
        let lease = match self {
            Self::One(lease) => Some(lease),
            Self::All(leases) => {
                let lost = leases.iter().find(|lease| !lease.is_held());
                lost.or_else(|| leases.iter().next())
            }
        };
        lease.map_or("", |lease| lease.key().log_label())
    }

    /// Says in a response how the rates of the request stood. Returns the leases, if there are any.
    pub(super) fn told(self, headers: &mut HeaderMap) -> Option<Self> {
        if let Self::All(leases) = &self {
            rate_fields::add(headers, leases.rates());
        }
        Some(self).filter(|held| !held.is_empty())
    }

    /// Returns true if there is no lease: the request has taken from rates alone.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::All(leases) if leases.is_empty())
    }

    /// Resolves when a lease is lost.
    pub(super) fn lost(&self) -> Boxed<LossReason> {
        match self {
            Self::One(lease) => {
                let handle = lease.handle();
                Box::pin(async move { handle.lost().await })
            }
            Self::All(leases) => {
                let handle = leases.handle();
                Box::pin(async move { handle.lost().await.1 })
            }
        }
    }

    /// Runs a function in which the current lease is this one, or the last of them within the others.
    pub(super) fn sync_scope<R>(&self, lasts: bool, work: impl FnOnce() -> R) -> R {
        match self {
            Self::One(lease) => lease.sync_scope(lasts, work),
            Self::All(leases) => leases.sync_scope(lasts, work),
        }
    }

    /// Begins to end it: the work has succeeded or not. `None` if nothing is left of it.
    pub(super) fn end(self, is_success: bool) -> Option<Boxed<()>> {
        match self {
            Self::One(lease) => lease.end(is_success).map(|end| Box::pin(end) as _),
            Self::All(leases) => {
                let leases = leases.into_leases().into_iter();
                let ends: Vec<_> = leases.filter_map(|lease| lease.end(is_success)).collect();
                let end = async move { drop(join_all(ends).await) };
                Some(Box::pin(end))
            }
        }
    }

    /// Gives the handler its handles. If `may_keep`, they can keep it: the last one within the others,
    /// and all within those of an outer layer.
    pub(super) fn give_handles<A>(&mut self, request: &mut Request<A>, may_keep: bool) {
        let leases = match self {
            Self::One(lease) => std::slice::from_mut(lease),
            Self::All(leases) => leases.leases_mut(),
        };
        let mut innermost = request.extensions_mut().remove::<LeaseHandle>();
        for lease in leases {
            if may_keep {
                lease.let_handles_keep(innermost.as_ref());
            }
            innermost = Some(lease.handle());
        }
        if let Some(innermost) = innermost {
            request.extensions_mut().insert(innermost);
        }
        if let Self::All(leases) = self
            && !leases.is_empty()
        {
            request.extensions_mut().insert(leases.handle());
        }
    }

    /// Leaves it to the handles that the handler has kept. Returns what no handle keeps.
    pub(super) fn leave_to_handles(self, is_success: bool) -> Option<Self> {
        match self {
            Self::One(lease) => lease.leave_to_handles(is_success).map(Self::One),
            Self::All(leases) => {
                // The handle of each keeps those before it.
                let leases = leases.into_leases().into_iter().rev();
                let left = leases.filter_map(|lease| lease.leave_to_handles(is_success));
                let mut left: Vec<_> = left.collect();
                left.reverse();
                (!left.is_empty()).then(|| Self::All(LeaseSet::of(left)))
            }
        }
    }
}
