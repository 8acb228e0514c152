//! The clock that the tool and its guard share. On Linux it goes on while the machine is suspended,
//! as the lease does on the server.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time now, the same for all processes of this machine.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn now() -> Duration {
    use rustix::time::{DynamicClockId, clock_gettime_dynamic};

    // A system that denies this clock denies it to both processes.
    clock_gettime_dynamic(DynamicClockId::Boottime)
        .ok()
        .and_then(|time| time.try_into().ok())
        .unwrap_or_else(monotonic)
}

/// The time now, the same for all processes of this machine.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn now() -> Duration {
    monotonic()
}

fn monotonic() -> Duration {
    clock_gettime(ClockId::Monotonic).try_into().unwrap_or_default()
}
