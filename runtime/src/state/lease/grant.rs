//! A grant of the store, before it is a lease.

use std::time::{Duration, Instant};

use crate::core::fence::Fence;
use crate::store::{Kind, Request, TickTimes, validity};

/// A lease's key in the keeper's timetable: when it is due, and a number that makes the key
/// unique.
pub(crate) type Slot = (Instant, u64);

/// A grant of the store that is no lease yet. Its owner makes a lease of it, or cancels it.
#[must_use = "the lock stays held until the grant is cancelled or its TTL ends"]
pub(crate) struct Grant {
    pub(crate) request: Request,
    pub(crate) fence: Option<Fence>,
    pub(crate) times: GrantTimes,
    /// The tick, of work that is to succeed once in each.
    pub(crate) tick: Option<TickTimes>,
    /// The place in the keeper's timetable that an ended lease has left to this one.
    pub(crate) place: Option<Slot>,
}

impl Grant {
    pub(crate) fn new(request: Request, token: u64, times: GrantTimes) -> Self {
        let fence = request.kind.is_fenced().then(|| Fence::new(token));
        Self { request, fence, times, tick: None, place: None }
    }

    /// The same, of work with ticks, whose answer arrived now. So on this clock the tick ends no earlier
    /// than on the server's, if both run equally fast.
    pub(crate) fn in_tick(mut self, tick: TickTimes, now: Instant) -> Self {
        if let Kind::Once(once) = self.request.kind {
            self.times.tick_ends = Some(now + once.tick_left(tick.granted));
        }
        Self { tick: Some(tick), ..self }
    }
}

/// The times of a grant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantTimes {
    /// When the granting command was sent; for an offer, when its hint arrived.
    pub(crate) sent: Instant,
    /// When the holder must treat it as ended, unless it is renewed.
    pub(crate) deadline: Instant,
    /// It is an offer: a renewal must confirm it at once.
    pub(crate) is_offer: bool,
    /// When the first ask was sent that got no answer. A copy of that ask may still arrive, and
    /// would grant the lock again after the lease has ended.
    pub(crate) unanswered_since: Option<Instant>,
    /// The lock lingers here, so more fencing tokens may be reserved for the request.
    pub(crate) may_be_refilled: bool,
    /// Every command of its request was answered, and the grant's own token is the only one that
    /// was used. So no late copy can arrive, and the store may forget the request.
    pub(crate) is_all_answered: bool,
    /// When the tick of its work ends, if it has ticks.
    pub(crate) tick_ends: Option<Instant>,
}

/// An unconfirmed offer is handed over only with this much time left. That is half of its life,
/// and ample for the confirmation.
const MIN_LEFT_TO_HAND_OVER: Duration = Duration::from_millis(500);

impl GrantTimes {
    /// The times of a grant by a command that was sent at `sent`.
    pub(crate) fn by_command(sent: Instant, ttl: Duration) -> Self {
        Self {
            sent,
            deadline: sent + validity(ttl),
            is_offer: false,
            unanswered_since: None,
            may_be_refilled: false,
            is_all_answered: false,
            tick_ends: None,
        }
    }

    /// Returns true if its lease may go to another task: it surely lasts until that holder's first
    /// renewal.
    pub(crate) fn may_be_handed_over(&self, ttl: Duration, now: Instant) -> bool {
        let least = if self.is_offer { MIN_LEFT_TO_HAND_OVER } else { ttl / 2 };
        now + least <= self.deadline
    }

    /// Returns true if hardly any of its time has passed, so that it may go to a task that does not
    /// renew it. The renewal that confirms an offer sets the whole TTL.
    pub(crate) fn is_whole(&self, ttl: Duration, now: Instant) -> bool {
        self.is_offer || now + validity(ttl) <= self.deadline + ttl / 10
    }
}
