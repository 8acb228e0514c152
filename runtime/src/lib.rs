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

mod acquire;
#[cfg(feature = "macros")]
mod attribute;
#[cfg(feature = "redis")]
mod builder;
mod error;
mod face;
mod faults;
mod fence;
mod inspect;
mod keeper;
mod key;
mod lead;
mod lease;
mod leases;
mod line;
mod locks;
mod multi;
mod mutex;
mod options;
mod quorum;
mod reentrant;
mod rw_lock;
mod semaphore;
mod shutdown;
#[doc(hidden)]
pub mod store;
mod telemetry;
mod term;
mod ticket;
#[cfg(feature = "tower")]
pub mod tower;
mod wakeups;

#[cfg(feature = "redis")]
pub use crate::builder::Builder;
pub use crate::error::{LockError, LossReason, Outcome, Step};
pub use crate::faults::Faults;
pub use crate::fence::Fence;
pub use crate::key::{IntoLockKey, KeyPart, KeyTemplate, LockKey};
pub use crate::lease::{Lease, LeaseHandle, LeaseState, Released};
pub use crate::leases::Leases;
pub use crate::locks::Locks;
pub use crate::multi::MultiLock;
pub use crate::mutex::Mutex;
pub use crate::options::Wait;
pub use crate::quorum::{Counting, Locking, QuorumLocks};
pub use crate::reentrant::ReentrantMutex;
pub use crate::rw_lock::RwLock;
pub use crate::semaphore::Semaphore;
pub use crate::shutdown::ShutDownReport;
pub use crate::store::faulty::Fault;
pub use crate::store::quorum::{NoMajority, ServerAnswer};
pub use crate::store::{ClientId, ClientInfo, Forced, Holder, LockInfo, LockKind, Waiter};
pub use crate::ticket::Ticket;
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
