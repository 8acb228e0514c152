//! Several stores as one. A majority's grant holds, for one holder at a time, whatever happens to
//! the other stores.

mod attribute_and_layer;
mod clock_jumps;
#[cfg(feature = "servers")]
pub(crate) mod failures;
#[cfg(feature = "servers")]
mod member_scripts;
mod memory;
#[cfg(feature = "servers")]
mod partitions;
mod random;
#[cfg(all(feature = "servers", target_os = "linux"))]
mod wrong_clocks;

use std::time::Duration;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(30);
