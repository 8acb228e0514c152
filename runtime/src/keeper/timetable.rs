//! When each lease is due.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};
#[cfg(feature = "redis")]
use std::time::Duration;
use std::time::Instant;

use crate::core::lock_key::LockKey;
use crate::core::sync::lock;
use crate::state::lease::{LocalLease, Slot};
use crate::store::RequestId;
#[cfg(feature = "redis")]
use crate::system;

/// The leases of a keeper, ordered by when they are due. Its owner locks it.
#[derive(Debug, Default)]
pub(super) struct Timetable {
    leases: BTreeMap<Slot, Arc<LocalLease>>,
    /// When the keeper looks again, unless it is woken before.
    wakes_at: Option<Instant>,
}

impl Timetable {
    /// Puts a lease in, unless its holder has ended it. The slot's number must be unique. True
    /// if the keeper must be woken, because it would look too late.
    pub(super) fn put_in(&mut self, local: &Arc<LocalLease>, slot: Slot) -> bool {
        if local.has_ended() {
            return false;
        }
        if let Some(before) = slot_of(local).replace(slot) {
            self.leases.remove(&before);
        }
        let other = self.leases.insert(slot, local.clone());
        debug_assert!(other.is_none(), "two leases at {slot:?}");
        // The keeper finds a later entry when it looks. Waking another thread for each lease of
        // a caller that holds one at a time would cost more than the rest of this.
        let is_sooner = self.wakes_at.is_none_or(|wakes_at| slot.0 < wakes_at);
        if is_sooner {
            self.wakes_at = Some(slot.0);
        }
        is_sooner
    }

    /// Puts a lease into the place of one that has ended. Gives that one, or nothing if the
    /// place is gone.
    #[cfg(feature = "redis")]
    pub(super) fn replace(
        &mut self,
        place: Slot,
        local: &Arc<LocalLease>,
    ) -> Option<Arc<LocalLease>> {
        let ended = self.leases.get_mut(&place)?;
        debug_assert!(ended.has_ended(), "the place of a lease that is held");
        *slot_of(local) = Some(place);
        Some(std::mem::replace(ended, local.clone()))
    }

    /// Lets the leases that are due later than this time be due within it, each at a random moment. A
    /// place that an ended lease has left to the next one stays where it is. Its caller wakes the keeper.
    #[cfg(feature = "redis")]
    pub(super) fn bring_forward(&mut self, now: Instant, within: Duration) {
        let later = self.leases.split_off(&(now + within, u64::MAX));
        for (mut slot, local) in later {
            let mut at = slot_of(&local);
            if *at == Some(slot) {
                slot.0 = now + system::full_jitter(within);
                *at = Some(slot);
            } else {
                debug_assert!(local.has_ended(), "a lease that is not where it says");
            }
            drop(at);
            self.leases.insert(slot, local);
        }
    }

    /// Removes the lease of a slot, if it is here.
    pub(super) fn take_out(&mut self, slot: Slot) -> Option<Arc<LocalLease>> {
        self.leases.remove(&slot)
    }

    /// The lease of a request, if it is here. This searches all leases: it happens seldom, and
    /// an index by request would cost every lease something.
    pub(super) fn find(&self, id: RequestId) -> Option<Arc<LocalLease>> {
        self.leases().find(|local| local.request.id == id).cloned()
    }

    pub(super) fn leases(&self) -> impl Iterator<Item = &Arc<LocalLease>> {
        self.leases.values()
    }

    /// Returns true if one of the first leases is of this lock. It searches no more than 1,000, because
    /// its owner is locked meanwhile.
    pub(super) fn has_lease_of(&self, key: &LockKey) -> bool {
        self.leases
            .values()
            .take(1_000)
            .any(|local| local.request.key == *key && !local.has_ended())
    }

    /// Takes out the leases that are due, at most `max` of them.
    pub(super) fn due(&mut self, now: Instant, max: usize) -> Vec<Arc<LocalLease>> {
        let mut due = Vec::new();
        while due.len() < max
            && let Some(first) = self.leases.first_entry().filter(|first| first.key().0 <= now)
        {
            let local = first.remove();
            *slot_of(&local) = None;
            due.push(local);
        }
        due
    }

    /// When the next lease is due. The keeper looks again then, unless it `waits` for something
    /// else.
    pub(super) fn next(&mut self, waits: bool) -> Option<Instant> {
        let next = self.leases.first_key_value().map(|(slot, _)| slot.0);
        self.wakes_at = next.filter(|_| !waits);
        self.wakes_at
    }

    #[cfg(feature = "redis")]
    pub(super) fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    #[cfg(feature = "redis")]
    pub(super) fn len(&self) -> usize {
        self.leases.len()
    }
}

/// A lease's slot. The caller holds the lock of the lease's timetable.
pub(super) fn slot_of(local: &LocalLease) -> MutexGuard<'_, Option<Slot>> {
    lock(&local.slot)
}
