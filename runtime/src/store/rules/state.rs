//! The state of one lock: its record, its holders and its queue.

use std::collections::HashMap;
use std::time::Duration;

use super::counters::Token;
use super::demand::Demand;
use super::holders::Holders;
use super::mark::Mark;
use super::queue::Queue;
use super::time::Time;
use crate::store::{AskedNote, Attempt, ClientId, ForcedBy, JobRuns, LockKind, RequestId};

/// The state that a server stores under the keys of a lock. Each part expires by itself. Where
/// there are holders, there is a record.
#[derive(Debug, Default)]
pub(in crate::store) struct LockState {
    pub(super) record: Option<Record>,
    pub(super) holders: Holders,
    pub(super) queue: Queue,
    pub(super) forced: Forced,
    pub(super) intent: Option<Intent>,
    pub(super) done: Option<Done>,
    /// The runs since the last success, and until when they are remembered.
    pub(super) runs: Option<(JobRuns, Time)>,
    /// Who asked for another run, and until when that is remembered.
    pub(super) again: Option<(AskedNote, Time)>,
    /// Who last took the lock by force, and until when that is remembered.
    pub(super) freed: Option<(ForcedBy, Time)>,
}

#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) kind: LockKind,
    pub(super) status: Status,
    /// The last token that was given.
    pub(super) token: Token,
    /// True if somebody may be in the queue. If not, it is empty.
    pub(super) may_have_waiters: bool,
    /// The request that ended last. A late copy of its acquire is refused.
    pub(super) ended: Option<RequestId>,
    /// When the record expires.
    pub(super) until: Time,
}

#[derive(Clone, Debug)]
pub(super) enum Status {
    Free,
    /// A mutex that nobody holds, kept for the `hold_at_least` of this request.
    Kept {
        id: RequestId,
    },
    /// A mutex that this request holds, or that is offered to it.
    One {
        id: RequestId,
        how: Demand,
        is_offer: bool,
        mark: Mark,
    },
    /// Any other lock. The set of holders says who holds it.
    Many {
        /// The limit of a semaphore that the last permit was counted against.
        limit: Option<u32>,
    },
}

/// The mark of a refused writer that is coming back. It keeps new readers out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Intent {
    pub(super) client: ClientId,
    pub(super) until: Time,
}

/// The mark of work that succeeded. All times but the last are in milliseconds since the Unix
/// epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// Until when it counts as done for whoever asks as its own request did.
    pub(super) until: u64,
    pub(super) completed: u64,
    /// When its tick began.
    pub(super) tick: Option<u64>,
    /// When its run was granted the lock; without ticks, when it succeeded.
    pub(super) granted: u64,
    /// The request that completed it.
    pub(super) id: RequestId,
    /// Until when the mark stays.
    pub(super) stays: Time,
}

/// The leases that were taken by force, each with the time when it would have ended.
#[derive(Debug, Default)]
pub(super) struct Forced {
    pub(super) by_id: HashMap<RequestId, Time>,
    pub(super) until: Option<Time>,
}

impl Record {
    /// Returns true if the name is held as another kind of lock. A free record may change its
    /// kind; only waiters prevent that, and the queue knows them.
    pub(super) fn is_other(&self, kind: LockKind) -> bool {
        self.kind != kind && !matches!(self.status, Status::Free)
    }

    /// Returns true if a request holds the mutex, or has an offer of it.
    pub(super) fn holds(&self, request: RequestId) -> bool {
        matches!(self.status, Status::One { id, .. } if id == request)
    }

    /// Returns true if it is an offer that nobody has confirmed.
    pub(super) fn is_offered(&self) -> bool {
        matches!(self.status, Status::One { is_offer: true, .. })
    }
}

impl LockState {
    /// Drops the parts that have expired. Every rule expects that this was done.
    pub(in crate::store) fn expire(&mut self, now: Time) {
        self.record.take_if(|record| record.until <= now);
        self.holders.expire(now);
        self.queue.expire(now);
        self.forced.expire(now);
        self.intent.take_if(|mark| mark.until <= now);
        self.done.take_if(|done| done.stays <= now);
        self.runs.take_if(|(_, stays)| *stays <= now);
        self.again.take_if(|(_, stays)| *stays <= now);
        self.freed.take_if(|(_, stays)| *stays <= now);
    }

    /// Ends all leases, as if they had expired. The queue stays, and its first waiter gets the
    /// lock when it asks. Says whether the lock was held.
    pub(in crate::store) fn expire_leases(&mut self) -> bool {
        let held = self.record.take_if(|record| !matches!(record.status, Status::Free));
        if held.is_some() {
            self.holders = Holders::default();
        }
        held.is_some()
    }

    /// Returns true if it is held, kept or waited for.
    pub(in crate::store) fn is_busy(&self) -> bool {
        let is_free = |record: &Record| matches!(record.status, Status::Free);
        !self.record.as_ref().is_none_or(is_free) || !self.queue.is_empty()
    }

    /// Returns true if somebody waits for it.
    pub(in crate::store) fn is_waited_for(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Returns true if it is work with ticks that has run, or that is to run again.
    pub(in crate::store) fn is_job(&self) -> bool {
        let has_ticks = self.done.is_some_and(|done| done.tick.is_some());
        has_ticks || self.runs.is_some() || self.again.as_ref().is_some_and(|(it, _)| it.tick > 0)
    }

    /// Returns true if there is nothing to remember.
    pub(in crate::store) fn is_blank(&self) -> bool {
        let is_unheld = self.record.is_none() && self.holders.is_empty();
        let is_unmarked = self.forced.is_empty() && self.intent.is_none() && self.done.is_none();
        let is_untried = self.runs.is_none() && self.again.is_none() && self.freed.is_none();
        is_unheld && is_unmarked && is_untried && self.queue.is_empty()
    }

    /// What every command leaves behind, where nobody deletes keys by hand.
    pub(in crate::store) fn assert_sound(&self) {
        debug_assert_eq!(self.queue.order.len(), self.queue.waiters.len(), "queue and waiters");
        let Some(record) = &self.record else { return };
        let is_one = matches!(record.status, Status::One { .. } | Status::Kept { .. });
        debug_assert!(!is_one || record.kind == LockKind::Mutex, "one holder, of {record:?}");
        let is_many = matches!(record.status, Status::Many { .. });
        debug_assert!(!is_many || record.kind != LockKind::Mutex, "many holders, of {record:?}");
        debug_assert!(record.may_have_waiters || self.queue.is_empty(), "forgotten waiters");
        let is_back = record.ended.is_some_and(|ended| record.holds(ended));
        debug_assert!(!is_back, "a request that has ended holds the lock: {record:?}");
    }

    /// The record knows; but when it has expired, the queue may still be there.
    pub(super) fn nobody_waits(&self) -> bool {
        self.record
            .as_ref()
            .map_or_else(|| self.queue.is_empty(), |record| !record.may_have_waiters)
    }

    pub(super) fn ended(&self) -> Option<RequestId> {
        self.record.as_ref().and_then(|record| record.ended)
    }

    pub(super) fn token(&self) -> Token {
        self.record.as_ref().map(|record| record.token).unwrap_or_default()
    }

    /// The limit that the last permit of a held semaphore was counted against.
    pub(super) fn limit(&self) -> Option<u32> {
        match self.record.as_ref()?.status {
            Status::Many { limit } => limit,
            _ => None,
        }
    }

    /// How long until the record expires.
    pub(super) fn left(&self, now: Time) -> Duration {
        self.record.as_ref().map_or(Duration::ZERO, |record| record.until - now)
    }
}

impl Forced {
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn has(&self, id: RequestId) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(super) fn note(&mut self, leases: impl Iterator<Item = (RequestId, Time)>, now: Time) {
        for (id, until) in leases {
            let known = self.by_id.entry(id).or_insert(until);
            *known = until.max(*known);
        }
        self.by_id.retain(|_, until| *until > now);
        self.until = self.by_id.values().max().copied();
    }

    fn expire(&mut self, now: Time) {
        if self.until.is_some_and(|until| until <= now) {
            *self = Self::default();
        }
    }
}

/// The answer to a request that is not in the queue.
pub(super) fn busy(retry_after: Duration) -> Attempt {
    Attempt::Busy { retry_after, expiry_added: false, kept: false }
}
