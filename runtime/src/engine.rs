//! How every kind of lock is acquired and released.

pub(crate) mod acquire;
pub(crate) mod lease;
pub(crate) mod lease_set;
pub(crate) mod rate_status;
mod settled_takes;
pub(crate) mod shared;
pub(crate) mod ticket;
