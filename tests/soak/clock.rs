//! The clock that all processes of the machine share.

use std::time::Duration;

use leasehold_history::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// The time on `CLOCK_MONOTONIC`.
pub(crate) fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    let whole = u64::try_from(time.tv_sec).unwrap_or_default();
    whole * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default()
}

/// A duration in nanoseconds.
pub(crate) fn nanos(time: Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A duration of some milliseconds.
pub(crate) fn millis(rng: &mut fastrand::Rng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(rng.u64(range))
}
