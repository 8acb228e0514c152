//! The harness: real servers, the processes that use them, and the two stores
//! under one face.
//!
//! Everything it starts ends with the test, and with the test's process even
//! if that is killed.

pub mod backend;
pub mod canary;
pub mod cluster;
pub mod hearing;
pub mod kinds;
pub mod masters;
pub mod members;
pub mod polls;
pub mod process;
pub mod remains;
pub mod rights;
pub mod sentinel;
pub mod server;
mod shell;
pub mod shim;
pub mod skew;
pub mod tls;

/// The README's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// And those of what it leads to.
#[cfg(doctest)]
#[doc = include_str!("../../docs/deployments.md")]
struct Deployments;
