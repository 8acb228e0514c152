//! The names of queues, and what an acquisition asks for.

use std::mem::{Discriminant, discriminant};

use crate::core::key::LockKey;
use crate::store::{Kind, Owner};

/// The name of a queue: a lock as one kind. An owner that may already hold the lock has a queue
/// of its own, because a re-entering owner must not queue behind its own waiters.
pub(super) type QueueName = (LockKey, Discriminant<Kind>, Option<Owner>);

/// The lease that an acquisition asks for. Another acquisition of the same can go on with its
/// request.
pub(super) type LeaseSpec = (Kind, Option<Owner>);

/// The queue that an acquisition belongs to.
pub(super) fn name(key: &LockKey, kind: Kind, owner: Option<&Owner>) -> QueueName {
    let owner = owner.filter(|_| kind.may_reenter());
    (key.clone(), discriminant(&kind), owner.cloned())
}

/// How much of a lock's capacity a lease takes.
pub(super) fn weight(kind: Kind) -> u64 {
    match kind {
        Kind::Semaphore { weight, .. } => weight.into(),
        _ => 1,
    }
}

/// How much of what may be asked for a lingering lease takes. Readers do not stand in each other's
/// way.
pub(super) fn lingering_weight(kind: Kind) -> u64 {
    if kind == Kind::Read { 0 } else { weight(kind) }
}
