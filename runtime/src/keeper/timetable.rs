//! Which lease is to be looked after when.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use crate::state::lease::{LocalLease, Slot};
use crate::store::RequestId;

/// The leases of a keeper, by when they are due. Shared behind a lock.
#[derive(Debug, Default)]
pub(super) struct Timetable {
    places: BTreeMap<Slot, Arc<LocalLease>>,
    /// When the keeper looks again, if it is not woken before.
    looks_at: Option<Instant>,
}

impl Timetable {
    /// Puts a lease in, with a number that no other has, unless its holder has ended it.
    /// Whether the keeper is to be woken: it looks again only later.
    pub(super) fn put_in(&mut self, local: &Arc<LocalLease>, slot: Slot) -> bool {
        if local.has_ended() {
            return false;
        }
        if let Some(before) = slot_of(local).replace(slot) {
            self.places.remove(&before);
        }
        self.places.insert(slot, local.clone());
        // What comes later is seen when it looks. To wake another thread for each lease
        // of a caller that has one at a time would cost more than the rest of this.
        let is_sooner = self.looks_at.is_none_or(|looks_at| slot.0 < looks_at);
        if is_sooner {
            self.looks_at = Some(slot.0);
        }
        is_sooner
    }

    /// Takes the lease of a slot out, if it is in here.
    pub(super) fn take_out(&mut self, slot: Slot) -> Option<Arc<LocalLease>> {
        self.places.remove(&slot)
    }

    /// The lease of a request, if it is in here. It looks at all of them: that happens
    /// seldom, and so no lease has to be entered by its request as well.
    pub(super) fn find(&self, id: RequestId) -> Option<Arc<LocalLease>> {
        self.places.values().find(|local| local.request.id == id).cloned()
    }

    /// Takes out the leases that are due, at most so many.
    pub(super) fn due(&mut self, now: Instant, most: usize) -> Vec<Arc<LocalLease>> {
        let mut due = Vec::new();
        while due.len() < most
            && let Some(first) = self.places.first_entry().filter(|first| first.key().0 <= now)
        {
            let local = first.remove();
            *slot_of(&local) = None;
            due.push(local);
        }
        due
    }

    /// When the next lease is due: the keeper looks again then, unless it `waits` for
    /// something else.
    pub(super) fn next(&mut self, waits: bool) -> Option<Instant> {
        let next = self.places.first_key_value().map(|(slot, _)| slot.0);
        self.looks_at = next.filter(|_| !waits);
        self.looks_at
    }

    #[cfg(feature = "redis")]
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    #[cfg(feature = "redis")]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }
}

/// The slot of a lease; with the lock of its timetable held.
pub(super) fn slot_of(local: &LocalLease) -> MutexGuard<'_, Option<Slot>> {
    local.slot.lock().unwrap_or_else(PoisonError::into_inner)
}
