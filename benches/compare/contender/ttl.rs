//! The TTL of leases in the benches.

use std::time::Duration;

/// The TTL of every contender's leases: none ends during a round.
pub(crate) const TTL: Duration = Duration::from_secs(30);
