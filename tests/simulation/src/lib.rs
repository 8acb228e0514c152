//! A world in a seed: the shipped client and the shipped scripts, with simulated servers, links,
//! clocks and processes. One number decides all that happens.
//!
//! The server does no I/O and asks for no time: the network gives it bytes and the time, and takes
//! bytes. The scripts run as they are sent, by the same Lua as in a real server.

// A part of the tests, not an API.
#![allow(
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    missing_docs
)]

pub mod clocks;
pub mod group;
pub mod network;
pub mod oracle;
pub mod process;
pub mod repeat;
pub mod server;
mod telemetry;
pub mod trace;
pub mod traffic;
pub mod world;
