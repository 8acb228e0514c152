//! How long a command may take.

use std::time::Duration;

/// The shortest time limit of a command: a third of the shortest TTL. A lease near its
/// `max_hold` may have less than that left.
pub(super) const MIN_LIMIT: Duration = Duration::from_millis(33);

/// The time limit of a command for a lease of this TTL: long enough for a slow answer, and
/// short enough that the lease outlives two of them.
pub(super) fn limit(ttl: Duration, command_timeout: Duration) -> Duration {
    (ttl / 3).min(command_timeout).max(MIN_LIMIT)
}
