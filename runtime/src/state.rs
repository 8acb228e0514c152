//! A client's state in memory: its leases, its shutdown, its metrics.

pub(crate) mod lease;
pub(crate) mod shutdown;
pub(crate) mod telemetry;
