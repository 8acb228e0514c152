//! Distributed locks and concurrency limits for Rust services.
//!
//! A mutex that only one task on any server holds, a semaphore that only so
//! many hold, as leases that are renewed while their holder lives and end when
//! it dies. As an attribute, as a Tower layer, or by hand:
//!
//! ```
//! use leasehold::Locks;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), leasehold::LockError> {
//! let locks = Locks::in_memory(); // on servers: Locks::connect(url).await?
//!
//! let lease = locks.mutex("order:42").lock().await?;
//! println!("held, with the fencing token {}", lease.fence()?);
//! lease.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! What is promised, and what no lock can promise, is said in the [README].
//!
//! [README]: https://docs.rs/crate/leasehold
//!
//! # Options
#![doc = include_str!("options.md")]
//!
//! # Metrics
//!
//! With the feature `metrics`; nothing is named after a lock:
//!
#![doc = include_str!("metrics.md")]
//!
//! # Features
//!
//! | feature | default | what |
//! |---|---|---|
//! | `macros` | yes | the attribute `#[distributed_lock]`, `lock_key!`, `#[derive(KeyPart)]` |
//! | `redis` | yes | the Redis store: `Locks::connect`, `Locks::from_env` |
//! | `tower` | yes | `LockLayer`, for any Tower service that speaks HTTP |
//! | `axum` | no | keys from axum's routes, and `LeaseHandle` as an extractor |
//! | `metrics` | no | waits, holds, refusals, losses and renewals, by the `metrics` facade |
//! | `tls` | no | `rediss://` URLs |
//! | `cluster` | no | a Redis Cluster as the store: URLs of several nodes, or of one |
//!
//! The in-memory store is always there, and so are its [`Faults`], for tests.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod api;
#[cfg(feature = "macros")]
mod attribute;
mod client;
mod core;
mod engine;
mod hints;
mod keeper;
mod local_queue;
mod state;
#[doc(hidden)]
pub mod store;
#[cfg(feature = "tower")]
pub mod tower;

#[cfg(feature = "redis")]
pub use crate::api::builder::LocksBuilder;
pub use crate::api::faults::Faults;
pub use crate::api::locks::Locks;
pub use crate::api::multi_lock::MultiLock;
pub use crate::api::mutex::Mutex;
pub use crate::api::quorum::{LockClient, QuorumLocks, SemaphoreClient};
pub use crate::api::reentrant_mutex::ReentrantMutex;
pub use crate::api::rw_lock::RwLock;
pub use crate::api::semaphore::Semaphore;
pub use crate::core::error::{LockError, LossReason, Outcome, Step};
pub use crate::core::fence::Fence;
pub use crate::core::key::{IntoLockKey, KeyPart, KeyTemplate, LockKey};
pub use crate::core::no_majority::{NoMajority, ServerAnswer};
pub use crate::core::options::Wait;
pub use crate::engine::lease::{Lease, LeaseHandle, LeaseState, Released};
pub use crate::engine::lease_set::LeaseSet;
pub use crate::engine::ticket::Ticket;
pub use crate::state::shutdown::ShutdownReport;
pub use crate::store::fault_injection::Fault;
pub use crate::store::{ClientId, ClientInfo, Forced, Holder, LockInfo, LockKind, Waiter};
#[cfg(feature = "tower")]
pub use crate::tower::LockLayer;
#[cfg(feature = "axum")]
pub use crate::tower::path_key;
#[cfg(feature = "macros")]
pub use leasehold_macros::{KeyPart, distributed_lock, lock_key};

/// For what the macros expand to alone.
#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod __private {
    pub use std::pin::pin;

    pub use crate::attribute::{Call, FromLockError, Guarded, Skippable, body, key, lease};
    pub use crate::{KeyPart, KeyTemplate};
}
