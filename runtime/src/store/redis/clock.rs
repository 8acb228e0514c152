//! The clock for a holder's deadlines. Where the system has such a clock, it goes on during a
//! suspension: meanwhile the lease ends on the server.

use std::time::Instant;

/// The time now. Compare it only with other times of this clock: after a suspension it is
/// ahead of [`Instant::now`], and so of all timers.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn now() -> Instant {
    use std::sync::OnceLock;
    use std::time::Duration;

    use rustix::time::{DynamicClockId, clock_gettime_dynamic};

    /// `None` if the system denies this process that clock.
    fn since_boot() -> Option<Duration> {
        clock_gettime_dynamic(DynamicClockId::Boottime).ok()?.try_into().ok()
    }

    static START: OnceLock<Option<(Instant, Duration)>> = OnceLock::new();
    let start = *START.get_or_init(|| Some((Instant::now(), since_boot()?)));
    let now = start.and_then(|(start, then)| Some(start + since_boot()?.saturating_sub(then)));
    now.unwrap_or_else(Instant::now)
}

/// The time now. It stands still during a suspension, where [`Instant`] does.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn now() -> Instant {
    Instant::now()
}
