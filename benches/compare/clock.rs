//! The machine's clocks.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// The monotonic clock. All processes of the machine share it, so their stamps can be compared.
pub(crate) fn now() -> Duration {
    duration(clock_gettime(ClockId::Monotonic))
}

/// The processor time that all threads of this process have used.
pub(crate) fn own_cpu() -> Duration {
    duration(clock_gettime(ClockId::ProcessCPUTime))
}

fn duration(time: Timespec) -> Duration {
    Duration::try_from(time).expect("these clocks begin at zero")
}

/// A duration as microseconds.
pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// A duration as whole nanoseconds, the format of the workers' stamps.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
