//! When to ask again, and which error to return when the wait is over.

use std::time::{Duration, Instant};

use crate::client::not_granted::{DoneWork, NotGranted};
use crate::core::error::{LockError, Step};
use crate::core::key::LockKey;
use crate::core::options::Wait;
use crate::core::system_time::system_time;
use crate::keeper::Earlier;
use crate::store::Store;
use crate::system;

/// How long a failing store is asked again, even by a try. This is enough for a connection that
/// broke while it was idle.
const FAULT_RETRY: Duration = Duration::from_secs(1);

/// How much longer than the client's own thread a caller waits for an answer.
const CALLER_MARGIN: Duration = Duration::from_millis(500);

/// How long a try waits for the answer to a recall. The first pauses are shorter.
const RECALL: Duration = Duration::from_millis(50);

/// The same where another kind of lock lingers, and the caller waits: it can't stand in the queue.
const RECALL_OF_OTHER_KIND: Duration = Duration::from_secs(1);

const FIRST_RECALL_PAUSE: Duration = Duration::from_millis(1);

/// When to ask again. In the store's queue: when the store says so, unless a hint arrives
/// first. Without hints: often at first and then less often, in a random rhythm that spreads
/// the waiters. At the latest when the holder's deadline has passed, and once more when the
/// wait is over.
pub(super) struct AskSchedule {
    begun: Instant,
    wait: Wait,
    waited: Duration,
    pause: Duration,
    /// The client's releases in the background that began before it, until it has waited for them.
    pub(super) earlier: Option<Earlier>,
    /// How many more times it may ask again at once, if the store says so.
    repeats: u32,
    /// When it first heard that it has recalled a lease, and how long it pauses next.
    recalled: Option<(Duration, Duration)>,
    /// The store asks several servers and has no queue.
    has_no_queue: bool,
}

impl AskSchedule {
    const FIRST: Duration = Duration::from_millis(5);
    const LONGEST: Duration = Duration::from_millis(200);

    pub(super) fn new(begun: Instant, wait: Wait) -> Self {
        Self {
            begun,
            wait,
            waited: Duration::ZERO,
            pause: Self::FIRST,
            earlier: None,
            repeats: 64,
            recalled: None,
            has_no_queue: false,
        }
    }

    /// For this store. If the store has no queue, a try asks once.
    pub(super) fn of(store: &dyn Store, begun: Instant, wait: Wait) -> Self {
        Self { has_no_queue: !store.has_queue(), ..Self::new(begun, wait) }
    }

    pub(super) fn is_try(&self) -> bool {
        self.wait == Wait::For(Duration::ZERO)
    }

    /// The longest that the caller may wait for the work, if that is bounded: the wait, and
    /// then the time for a last answer.
    pub(super) fn time_limit(&mut self, store: &dyn Store, ttl: Duration) -> Option<Duration> {
        let answer = store.answers_within(ttl)? + CALLER_MARGIN;
        self.note_waited(store.now());
        (self.wait != Wait::Forever).then(|| self.left_in_faults().saturating_add(answer))
    }

    /// How much of the wait is left.
    pub(super) fn left(&self, now: Instant) -> Duration {
        match self.wait {
            Wait::Forever => Duration::MAX,
            Wait::For(wait) => wait.saturating_sub(now.saturating_duration_since(self.begun)),
        }
    }

    /// The wait of a part of the acquisition that begins now.
    pub(super) fn wait_left(&self, now: Instant) -> Wait {
        match self.wait {
            Wait::Forever => Wait::Forever,
            Wait::For(_) => Wait::For(self.left(now)),
        }
    }

    /// Notes how long it has waited.
    pub(super) fn note_waited(&mut self, now: Instant) {
        self.waited = now.saturating_duration_since(self.begun);
    }

    /// How long to pause before the next ask; `None` when the wait is over, or when another ask
    /// can't help.
    pub(super) fn next(
        &mut self,
        now: Instant,
        refusal: &NotGranted,
        hears: bool,
    ) -> Option<Duration> {
        self.note_waited(now);
        // A semaphore drops expired permits a few at a time, and a grant that came too late is
        // asked for again. Both also hold for a try.
        if matches!(refusal, NotGranted::Held { left: Duration::ZERO, .. } | NotGranted::TooLate)
            && self.repeats > 0
        {
            self.repeats -= 1;
            return Some(Duration::ZERO);
        }
        let is_recalled = self.recalled.is_some() || matches!(refusal, NotGranted::Recalled { .. });
        let is_unqueued = matches!(
            refusal,
            NotGranted::Recalled { other_kind: true, .. } | NotGranted::WrongKind
        );
        if is_recalled && (self.is_try() || is_unqueued) {
            return self.after_recall(now, refusal);
        }
        let left = match refusal {
            NotGranted::HeldByOwner
            | NotGranted::WrongKind
            | NotGranted::Done(_)
            | NotGranted::Closed(_) => return None,
            NotGranted::Fault(error) if !error.is_passing => return None,
            NotGranted::Fault(_) => return self.after_fault(now),
            _ => self.left(now),
        };
        if left.is_zero() {
            return None;
        }
        let random = self.random();
        let pause = match refusal {
            // One millisecond later than the store says, so that the lock has ended by then.
            NotGranted::Queued(again) if hears => {
                (*again + Duration::from_millis(1)).max(Self::FIRST)
            }
            // Without a queue, waiters that ask together would go on doing so.
            NotGranted::Held { left: again, .. } if self.has_no_queue => {
                random.min(*again + system::full_jitter(self.pause))
            }
            NotGranted::Queued(again) | NotGranted::Held { left: again, .. } => {
                random.min(*again + Duration::from_millis(1))
            }
            _ => random,
        };
        Some(pause.min(left))
    }

    /// The error of an acquisition that gives up after this refusal.
    pub(super) fn error(&self, refusal: NotGranted, key: LockKey) -> LockError {
        match refusal {
            NotGranted::Fault(error) => LockError::store(Step::Acquire, &key, error),
            NotGranted::HeldByOwner => LockError::WouldDeadlock { key },
            NotGranted::Closed(error) => *error,
            NotGranted::Done(DoneWork { completed, until, left }) => LockError::Done {
                key,
                completed: system_time(completed),
                until: system_time(until),
                retry_after: left,
            },
            NotGranted::Held { left, kept } if self.is_try() => LockError::Busy {
                key,
                retry_after: left,
                kept,
                held_by_caller: false,
                is_semaphore: false,
            },
            NotGranted::Recalled { left, .. } if self.is_try() => self.refused(key, left),
            NotGranted::WrongKind | NotGranted::Recalled { other_kind: true, .. } => {
                LockError::WrongKind { key }
            }
            _ => self.timed_out(key),
        }
    }

    /// The error where the lock is held for this long, if it is not renewed.
    pub(super) fn refused(&self, key: LockKey, retry_after: Duration) -> LockError {
        if self.is_try() {
            return LockError::Busy {
                key,
                retry_after,
                kept: false,
                held_by_caller: false,
                is_semaphore: false,
            };
        }
        self.timed_out(key)
    }

    /// The error of a wait that is over.
    pub(super) fn timed_out(&self, key: LockKey) -> LockError {
        LockError::TimedOut {
            key,
            waited: self.waited,
            held_by_caller: false,
            held_by_client: false,
            is_semaphore: false,
        }
    }

    /// How long a request pauses that is not in the queue, until a recalled lease may have been
    /// released; `None` when that took too long, or the lease is in use.
    fn after_recall(&mut self, now: Instant, refusal: &NotGranted) -> Option<Duration> {
        let (since, pause) = *self.recalled.get_or_insert((self.waited, FIRST_RECALL_PAUSE));
        self.recalled = Some((since, pause * 2));
        let is_held = matches!(
            refusal,
            NotGranted::Recalled { .. } | NotGranted::Held { .. } | NotGranted::WrongKind
        );
        let most = if self.is_try() { RECALL } else { RECALL_OF_OTHER_KIND.min(self.left(now)) };
        let left = (since + most).saturating_sub(self.waited);
        (is_held && !left.is_zero()).then(|| pause.min(left).min(Self::LONGEST))
    }

    /// How long to pause after the store has failed; `None` when the wait is over.
    pub(super) fn after_fault(&mut self, now: Instant) -> Option<Duration> {
        self.note_waited(now);
        let left = self.left_in_faults();
        (!left.is_zero()).then(|| self.random().min(left))
    }

    /// How much longer a failing store is asked.
    fn left_in_faults(&self) -> Duration {
        let Wait::For(wait) = self.wait else { return Duration::MAX };
        let least = if self.has_no_queue { Duration::ZERO } else { FAULT_RETRY };
        wait.max(least).saturating_sub(self.waited)
    }

    fn random(&mut self) -> Duration {
        let random = system::equal_jitter(self.pause);
        self.pause = (self.pause * 3 / 2).min(Self::LONGEST);
        random
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(left: Duration) -> NotGranted {
        NotGranted::Held { left, kept: false }
    }

    #[test]
    fn it_asks_again_at_the_holders_deadline_at_the_latest() {
        let begun = Instant::now();
        let mut schedule = AskSchedule::new(begun, Wait::Forever);
        schedule.pause = AskSchedule::LONGEST;
        let soon = held(Duration::from_millis(20));
        assert_eq!(schedule.next(begun, &soon, true), Some(Duration::from_millis(21)));
        let late = held(Duration::from_secs(20));
        assert!(schedule.next(begun, &late, true) <= Some(AskSchedule::LONGEST));
    }

    #[test]
    fn in_the_queue_it_asks_when_the_store_says_so() {
        let mut schedule = AskSchedule::new(Instant::now(), Wait::Forever);
        let queued = NotGranted::Queued(Duration::from_secs(2));
        assert_eq!(schedule.next(schedule.begun, &queued, true), Some(Duration::from_millis(2001)));
        let deaf = schedule.next(schedule.begun, &queued, false);
        assert!(
            deaf <= Some(AskSchedule::LONGEST),
            "where no hint is heard, it asks often: {deaf:?}"
        );
    }

    #[test]
    fn a_waiter_outlasts_the_leases_that_linger_of_its_kind_alone() {
        let begun = Instant::now();
        let mut schedule = AskSchedule::new(begun, Wait::For(Duration::from_secs(10)));
        let left = Duration::from_secs(20);
        let recalled = |other_kind| NotGranted::Recalled { left, other_kind };
        for after in [0, 1, 9] {
            let now = begun + Duration::from_secs(after);
            assert!(schedule.next(now, &recalled(false), true).is_some(), "{after} s");
        }
        assert!(schedule.next(begun + Duration::from_secs(10), &held(left), true).is_none());
        let key = || LockKey::new("a").unwrap();
        let error = schedule.error(recalled(false), key());
        assert!(matches!(error, LockError::TimedOut { .. }), "{error}");

        let mut schedule = AskSchedule::new(begun, Wait::For(Duration::from_secs(10)));
        assert!(schedule.next(begun, &recalled(true), true).is_some());
        let later = begun + RECALL_OF_OTHER_KIND;
        assert!(schedule.next(later, &recalled(true), true).is_none());
        let error = schedule.error(recalled(true), key());
        assert!(matches!(error, LockError::WrongKind { .. }), "{error}");
    }

    #[test]
    fn an_owner_does_not_wait_for_itself() {
        let begun = Instant::now();
        for wait in [Wait::Forever, Wait::For(Duration::ZERO)] {
            let mut schedule = AskSchedule::new(begun, wait);
            assert!(schedule.next(begun, &NotGranted::HeldByOwner, true).is_none());
            let error = schedule.error(NotGranted::HeldByOwner, LockKey::new("a").unwrap());
            assert!(matches!(error, LockError::WouldDeadlock { .. }), "{error}");
        }
    }

    #[test]
    fn the_wait_is_the_bound_and_a_try_does_not_wait() {
        let begun = Instant::now();
        let held = held(Duration::from_secs(20));
        let mut schedule = AskSchedule::new(begun, Wait::For(Duration::from_secs(1)));
        schedule.pause = AskSchedule::LONGEST;
        let nearly = begun + Duration::from_millis(999);
        assert_eq!(schedule.next(nearly, &held, true), Some(Duration::from_millis(1)));
        assert_eq!(schedule.next(begun + Duration::from_secs(1), &held, true), None);
        assert_eq!(
            AskSchedule::new(begun, Wait::For(Duration::ZERO)).next(begun, &held, true),
            None
        );
    }
}
