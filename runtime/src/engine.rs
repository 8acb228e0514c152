//! How a lock is acquired and given back: what all kinds of lock are made of.

pub(crate) mod acquire;
pub(crate) mod lease;
pub(crate) mod lease_set;
pub(crate) mod shared;
pub(crate) mod ticket;
