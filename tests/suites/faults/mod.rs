//! Faults, and what must hold in spite of them.

#[cfg(feature = "servers")]
mod batches;
#[cfg(feature = "servers")]
mod commands;
#[cfg(feature = "servers")]
mod contention;
#[cfg(feature = "servers")]
mod forged;
#[cfg(feature = "servers")]
mod hints;
mod idle;
mod injected;
mod injected_expiry;
#[cfg(feature = "servers")]
mod late_bytes;
mod layer;
mod leases;
mod lingering;
mod lost_messages;
#[cfg(feature = "servers")]
mod messages;
#[cfg(feature = "servers")]
mod processes;
#[cfg(feature = "servers")]
mod servers;
#[cfg(all(feature = "servers", target_os = "linux"))]
mod ticks;
mod waiting;
