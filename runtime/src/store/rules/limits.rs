//! The constants of the rules. The scripts have the same values.

use std::time::Duration;

/// How many dead waiters, expired holders or served waiters one command handles at most.
pub(super) const BATCH: usize = 64;

/// How long a free record is remembered, with its token and the request that ended last.
pub(super) const GRACE: Duration = Duration::from_secs(60);

/// How long a queue is remembered after its last ask.
pub(super) const QUEUE_KEPT: Duration = Duration::from_secs(60);

/// How long a request that took from a rate is remembered, so that a copy of it takes nothing.
pub(super) const RATE_KEPT: Duration = Duration::from_secs(10);

/// How many free spans of a rate are remembered. If there are more, the earliest are left to time.
pub(super) const MOST_FREE: usize = 32;

/// The pause between the asks of different clients when the lock may be free.
pub(super) const SPREAD: Duration = Duration::from_millis(100);
