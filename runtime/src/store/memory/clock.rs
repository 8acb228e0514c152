//! A clock that a test sets: by it goes a store that is one of several.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// What a time of a store's is in microseconds, as its fencing tokens count them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch {
    at: Instant,
    micros: u64,
}

/// A server's wall clock, which may be wrong, and may jump.
#[derive(Debug)]
pub struct Clock {
    pub(super) epoch: Epoch,
    jumped: AtomicI64,
}

/// It is set back by less than this.
const MOST: Duration = Duration::from_secs(1_000_000);

impl Clock {
    /// One that is right, if it is so many microseconds after all clocks' beginning.
    #[must_use]
    pub fn new(micros: u64) -> Self {
        Self { epoch: Epoch { at: real() + MOST, micros }, jumped: AtomicI64::new(0) }
    }

    /// Moves it, by so many microseconds. Leases go by it as well.
    pub fn jump(&self, micros: i64) {
        self.jumped.fetch_add(micros, Ordering::Relaxed);
    }

    pub(super) fn now(&self) -> Instant {
        let jumped = self.jumped.load(Ordering::Relaxed);
        let time = Duration::from_micros(jumped.unsigned_abs());
        let now = real() + MOST;
        if jumped < 0 { now.checked_sub(time).unwrap_or(now) } else { now + time }
    }
}

impl Epoch {
    pub(super) fn micros(self, now: Instant) -> u64 {
        let count = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let later = self.micros.saturating_add(count(now.saturating_duration_since(self.at)));
        later.saturating_sub(count(self.at.saturating_duration_since(now)))
    }
}

/// Tokio's, which a test may pause.
pub(super) fn real() -> Instant {
    tokio::time::Instant::now().into_std()
}
