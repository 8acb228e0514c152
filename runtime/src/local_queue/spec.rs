//! The names of queues, and what an acquisition asks for.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::mem::{Discriminant, discriminant};
use std::time::{Duration, Instant};

use crate::core::key::LockKey;
use crate::store::{Kind, Owner};

/// The name of a queue: a lock as one kind. An owner that may already hold the lock has a queue
/// of its own, because a re-entering owner must not queue behind its own waiters.
pub(super) type QueueName = (LockKey, Discriminant<Kind>, Option<Owner>);

/// The lease that an acquisition asks for. Another acquisition of the same can go on with its
/// request.
pub(super) type LeaseSpec = (Kind, Option<Owner>);

/// What an acquisition needs of a lease that this process has.
pub(super) struct Need<'a> {
    pub(super) spec: &'a LeaseSpec,
    pub(super) ttl: Duration,
    /// The lease must last for its whole TTL, because nobody renews it.
    pub(super) whole: bool,
    /// The store must have confirmed the lease since then.
    pub(super) since: Option<Instant>,
}

/// The queue that an acquisition belongs to.
pub(super) fn name(key: &LockKey, kind: Kind, owner: Option<&Owner>) -> QueueName {
    RequestName(key, kind, owner).owned()
}

/// Returns true if it is the queue of a semaphore.
pub(super) fn is_of_permits(name: &QueueName) -> bool {
    name.1 == discriminant(&Kind::Semaphore { limit: 1, weight: 1 })
}

/// What a queue can be looked up by: its name, or borrowed parts of it. A lookup by parts counts
/// no references, which all threads of the process would count.
pub(super) trait NameParts {
    fn parts(&self) -> (&LockKey, Discriminant<Kind>, Option<&Owner>);
}

impl NameParts for QueueName {
    fn parts(&self) -> (&LockKey, Discriminant<Kind>, Option<&Owner>) {
        (&self.0, self.1, self.2.as_ref())
    }
}

/// The parts of the name of the queue that a request belongs to.
pub(super) struct RequestName<'a>(
    pub(super) &'a LockKey,
    pub(super) Kind,
    pub(super) Option<&'a Owner>,
);

impl RequestName<'_> {
    pub(super) fn owned(&self) -> QueueName {
        let (key, kind, owner) = self.parts();
        (key.clone(), kind, owner.cloned())
    }
}

impl NameParts for RequestName<'_> {
    fn parts(&self) -> (&LockKey, Discriminant<Kind>, Option<&Owner>) {
        (self.0, discriminant(&self.1), self.2.filter(|_| self.1.may_reenter()))
    }
}

impl<'a> Borrow<dyn NameParts + 'a> for QueueName {
    fn borrow(&self) -> &(dyn NameParts + 'a) {
        self
    }
}

// As a tuple of the same, owned or borrowed, does it: `QueueName` is one.
impl Hash for dyn NameParts + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl PartialEq for dyn NameParts + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn NameParts + '_ {}

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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::store::Once;

    /// A map of names finds each by its parts, and only by those.
    #[test]
    fn a_queue_is_found_by_the_parts_of_its_name() {
        let keys = ["a", "b", "a:{1}"].map(|name| LockKey::new(name).unwrap());
        let owners = [None, Some(Owner::new("o").unwrap()), Some(Owner::new("a").unwrap())];
        let kinds = [
            Kind::Mutex,
            Kind::Semaphore { limit: 2, weight: 1 },
            Kind::Read,
            Kind::Write,
            Kind::Reentrant,
            Kind::Once(Once::For(std::time::Duration::from_secs(1))),
        ];
        let mut queues = HashMap::new();
        let mut all = Vec::new();
        for key in &keys {
            for kind in kinds {
                for owner in &owners {
                    let number = all.len();
                    queues.entry(name(key, kind, owner.as_ref())).or_insert(number);
                    all.push((key, kind, owner.as_ref()));
                }
            }
        }
        for (key, kind, owner) in all {
            let by_parts: &dyn NameParts = &RequestName(key, kind, owner);
            assert_eq!(queues.get(by_parts), queues.get(&name(key, kind, owner)));
            assert!(queues.contains_key(by_parts), "{key:?} {kind:?} {owner:?}");
        }
    }
}
