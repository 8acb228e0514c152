//! Who holds a lock that several may hold.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use super::lock::{AT_ONCE, Demand};
use crate::store::{Owner, RequestId};

/// The holders by deadline. One whose deadline has passed is absent, but forgotten
/// only when that matters.
#[derive(Debug, Default)]
pub(super) struct Holders {
    by_deadline: BTreeSet<(Instant, RequestId)>,
    by_id: HashMap<RequestId, Holder>,
    /// What all of them weigh.
    pub(super) weight: u64,
    /// How many are each owner's.
    owners: HashMap<Owner, usize>,
    /// When the writer's lease ends.
    written_until: Option<Instant>,
    until: Option<Instant>,
}

#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) deadline: Instant,
    pub(super) how: Demand,
}

impl Holders {
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn expire(&mut self, now: Instant) {
        if self.until.is_some_and(|until| until <= now) {
            *self = Self::default();
        }
    }

    pub(super) fn is_live(&self, id: RequestId, now: Instant) -> bool {
        self.by_id.get(&id).is_some_and(|holder| holder.deadline > now)
    }

    /// Whether it is there, and holds as this one would.
    pub(super) fn is_live_as(&self, id: RequestId, how: &Demand, now: Instant) -> bool {
        self.is_live(id, now) && self.by_id.get(&id).is_some_and(|holder| holder.how.is_like(how))
    }

    /// Whether it is there, be it that its deadline has passed.
    pub(super) fn has(&self, id: RequestId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Those whose deadline has not passed, by when they end.
    pub(super) fn live(&self, now: Instant) -> impl Iterator<Item = (RequestId, &Holder)> {
        let live = self.by_deadline.iter().filter(move |(deadline, _)| *deadline > now);
        live.filter_map(|(_, id)| Some((*id, self.by_id.get(id)?)))
    }

    /// How many there are, with those who ended and are not forgotten yet.
    pub(super) fn count(&self) -> usize {
        self.by_id.len()
    }

    /// How many of them are an owner's.
    pub(super) fn count_of(&self, owner: Option<&Owner>) -> usize {
        owner.and_then(|owner| self.owners.get(owner)).copied().unwrap_or_default()
    }

    pub(super) fn is_written(&self, now: Instant) -> bool {
        self.written_until.is_some_and(|until| until > now)
    }

    /// Puts a holder in, or lets it last anew, and says when the last of all ends.
    pub(super) fn put_in(&mut self, id: RequestId, how: Demand, deadline: Instant) -> Instant {
        let until = self.until.map_or(deadline, |until| until.max(deadline));
        self.take_out(id);
        self.weight += u64::from(how.weight());
        if let Some(owner) = &how.owner {
            *self.owners.entry(owner.clone()).or_default() += 1;
        }
        if how.is_writer() {
            self.written_until = Some(deadline);
        }
        self.by_deadline.insert((deadline, id));
        self.by_id.insert(id, Holder { deadline, how });
        self.until = Some(until);
        until
    }

    pub(super) fn take_out(&mut self, id: RequestId) {
        let Some(Holder { deadline, how }) = self.by_id.remove(&id) else { return };
        self.by_deadline.remove(&(deadline, id));
        self.weight -= u64::from(how.weight());
        if let Some(owner) = how.owner.as_ref()
            && let Some(count) = self.owners.get_mut(owner)
        {
            *count -= 1;
            if *count == 0 {
                self.owners.remove(owner);
            }
        }
        // Its owner may write anew since it ended.
        if how.is_writer() && self.written_until == Some(deadline) {
            self.written_until = None;
        }
        if self.is_empty() {
            self.until = None;
        }
    }

    /// Forgets those who ended, not more than at once, and says how many.
    pub(super) fn purge(&mut self, now: Instant) -> usize {
        let ended = self.by_deadline.iter().take_while(|(deadline, _)| *deadline <= now);
        let ended: Vec<_> = ended.take(AT_ONCE).map(|(_, id)| *id).collect();
        for id in &ended {
            self.take_out(*id);
        }
        ended.len()
    }

    /// When the first of them ends.
    pub(super) fn first_ends_at(&self) -> Option<Instant> {
        self.by_deadline.first().map(|(first, _)| *first)
    }

    /// As new, but for the room: the next comes soon.
    fn clear(&mut self) {
        let Self { by_deadline, by_id, weight, owners, written_until, until } = self;
        by_deadline.clear();
        by_id.clear();
        owners.clear();
        (*weight, *written_until, *until) = (0, None, None);
    }

    /// When the last of them ends. If nobody is left, those who ended are forgotten.
    pub(super) fn ends_at(&mut self, now: Instant) -> Option<Instant> {
        let last = self.by_deadline.last().map(|(last, _)| *last).filter(|last| *last > now);
        if last.is_none() {
            self.clear();
        }
        last
    }

    /// The same, and those who ended are kept no longer than that.
    pub(super) fn settle(&mut self, now: Instant) -> Option<Instant> {
        self.until = self.ends_at(now);
        self.until
    }

    /// Whether the owner of this one has it already.
    pub(super) fn owns(&mut self, owner: Option<&Owner>, now: Instant) -> bool {
        if owner.is_none() || self.ends_at(now).is_none() {
            return false;
        }
        self.purge(now);
        self.count_of(owner) > 0
    }

    /// Lets a lease last until then at least, unless it ended, and says whether it had not.
    pub(super) fn keep(&mut self, id: RequestId, until: Instant, now: Instant) -> bool {
        let holder = self.by_id.get(&id).filter(|holder| holder.deadline > now);
        let later = holder.map(|holder| holder.deadline.max(until));
        later.is_some_and(|later| self.last_anew(id, later, now).is_some())
    }

    /// Lets a lease last anew, unless it ended, and says when the last of all ends.
    pub(super) fn last_anew(
        &mut self,
        id: RequestId,
        deadline: Instant,
        now: Instant,
    ) -> Option<Instant> {
        let holder = self.by_id.get(&id).filter(|holder| holder.deadline > now)?;
        let how = holder.how.clone();
        Some(self.put_in(id, how, deadline))
    }
}
