//! A request's demand on a lock. A holder keeps the demand that it was granted with.

use crate::store::{Kind, LockKind, Owner, Request};

/// The kind and the owner of a request, of a waiter or of a holder.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    pub(super) kind: Kind,
    pub(super) owner: Option<Owner>,
}

impl Demand {
    pub(super) fn of(request: &Request) -> Self {
        Self { kind: request.kind, owner: request.owner.clone() }
    }

    /// The kind of lock that it is for.
    pub(super) fn lock(&self) -> LockKind {
        match self.kind {
            Kind::Mutex | Kind::Once(_) => LockKind::Mutex,
            Kind::Reentrant => LockKind::ReentrantMutex,
            Kind::Semaphore { .. } => LockKind::Semaphore,
            Kind::Read | Kind::Write => LockKind::RwLock,
        }
    }

    pub(super) fn weight(&self) -> u32 {
        match self.kind {
            Kind::Semaphore { weight, .. } => weight,
            _ => 1,
        }
    }

    pub(super) fn is_writer(&self) -> bool {
        self.kind == Kind::Write
    }

    /// Returns true if another demand on the same lock takes as much, for the same owner.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (self.weight(), self.is_writer(), &self.owner)
            == (other.weight(), other.is_writer(), &other.owner)
    }
}
