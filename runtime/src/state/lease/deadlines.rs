//! The times of a lease: when it ends, when it is to be renewed, and for how long its
//! lock stays held at least and at most.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::core::options::Options;
use crate::store::validity;

/// How a lease came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    /// When the command was sent that it goes back to; an offer: when it was heard
    /// of.
    pub(crate) sent: Instant,
    /// When it must be regarded as ended, unless it is renewed.
    pub(crate) deadline: Instant,
    /// An offer is to be confirmed at once, by a renewal.
    pub(crate) is_offer: bool,
    /// When the first ask for it was sent that had no answer: a copy of it may be on its
    /// way, and would grant it anew when it has ended.
    pub(crate) in_doubt: Option<Instant>,
}

impl Grant {
    /// Of a command that was sent then, and set the TTL.
    pub(crate) fn by_command(sent: Instant, ttl: Duration) -> Self {
        Self { sent, deadline: sent + validity(ttl), is_offer: false, in_doubt: None }
    }
}

/// An offer that was not confirmed goes on to another only if there is ample time for it:
/// half of what it lasts.
const CONFIRMATION: Duration = Duration::from_millis(500);

/// How long a timer may be set while a lease is held. Timers stand still while the system
/// is suspended; the store's clock, by which the lease ends, does not.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// When what has to be done about a lease.
#[derive(Debug)]
pub(super) struct Deadlines {
    pub(super) start: Instant,
    /// When the holder must regard it as ended, in nanoseconds from `start`.
    deadline: AtomicU64,
    /// No renewal has confirmed it yet.
    is_offer: AtomicBool,
    pub(super) in_doubt: Option<Instant>,
    /// How long each renewal lets it last.
    ttl: Duration,
    pub(super) is_renewed: bool,
    /// Until when the lock stays held, even if it is released before.
    keep_until: Option<Instant>,
    /// When it is lost, however often it was renewed. Counted from when the grant was
    /// asked for: the earlier stamp is the safe one.
    most: Option<Instant>,
}

impl Deadlines {
    /// Of a grant whose requests are for this TTL, and which was received only then.
    pub(super) fn new(
        grant: Grant,
        ttl: Duration,
        options: &Options,
        received: impl FnOnce() -> Instant,
    ) -> Self {
        let keep = Some(options.hold_at_least).filter(|keep| !keep.is_zero());
        Self {
            start: grant.sent,
            deadline: AtomicU64::new(nanos(grant.deadline.saturating_duration_since(grant.sent))),
            is_offer: AtomicBool::new(grant.is_offer),
            in_doubt: grant.in_doubt,
            ttl,
            is_renewed: options.renew,
            // Here the later stamp is the safe one.
            keep_until: keep.map(|keep| received() + keep),
            most: options.max_hold.map(|most| grant.sent + most),
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        self.start + Duration::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    /// Whether it lasts as long as it ever will.
    pub(super) fn is_final(&self) -> bool {
        // No renewal reaches further than the one that was cut off at the end.
        let drift = self.ttl.saturating_sub(validity(self.ttl));
        self.most.is_some_and(|most| self.deadline() + drift >= most)
    }

    /// What a renewal asks for that is sent now: the TTL, or what is left until the end.
    /// Nothing if that is too little for a command.
    pub(super) fn next_ttl(&self, now: Instant) -> Option<Duration> {
        let left = self.most(now).unwrap_or(Duration::MAX);
        (left >= Duration::from_millis(1)).then(|| self.ttl.min(left))
    }

    /// A renewal that was sent then has set this TTL.
    pub(super) fn prolong(&self, sent: Instant, ttl: Duration) {
        let deadline = sent.saturating_duration_since(self.start) + validity(ttl);
        self.deadline.fetch_max(nanos(deadline), Ordering::AcqRel);
        self.is_offer.store(false, Ordering::Release);
    }

    /// When it is to be looked after for the first time.
    pub(super) fn first(&self, grant: Grant) -> Instant {
        if grant.is_offer {
            return grant.sent;
        }
        // What was handed over goes on from the command that its deadline goes back to.
        let sent = grant.deadline.checked_sub(validity(self.ttl));
        self.next(sent.unwrap_or(grant.sent))
    }

    /// When it is to be looked after next, after a command that was sent then: to be
    /// renewed, or to be ended.
    pub(super) fn next(&self, sent: Instant) -> Instant {
        let is_left = self.is_final() || !self.is_renewed;
        if is_left { self.deadline() } else { sent + self.ttl / 3 }
    }

    /// Whether no renewal has confirmed it yet.
    pub(super) fn is_offer(&self) -> bool {
        self.is_offer.load(Ordering::Acquire)
    }

    /// Whether the lock is to stay held for a least time.
    pub(super) fn is_kept(&self) -> bool {
        self.keep_until.is_some()
    }

    /// For how long the lock is to stay held after it was released.
    pub(super) fn keep(&self, now: Instant) -> Duration {
        self.keep_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// When it is lost at the latest, if that is bounded.
    pub(super) fn end(&self) -> Option<Instant> {
        self.most
    }

    /// How long it may be held yet, if that is bounded.
    pub(super) fn most(&self, now: Instant) -> Option<Duration> {
        self.most.map(|most| most.saturating_duration_since(now))
    }

    /// What another holder may have of it: nothing unless it surely lasts until his first
    /// renewal, and none of it is to be kept. It runs no longer than for this one.
    pub(super) fn rest_of_grant(&self, now: Instant) -> Option<Grant> {
        // Read before the deadline, which is set before it.
        let is_offer = self.is_offer();
        let deadline = self.deadline();
        let least = if is_offer { CONFIRMATION } else { self.ttl / 2 };
        let is_enough = now + least <= deadline && self.keep(now).is_zero();
        // All commands of the request are for the whole TTL: so none that comes late makes
        // it shorter for who has it then.
        let is_whole = self.most(now).is_none_or(|left| left >= self.ttl);
        (is_enough && is_whole).then_some(Grant {
            sent: now,
            deadline,
            is_offer,
            in_doubt: self.in_doubt,
        })
    }

    /// What is left of it to be given away.
    pub(super) fn rest(&self, now: Instant) -> Options {
        Options {
            ttl: self.ttl,
            hold_at_least: self.keep(now),
            max_hold: self.most(now),
            renew: self.is_renewed,
            ..Options::default()
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn deadlines(ttl: Duration, options: Options) -> (Deadlines, Instant) {
        let sent = Instant::now();
        let ttl = Options { ttl, ..options }.first_ttl();
        (Deadlines::new(Grant::by_command(sent, ttl), ttl, &options, || sent + SECOND), sent)
    }

    #[test]
    fn an_older_renewal_does_not_shorten_it() {
        let (deadlines, sent) = deadlines(SECOND * 10, Options::default());
        deadlines.prolong(sent + SECOND * 5, SECOND * 10);
        deadlines.prolong(sent + SECOND, SECOND * 10);
        assert_eq!(deadlines.deadline(), sent + Duration::from_millis(14_898));
    }

    #[test]
    fn what_may_be_held_for_less_than_its_ttl_is_not_renewed() {
        let options = Options { max_hold: Some(SECOND * 3), ..Options::default() };
        let (deadlines, sent) = deadlines(SECOND * 10, options);
        assert!(deadlines.is_final());
        assert_eq!(deadlines.next(sent), sent + Duration::from_millis(2_968));
    }

    #[test]
    fn renewals_end_where_max_hold_does() {
        for max_hold in [10, 11, 12, 13, 14, 20, 29, 30, 31].map(|n| SECOND * n) {
            let options = Options { max_hold: Some(max_hold), ..Options::default() };
            let (deadlines, sent) = deadlines(SECOND * 10, options);
            let mut at = sent;
            while !deadlines.is_final() {
                at = deadlines.next(at);
                let ttl = deadlines.next_ttl(at).unwrap();
                assert!(at + ttl <= sent + max_hold);
                deadlines.prolong(at, ttl);
            }
            let early = (sent + max_hold).duration_since(deadlines.deadline());
            assert!(early <= Duration::from_millis(102), "{max_hold:?}: {early:?} before its end");
            assert_eq!(deadlines.next(at), deadlines.deadline(), "it is to be ended then");
            assert_eq!(deadlines.next_ttl(sent + max_hold), None);
        }
    }

    #[test]
    fn what_is_not_renewed_is_looked_at_when_it_ends() {
        let (deadlines, sent) =
            deadlines(SECOND * 10, Options { renew: false, ..Options::default() });
        assert_eq!(deadlines.next(sent), deadlines.deadline());
    }

    #[test]
    fn it_is_kept_from_when_it_was_received_and_lost_from_when_it_was_asked_for() {
        let both = (SECOND * 5, Some(SECOND * 20));
        let options = Options { hold_at_least: both.0, max_hold: both.1, ..Options::default() };
        let (deadlines, sent) = deadlines(SECOND * 10, options);
        assert_eq!(deadlines.keep(sent + SECOND * 2), SECOND * 4);
        assert_eq!(deadlines.keep(sent + SECOND * 7), Duration::ZERO);
        assert_eq!(deadlines.most(sent + SECOND * 2), Some(SECOND * 18));
    }
}
