//! Compares simulated replicas, sentinels and clusters with real ones: the same questions get the
//! same bytes, but for the names and numbers that each server makes up.
#![cfg(all(feature = "servers", target_os = "linux"))]

mod busy;
mod cluster;
mod real;
mod replicas;
mod sentinels;
