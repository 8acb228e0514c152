//! The public API: the client, the kinds of lock, leader election, and the operator's view.

#[cfg(feature = "redis")]
pub(crate) mod builder;
#[cfg(feature = "redis")]
mod connect;
mod diagnose;
pub(crate) mod election;
pub(crate) mod faults;
mod inspect;
mod lead;
pub(crate) mod list;
mod lock_spec;
pub(crate) mod locks;
pub(crate) mod multi_lock;
pub(crate) mod mutex;
pub(crate) mod quorum;
pub(crate) mod reentrant_mutex;
pub(crate) mod rw_lock;
pub(crate) mod semaphore;
mod shutdown;
