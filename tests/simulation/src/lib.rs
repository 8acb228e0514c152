//! A simulated Redis server, and the way to it for the shipped client.
//!
//! The server does no I/O and asks for no time: whoever runs it gives it bytes
//! and the time, and takes bytes. The scripts run as they are sent, by the same Lua as in a real
//! server.

#![allow(clippy::missing_errors_doc, clippy::missing_panics_doc, missing_docs)] // a part of the tests, not an API

pub mod network;
pub mod server;
pub mod trace;
pub mod world;
