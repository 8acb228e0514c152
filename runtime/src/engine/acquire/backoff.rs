//! When to ask again, and what to say when the wait is over.

use std::time::{Duration, Instant};

use crate::core::error::{LockError, Step};
use crate::core::key::LockKey;
use crate::core::options::Wait;
use crate::store::{Store, StoreError};

/// How long a store that fails is asked again, even by a call that does not
/// wait: enough for a connection that broke while it was idle.
const FAULT_RETRY: Duration = Duration::from_secs(1);

/// By how much later than the client's own thread a caller gives up an answer.
const CALLER_MARGIN: Duration = Duration::from_millis(500);

/// How long an owner's own lease may be in his way: one that was dropped just before is
/// released in the background.
const OWN_RELEASE: Duration = Duration::from_millis(250);

/// Why the lock was not granted this time.
pub(super) enum NotGranted {
    /// It waits in the store's queue, and is to ask again in so long.
    Queued(Duration),
    /// Others hold it, or it is kept, for so much longer, and it is in no queue.
    Held { left: Duration, kept: bool },
    /// Others of this process were before it for all of the wait.
    LocalWaiters,
    /// Its owner has it, and would wait for himself.
    HeldByOwner,
    /// The lease was over when it came; it is asked for anew.
    TooLate,
    /// The store failed, and may not do so the next time.
    Fault(StoreError),
}

impl NotGranted {
    pub(super) fn into_error(self, key: LockKey, backoff: &Backoff) -> LockError {
        match self {
            Self::Fault(error) => LockError::store(Step::Acquire, &key, error),
            Self::HeldByOwner => LockError::WouldDeadlock { key },
            Self::Held { left, kept } if backoff.is_try() => {
                LockError::Busy { key, retry_after: left, kept }
            }
            _ => LockError::TimedOut { key, waited: backoff.waited, held_by_caller: false },
        }
    }
}

/// When to ask again: in the queue when the store says so, with an ear for its
/// hints. Where none can be heard, often at first, then less so, in a random
/// rhythm that spreads those who wait; at the holder's deadline at the latest,
/// and once more when the wait is over.
pub(super) struct Backoff {
    begun: Instant,
    wait: Wait,
    waited: Duration,
    pause: Duration,
    /// How long had been waited when its owner was in its way for the first time.
    own_since: Option<Duration>,
    /// How often it may still ask again at once, where the store says so.
    repeats: u32,
    /// It asks a store that has asked several, and has no queue.
    has_no_queue: bool,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(5);
    const LONGEST: Duration = Duration::from_millis(200);

    pub(super) fn new(begun: Instant, wait: Wait) -> Self {
        Self {
            begun,
            wait,
            waited: Duration::ZERO,
            pause: Self::FIRST,
            own_since: None,
            repeats: 64,
            has_no_queue: false,
        }
    }

    /// The same for a store that has asked several: who does not wait asks once.
    pub(super) fn of(store: &dyn Store, begun: Instant, wait: Wait) -> Self {
        Self { has_no_queue: !store.has_queue(), ..Self::new(begun, wait) }
    }

    pub(super) fn is_try(&self) -> bool {
        self.wait == Wait::For(Duration::ZERO)
    }

    /// How long its caller stays at most, if that is bounded: when the wait is over, the
    /// last answer has its time.
    pub(super) fn time_limit(&mut self, store: &dyn Store, ttl: Duration) -> Option<Duration> {
        let answer = store.answers_within(ttl)? + CALLER_MARGIN;
        self.end(store.now());
        (self.wait != Wait::Forever).then(|| self.left_in_faults().saturating_add(answer))
    }

    /// The time there is left to wait.
    pub(super) fn left(&self, now: Instant) -> Duration {
        match self.wait {
            Wait::Forever => Duration::MAX,
            Wait::For(wait) => wait.saturating_sub(now.saturating_duration_since(self.begun)),
        }
    }

    /// Notes that the wait is over.
    pub(super) fn end(&mut self, now: Instant) -> &Self {
        self.waited = now.saturating_duration_since(self.begun);
        self
    }

    /// How long to pause; nothing when the wait is over.
    pub(super) fn next(
        &mut self,
        now: Instant,
        refusal: &NotGranted,
        hears: bool,
    ) -> Option<Duration> {
        self.end(now);
        // A semaphore forgets ended permits a few at a time, and what is over
        // when it comes is asked for anew: also by a call that does not wait.
        if matches!(refusal, NotGranted::Held { left: Duration::ZERO, .. } | NotGranted::TooLate)
            && self.repeats > 0
        {
            self.repeats -= 1;
            return Some(Duration::ZERO);
        }
        let left = match refusal {
            NotGranted::HeldByOwner => {
                let since = *self.own_since.get_or_insert(self.waited);
                self.left(now).min((OWN_RELEASE + since).saturating_sub(self.waited))
            }
            NotGranted::Fault(_) => return self.after_fault(now),
            _ => self.left(now),
        };
        if left.is_zero() {
            return None;
        }
        let random = self.random();
        let pause = match refusal {
            // A little later than the store says, where the lock then ends.
            NotGranted::Queued(again) if hears => {
                (*again + Duration::from_millis(1)).max(Self::FIRST)
            }
            // Without a queue, those who ask together would go on doing so.
            NotGranted::Held { left: again, .. } if self.has_no_queue => {
                random.min(*again + self.pause.mul_f64(fastrand::f64()))
            }
            NotGranted::Queued(again) | NotGranted::Held { left: again, .. } => {
                random.min(*again + Duration::from_millis(1))
            }
            _ => random,
        };
        Some(pause.min(left))
    }

    /// How long to pause when the store has failed; nothing when the wait is over.
    pub(super) fn after_fault(&mut self, now: Instant) -> Option<Duration> {
        self.end(now);
        let left = self.left_in_faults();
        (!left.is_zero()).then(|| self.random().min(left))
    }

    /// The time there is left to wait for a store that fails.
    fn left_in_faults(&self) -> Duration {
        let Wait::For(wait) = self.wait else { return Duration::MAX };
        let least = if self.has_no_queue { Duration::ZERO } else { FAULT_RETRY };
        wait.max(least).saturating_sub(self.waited)
    }

    fn random(&mut self) -> Duration {
        let random = self.pause.mul_f64(0.5 + 0.5 * fastrand::f64());
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
        let mut backoff = Backoff::new(begun, Wait::Forever);
        backoff.pause = Backoff::LONGEST;
        let soon = held(Duration::from_millis(20));
        assert_eq!(backoff.next(begun, &soon, true), Some(Duration::from_millis(21)));
        let late = held(Duration::from_secs(20));
        assert!(backoff.next(begun, &late, true) <= Some(Backoff::LONGEST));
    }

    #[test]
    fn in_the_queue_it_asks_when_the_store_says_so() {
        let mut backoff = Backoff::new(Instant::now(), Wait::Forever);
        let queued = NotGranted::Queued(Duration::from_secs(2));
        assert_eq!(backoff.next(backoff.begun, &queued, true), Some(Duration::from_millis(2001)));
        let deaf = backoff.next(backoff.begun, &queued, false);
        assert!(deaf <= Some(Backoff::LONGEST), "where no hint is heard, it asks often: {deaf:?}");
    }

    #[test]
    fn an_owner_is_not_refused_for_what_he_has_just_dropped() {
        let begun = Instant::now();
        let mut backoff = Backoff::new(begun, Wait::Forever);
        // It may have waited for others before.
        let first = begun + OWN_RELEASE * 10;
        assert!(backoff.next(first, &NotGranted::HeldByOwner, true).is_some());
        assert!(backoff.next(first + OWN_RELEASE, &NotGranted::HeldByOwner, true).is_none());
        let mut backoff = Backoff::new(begun, Wait::For(Duration::ZERO));
        assert!(backoff.next(begun, &NotGranted::HeldByOwner, true).is_none());
        let key = LockKey::new("a").unwrap();
        let error = NotGranted::HeldByOwner.into_error(key, &backoff);
        assert!(matches!(error, LockError::WouldDeadlock { .. }), "{error}");
    }

    #[test]
    fn the_wait_is_the_bound_and_a_try_does_not_wait() {
        let begun = Instant::now();
        let held = held(Duration::from_secs(20));
        let mut backoff = Backoff::new(begun, Wait::For(Duration::from_secs(1)));
        backoff.pause = Backoff::LONGEST;
        let nearly = begun + Duration::from_millis(999);
        assert_eq!(backoff.next(nearly, &held, true), Some(Duration::from_millis(1)));
        assert_eq!(backoff.next(begun + Duration::from_secs(1), &held, true), None);
        assert_eq!(Backoff::new(begun, Wait::For(Duration::ZERO)).next(begun, &held, true), None);
    }
}
