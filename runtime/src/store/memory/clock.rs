//! The clock of a store. A test may set one, as the wall clock of a quorum's member.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use crate::store::rules::Time;
use crate::system;

/// A server's wall clock, which may be wrong, and may jump.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
    /// The time that it showed then, in microseconds.
    micros: u64,
    /// By how many microseconds it was moved since.
    jumped: AtomicI64,
}

impl Clock {
    /// A clock that shows so many microseconds now.
    #[must_use]
    pub fn new(micros: u64) -> Self {
        Self { started: real(), micros, jumped: AtomicI64::new(0) }
    }

    /// Moves it by so many microseconds. Leases and tokens follow it.
    pub fn jump(&self, micros: i64) {
        self.jumped.fetch_add(micros, Ordering::Relaxed);
    }

    pub(super) fn now(&self) -> Time {
        let (shown, now) = (Duration::from_micros(self.micros), real());
        // Tokio's clock goes back where a test pauses it.
        let shown = (shown + now.saturating_duration_since(self.started))
            .saturating_sub(self.started.saturating_duration_since(now));
        let jumped = self.jumped.load(Ordering::Relaxed);
        let jump = Duration::from_micros(jumped.unsigned_abs());
        let shown = if jumped < 0 { shown.saturating_sub(jump) } else { shown + jump };
        Time::since_beginning(shown)
    }
}

/// Tokio's clock, which a test may pause.
pub(super) fn real() -> Instant {
    system::now()
}
