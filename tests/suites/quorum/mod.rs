//! Several stores as one: what a majority grants is held, by one at a time, whatever
//! becomes of the others.

#[cfg(all(feature = "servers", target_os = "linux"))]
mod clocks;
mod jumps;
mod memory;
#[cfg(feature = "servers")]
mod node;
#[cfg(feature = "servers")]
mod partitions;
mod random;
#[cfg(feature = "servers")]
pub(crate) mod servers;
mod users;

use std::time::Duration;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(30);
