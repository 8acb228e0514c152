//! What goes wrong, and what must hold all the same.

#[cfg(feature = "servers")]
mod commands;
#[cfg(feature = "servers")]
mod contention;
mod expired;
#[cfg(feature = "servers")]
mod hints;
mod injected;
#[cfg(feature = "servers")]
mod late_bytes;
mod layer;
mod leases;
mod lost_messages;
#[cfg(feature = "servers")]
mod processes;
#[cfg(feature = "servers")]
mod servers;
#[cfg(feature = "servers")]
mod together;
mod waiting;
