//! Times by a server's clock, as users read them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time of so many milliseconds since the Unix epoch.
pub(crate) fn system_time(millis: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis)).unwrap_or(UNIX_EPOCH)
}
