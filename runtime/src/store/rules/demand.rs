//! A request's demand on a lock. A holder keeps the demand that it was granted with.

use crate::store::{Kind, LockKind, Note, Owner, Request};

/// The kind, the owner and the note of a request, of a waiter or of a holder.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    pub(super) kind: Kind,
    pub(super) owner: Option<Owner>,
    pub(super) note: Option<Note>,
}

impl Demand {
    pub(super) fn of(request: &Request) -> Self {
        Self { kind: request.kind, owner: request.owner.clone(), note: request.note.clone() }
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

    /// The limit of a semaphore.
    pub(super) fn limit(&self) -> Option<u32> {
        match self.kind {
            Kind::Semaphore { limit, .. } => Some(limit),
            _ => None,
        }
    }

    pub(super) fn is_writer(&self) -> bool {
        self.kind == Kind::Write
    }

    /// Returns true if another demand on the same lock takes as much, for the same owner and with
    /// the same note.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (self.weight(), self.is_writer(), &self.owner, &self.note)
            == (other.weight(), other.is_writer(), &other.owner, &other.note)
    }
}
