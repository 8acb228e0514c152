//! The holders of a lock that can have several: the include `holders`.

use std::collections::{BTreeSet, HashMap};

use super::demand::Demand;
use super::limits::BATCH;
use super::mark::{ClientMark, Mark};
use super::time::Time;
use crate::store::{ClientId, Owner, RequestId};

/// The holders by deadline. A holder whose deadline has passed counts as gone, and is removed
/// when its room is needed.
#[derive(Debug, Default)]
pub(super) struct Holders {
    by_deadline: BTreeSet<(Time, RequestId)>,
    pub(super) by_id: HashMap<RequestId, Holder>,
    /// The total weight.
    pub(super) weight: u64,
    /// The number of holders of each owner.
    owners: HashMap<Owner, usize>,
    /// The clients that may keep a lease without using it. They end with the set.
    pub(super) marks: HashMap<ClientId, ClientMark>,
    /// When the writer's lease ends.
    pub(super) written_until: Option<Time>,
    pub(super) until: Option<Time>,
}

#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) deadline: Time,
    pub(super) since: Time,
    pub(super) how: Demand,
}

impl Holders {
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn expire(&mut self, now: Time) {
        if self.until.is_some_and(|until| until <= now) {
            *self = Self::default();
        }
    }

    /// When a live lease ends.
    pub(super) fn deadline(&self, id: RequestId, now: Time) -> Option<Time> {
        self.by_id.get(&id).map(|holder| holder.deadline).filter(|deadline| *deadline > now)
    }

    pub(super) fn is_live(&self, id: RequestId, now: Time) -> bool {
        self.deadline(id, now).is_some()
    }

    /// Returns true if a live holder holds as this demand would.
    pub(super) fn is_live_as(&self, id: RequestId, how: &Demand, now: Time) -> bool {
        self.is_live(id, now) && self.by_id.get(&id).is_some_and(|holder| holder.how.is_like(how))
    }

    /// Returns true if a holder is in the set, live or not.
    pub(super) fn has(&self, id: RequestId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// The live holders by deadline.
    pub(super) fn live(&self, now: Time) -> impl Iterator<Item = (RequestId, &Holder)> {
        let live = self.by_deadline.iter().filter(move |(deadline, _)| *deadline > now);
        live.filter_map(|(_, id)| Some((*id, self.by_id.get(id)?)))
    }

    /// How many holders are in the set, live or not.
    pub(super) fn count(&self) -> usize {
        self.by_id.len()
    }

    /// How many of them belong to an owner.
    pub(super) fn count_of(&self, owner: Option<&Owner>) -> usize {
        owner.and_then(|owner| self.owners.get(owner)).copied().unwrap_or_default()
    }

    pub(super) fn is_written(&self, now: Time) -> bool {
        self.written_until.is_some_and(|until| until > now)
    }

    /// Adds a holder, or gives it a new deadline. Returns when the last holder's lease ends.
    pub(super) fn put_in(&mut self, id: RequestId, how: Demand, deadline: Time, now: Time) -> Time {
        let since = self.by_id.get(&id).map_or(now, |holder| holder.since);
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
        self.by_id.insert(id, Holder { deadline, since, how });
        self.until = Some(until);
        until
    }

    pub(super) fn take_out(&mut self, id: RequestId) {
        let Some(Holder { deadline, how, .. }) = self.by_id.remove(&id) else { return };
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
        // After a writer's lease expired, its owner may have got a new one.
        if how.is_writer() && self.written_until == Some(deadline) {
            self.written_until = None;
        }
        self.forget_if_empty();
    }

    /// Removes the marks that count no more.
    pub(super) fn drop_ended_marks(&mut self, now: Time) {
        self.marks.retain(|_, mark| mark.until > now);
        self.forget_if_empty();
    }

    /// The mark of a client, if it counts.
    pub(super) fn mark(&self, client: ClientId, now: Time) -> Option<Mark> {
        self.marks.get(&client).filter(|mark| mark.until > now).map(|mark| mark.mark)
    }

    /// Marks keep the set, also if they count no more.
    fn forget_if_empty(&mut self) {
        if self.is_empty() && self.marks.is_empty() {
            self.until = None;
        }
    }

    /// Removes expired holders, at most [`BATCH`], and says how many.
    pub(super) fn purge(&mut self, now: Time) -> usize {
        let ended = self.by_deadline.iter().take_while(|(deadline, _)| *deadline <= now);
        let ended: Vec<_> = ended.take(BATCH).map(|(_, id)| *id).collect();
        for id in &ended {
            self.take_out(*id);
        }
        ended.len()
    }

    /// When the first lease ends, live or not.
    pub(super) fn first_ends_at(&self) -> Option<Time> {
        self.by_deadline.first().map(|(first, _)| *first)
    }

    /// When the last lease ends; `None` if there is no live one. Then the set is emptied.
    pub(super) fn ends_at(&mut self, now: Time) -> Option<Time> {
        let last = self.by_deadline.last().map(|(last, _)| *last).filter(|last| *last > now);
        if last.is_none() {
            self.clear();
        }
        last
    }

    /// As [`ends_at`](Self::ends_at). Expired holders are not remembered beyond that time.
    pub(super) fn settle(&mut self, now: Time) -> Option<Time> {
        self.until = self.ends_at(now);
        self.until
    }

    /// Returns true if an owner has a live lease.
    pub(super) fn owns(&mut self, owner: Option<&Owner>, now: Time) -> bool {
        if owner.is_none() || self.ends_at(now).is_none() {
            return false;
        }
        self.purge(now);
        self.count_of(owner) > 0
    }

    /// Lets a live lease last until then at least. False if it had ended.
    pub(super) fn keep(&mut self, id: RequestId, until: Time, now: Time) -> bool {
        let later = self.deadline(id, now).map(|deadline| deadline.max(until));
        later.is_some_and(|later| self.extend(id, later, now).is_some())
    }

    /// Gives a live lease a new deadline, and says when the last one ends. `None` if the
    /// lease had ended.
    pub(super) fn extend(&mut self, id: RequestId, deadline: Time, now: Time) -> Option<Time> {
        let holder = self.by_id.get(&id).filter(|holder| holder.deadline > now)?;
        let how = holder.how.clone();
        Some(self.put_in(id, how, deadline, now))
    }

    /// Empties the set, and keeps its room: the next holder comes soon.
    fn clear(&mut self) {
        let Self { by_deadline, by_id, weight, owners, marks, written_until, until } = self;
        by_deadline.clear();
        by_id.clear();
        owners.clear();
        marks.clear();
        (*weight, *written_until, *until) = (0, None, None);
    }
}
