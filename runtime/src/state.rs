//! What a client knows of its own leases, and of its own end.

pub(crate) mod lease;
pub(crate) mod shutdown;
pub(crate) mod telemetry;
