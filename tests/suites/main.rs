//! Most suites, as modules of one program: `seeds::x` is a test's real path. The others are in
//! `main_conformance.rs` and `main_tools.rs`.

mod architecture;
mod attribute;
#[cfg(feature = "servers")]
mod cluster;
mod deployments;
mod docs;
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
#[cfg(feature = "servers")]
mod seeds;
#[cfg(all(feature = "servers", target_os = "linux"))]
mod state_machine;
mod telemetry;
mod turns;
#[cfg(feature = "servers")]
mod waiting;
mod yielding;
