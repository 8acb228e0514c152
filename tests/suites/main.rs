//! All suites, as modules of one program: `seeds::x` is a test's real path.

mod architecture;
mod attribute;
#[cfg(feature = "servers")]
mod cluster;
#[cfg(all(feature = "servers", unix))]
mod command_line;
mod conformance;
mod console;
mod deployments;
mod docs;
mod doctor;
#[cfg(feature = "servers")]
mod examples;
#[cfg(feature = "servers")]
mod failover;
mod faults;
#[cfg(feature = "servers")]
mod harness;
mod json;
#[cfg(feature = "servers")]
mod kinds;
mod layer;
#[cfg(feature = "servers")]
mod leases;
mod lifetimes;
mod multi;
#[cfg(feature = "servers")]
mod over_http;
mod quorum;
mod regressions;
mod seeds;
#[cfg(all(feature = "servers", target_os = "linux"))]
mod state_machine;
mod telemetry;
mod turns;
#[cfg(feature = "servers")]
mod waiting;
mod yielding;
