//! How long a lease lasts.

use std::time::Duration;

/// The TTL of every contender's leases: none ends during a round.
pub(crate) const TTL: Duration = Duration::from_secs(30);
