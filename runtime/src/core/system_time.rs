//! Times by a server's clock, as users read them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// So many milliseconds after the Unix epoch.
#[cfg(feature = "calendar")]
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The time of so many milliseconds since the Unix epoch.
pub(crate) fn system_time(millis: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis)).unwrap_or(UNIX_EPOCH)
}
