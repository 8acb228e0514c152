//! The permits of a semaphore that are out.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::super::RequestId;
use super::lock::AT_ONCE;

/// The permits by deadline, and their weight in all. One whose deadline has
/// passed is absent, but forgotten only when its room is needed.
#[derive(Debug, Default)]
pub(super) struct Permits {
    by_deadline: BTreeSet<(Instant, RequestId)>,
    by_id: HashMap<RequestId, Permit>,
    weight: u64,
    until: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Permit {
    deadline: Instant,
    weight: u32,
}

impl Permits {
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn expire(&mut self, now: Instant) {
        if self.until.is_some_and(|until| until <= now) {
            *self = Self::default();
        }
    }

    pub(super) fn is_live(&self, id: RequestId, now: Instant) -> bool {
        self.by_id.get(&id).is_some_and(|permit| permit.deadline > now)
    }

    /// Puts a permit in, or lets it last anew, and says when the last of all ends.
    pub(super) fn put_in(&mut self, id: RequestId, weight: u32, deadline: Instant) -> Instant {
        let until = self.until.map_or(deadline, |until| until.max(deadline));
        self.take_out(id);
        self.by_deadline.insert((deadline, id));
        self.by_id.insert(id, Permit { deadline, weight });
        self.weight += u64::from(weight);
        self.until = Some(until);
        until
    }

    pub(super) fn take_out(&mut self, id: RequestId) {
        if let Some(permit) = self.by_id.remove(&id) {
            self.by_deadline.remove(&(permit.deadline, id));
            self.weight -= u64::from(permit.weight);
        }
        if self.is_empty() {
            self.until = None;
        }
    }

    /// Whether so much more may be out, by the limit of whoever asks for it.
    pub(super) fn fits(&mut self, weight: u32, limit: u32, now: Instant) -> bool {
        self.has_room(weight, limit) || self.purge(now) && self.has_room(weight, limit)
    }

    fn has_room(&self, weight: u32, limit: u32) -> bool {
        self.weight + u64::from(weight) <= u64::from(limit)
    }

    fn purge(&mut self, now: Instant) -> bool {
        let before = self.by_id.len();
        for _ in 0..AT_ONCE {
            match self.by_deadline.first() {
                Some(&(deadline, id)) if deadline <= now => self.take_out(id),
                _ => break,
            }
        }
        self.by_id.len() < before
    }

    /// How long until the first permit ends.
    pub(super) fn first_ends_in(&self, now: Instant) -> Duration {
        self.by_deadline.first().map_or(Duration::ZERO, |&(first, _)| first - now)
    }

    /// Until when the last of them is live; nothing if none is. Then they are
    /// forgotten.
    pub(super) fn settle(&mut self, now: Instant) -> Option<Instant> {
        let last = self.by_deadline.last().map(|&(last, _)| last).filter(|last| *last > now);
        if last.is_none() {
            *self = Self::default();
        }
        self.until = last;
        last
    }
}
