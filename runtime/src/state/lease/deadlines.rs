//! When a lease ends, when it is renewed, and how long its lock stays held at least and at
//! most.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::grant::GrantTimes;
use crate::core::error::LossReason;
use crate::core::options::Options;
use crate::store::validity;

/// The longest sleep while a lease is held. Timers stop while the system is suspended; the
/// store's clock, which ends the lease, goes on.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The deadlines of one lease.
#[derive(Debug)]
pub(super) struct Deadlines {
    pub(super) start: Instant,
    /// When the holder must treat it as ended, in nanoseconds from `start`.
    deadline: AtomicU64,
    /// No renewal has confirmed it yet.
    is_offer: AtomicBool,
    pub(super) unanswered_since: Option<Instant>,
    pub(super) may_be_refilled: bool,
    /// The TTL that each renewal sets.
    ttl: Duration,
    pub(super) is_renewed: bool,
    /// Until when the lock stays held, even if it is released earlier.
    keep_until: Option<Instant>,
    /// When it is lost even if it is renewed. Counted from when the grant was asked for,
    /// because the earlier time is the safe one.
    max_hold_until: Option<Instant>,
    /// When its tick ends, if it has ticks.
    tick_ends: Option<Instant>,
    /// It is lost at that time, because a newer run takes its place.
    is_replaced_then: bool,
}

impl Deadlines {
    /// The deadlines of a grant that was asked for with this TTL.
    pub(super) fn new(
        times: GrantTimes,
        ttl: Duration,
        options: &Options,
        received: impl FnOnce() -> Instant,
    ) -> Self {
        let is_promised = times.is_offer || times.deadline <= times.sent + ttl;
        debug_assert!(is_promised, "a lease outlasts its TTL: {times:?}, {ttl:?}");
        let keep = Some(options.hold_at_least).filter(|keep| !keep.is_zero());
        Self {
            start: times.sent,
            deadline: AtomicU64::new(nanos(times.deadline.saturating_duration_since(times.sent))),
            is_offer: AtomicBool::new(times.is_offer),
            unanswered_since: times.unanswered_since,
            // The mark of a lease that may be replaced reserves tokens.
            may_be_refilled: times.may_be_refilled || options.replace,
            ttl,
            is_renewed: options.auto_renew,
            // Here the later time is the safe one.
            keep_until: keep.map(|keep| received() + keep),
            max_hold_until: options.max_hold.map(|most| times.sent + most),
            tick_ends: times.tick_ends,
            is_replaced_then: options.replace,
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        self.start + Duration::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    /// Returns true if no renewal can extend it any further.
    pub(super) fn is_final(&self) -> bool {
        // Once `max_hold` has cut a renewal's TTL, no later renewal ends later.
        let drift = self.ttl.saturating_sub(validity(self.ttl));
        self.max_hold_until.is_some_and(|most| self.deadline() + drift >= most)
    }

    /// How it has ended by itself, if it has.
    pub(super) fn end(&self, now: Instant) -> Option<LossReason> {
        if now >= self.deadline() {
            return Some(if self.is_final() { LossReason::MaxHold } else { LossReason::Expired });
        }
        self.replaced_at().filter(|at| now >= *at).map(|_| LossReason::Replaced)
    }

    /// When the run of the next tick takes its place.
    fn replaced_at(&self) -> Option<Instant> {
        self.tick_ends.filter(|_| self.is_replaced_then)
    }

    /// The TTL that a renewal sent now asks for: the whole, or the rest of `max_hold`. `None`
    /// if that rest is too short for a command.
    pub(super) fn next_ttl(&self, now: Instant) -> Option<Duration> {
        let left = self.max_hold_left(now).unwrap_or(Duration::MAX);
        (left >= Duration::from_millis(1)).then(|| self.ttl.min(left))
    }

    /// Extends the deadline: a renewal that was sent at `sent` has set this TTL.
    pub(super) fn extend(&self, sent: Instant, ttl: Duration) {
        debug_assert!(ttl <= self.ttl, "a renewal of {ttl:?} for {:?}", self.ttl);
        let deadline = sent.saturating_duration_since(self.start) + validity(ttl);
        self.deadline.fetch_max(nanos(deadline), Ordering::AcqRel);
        self.is_offer.store(false, Ordering::Release);
    }

    /// When it is due for the first time.
    pub(super) fn first_due(&self, times: GrantTimes) -> Instant {
        if times.is_offer {
            return times.sent;
        }
        // A lease that was handed over keeps the rhythm of the command that set its deadline.
        self.next_due(self.confirmed().unwrap_or(times.sent))
    }

    /// When the command was sent that set its deadline, or before, if `max_hold` has cut its TTL.
    pub(super) fn confirmed(&self) -> Option<Instant> {
        self.deadline().checked_sub(validity(self.ttl))
    }

    /// When it is due next, to be renewed or to be ended, if its last command was sent at
    /// `sent`.
    pub(super) fn next_due(&self, sent: Instant) -> Instant {
        let is_last = self.is_final() || !self.is_renewed;
        let due = if is_last { self.deadline() } else { sent + self.ttl / 3 };
        // After that time it is renewed until its holder has released it.
        self.replaced_at().filter(|at| *at > sent).map_or(due, |at| at.min(due))
    }

    /// Returns true if no renewal has confirmed it yet.
    pub(super) fn is_offer(&self) -> bool {
        self.is_offer.load(Ordering::Acquire)
    }

    /// Returns true if the lock has a `hold_at_least`.
    pub(super) fn is_kept(&self) -> bool {
        self.keep_until.is_some()
    }

    /// How long the lock stays held after its release.
    pub(super) fn keep(&self, now: Instant) -> Duration {
        self.keep_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// When `max_hold` ends, if there is one.
    pub(super) fn max_hold_until(&self) -> Option<Instant> {
        self.max_hold_until
    }

    /// The time that is left of `max_hold`, if there is one.
    pub(super) fn max_hold_left(&self, now: Instant) -> Option<Duration> {
        self.max_hold_until.map(|most| most.saturating_duration_since(now))
    }

    /// The times for the next holder in this process. `None` if too little is left of the lease, or
    /// anything of `hold_at_least`. The deadline stays the same.
    pub(super) fn times_to_hand_over(&self, now: Instant) -> Option<GrantTimes> {
        // Read before the deadline: `extend` sets the deadline first.
        let is_offer = self.is_offer();
        let times = GrantTimes {
            sent: now,
            deadline: self.deadline(),
            is_offer,
            unanswered_since: self.unanswered_since,
            may_be_refilled: self.may_be_refilled,
            is_all_answered: false,
            tick_ends: self.tick_ends,
        };
        // All commands of the request have the whole TTL, so a late one cannot shorten the next
        // holder's lease.
        let is_whole = self.max_hold_left(now).is_none_or(|left| left >= self.ttl);
        let may_be = times.may_be_handed_over(self.ttl, now) && self.keep(now).is_zero();
        (may_be && is_whole).then_some(times)
    }

    /// The options that are left for a process that adopts the lease.
    pub(super) fn remaining_options(&self, now: Instant) -> Options {
        Options {
            ttl: self.ttl,
            hold_at_least: self.keep(now),
            max_hold: self.max_hold_left(now),
            auto_renew: self.is_renewed,
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
        (Deadlines::new(GrantTimes::by_command(sent, ttl), ttl, &options, || sent + SECOND), sent)
    }

    #[test]
    fn an_older_renewal_does_not_shorten_it() {
        let (deadlines, sent) = deadlines(SECOND * 10, Options::default());
        deadlines.extend(sent + SECOND * 5, SECOND * 10);
        deadlines.extend(sent + SECOND, SECOND * 10);
        assert_eq!(deadlines.deadline(), sent + Duration::from_millis(14_898));
    }

    /// The next holder has another token of the record's block.
    #[test]
    fn a_lease_that_was_handed_over_is_not_forgotten() {
        let (sent, ttl) = (Instant::now(), SECOND * 10);
        let times = GrantTimes::by_command(sent, ttl);
        let times = GrantTimes { is_all_answered: true, ..times };
        let deadlines = Deadlines::new(times, ttl, &Options::default(), || sent);
        let next = deadlines.times_to_hand_over(sent).expect("all of its time is left");
        assert!(!next.is_all_answered);
    }

    #[test]
    fn a_max_hold_below_the_ttl_means_no_renewal() {
        let options = Options { max_hold: Some(SECOND * 3), ..Options::default() };
        let (deadlines, sent) = deadlines(SECOND * 10, options);
        assert!(deadlines.is_final());
        assert_eq!(deadlines.next_due(sent), sent + Duration::from_millis(2_968));
    }

    #[test]
    fn renewals_end_where_max_hold_does() {
        for max_hold in [10, 11, 12, 13, 14, 20, 29, 30, 31].map(|n| SECOND * n) {
            let options = Options { max_hold: Some(max_hold), ..Options::default() };
            let (deadlines, sent) = deadlines(SECOND * 10, options);
            let mut at = sent;
            while !deadlines.is_final() {
                at = deadlines.next_due(at);
                let ttl = deadlines.next_ttl(at).unwrap();
                assert!(at + ttl <= sent + max_hold);
                deadlines.extend(at, ttl);
            }
            let early = (sent + max_hold).duration_since(deadlines.deadline());
            assert!(early <= Duration::from_millis(102), "{max_hold:?}: {early:?} before its end");
            assert_eq!(deadlines.next_due(at), deadlines.deadline(), "it is to be ended then");
            assert_eq!(deadlines.next_ttl(sent + max_hold), None);
        }
    }

    #[test]
    fn a_lease_without_renewal_is_due_when_it_ends() {
        let (deadlines, sent) =
            deadlines(SECOND * 10, Options { auto_renew: false, ..Options::default() });
        assert_eq!(deadlines.next_due(sent), deadlines.deadline());
    }

    #[test]
    fn hold_at_least_counts_from_the_receipt_and_max_hold_from_the_ask() {
        let both = (SECOND * 5, Some(SECOND * 20));
        let options = Options { hold_at_least: both.0, max_hold: both.1, ..Options::default() };
        let (deadlines, sent) = deadlines(SECOND * 10, options);
        assert_eq!(deadlines.keep(sent + SECOND * 2), SECOND * 4);
        assert_eq!(deadlines.keep(sent + SECOND * 7), Duration::ZERO);
        assert_eq!(deadlines.max_hold_left(sent + SECOND * 2), Some(SECOND * 18));
    }
}
