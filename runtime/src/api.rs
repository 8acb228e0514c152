//! The public API: the client, the kinds of lock, leader election, and the operator's view.

// rustdoc shows the methods of a type in the order of these files: first what everybody needs.
#[cfg(feature = "redis")]
mod connect;

pub(crate) mod locks;
pub(crate) mod mutex;
#[cfg(feature = "quorum")]
pub(crate) mod quorum;
pub(crate) mod rate_limit;
pub(crate) mod reentrant_mutex;
pub(crate) mod rw_lock;
pub(crate) mod semaphore;

#[cfg(feature = "redis")]
pub(crate) mod builder;
pub(crate) mod multi_lock;
mod run;

pub(crate) mod election;
pub(crate) mod job;
mod lead;
pub(crate) mod lock_client;
pub(crate) mod lock_options;
pub(crate) mod lock_spec;
mod ping;
mod shutdown;

pub(crate) mod absent;
#[cfg(feature = "doctor")]
mod diagnose;
#[cfg(feature = "faults")]
pub(crate) mod faults;
pub(crate) mod force;
mod inspect;
mod jobs;
pub(crate) mod limits;
pub(crate) mod list;
