//! Distributed locks and concurrency limits for Rust services, on Redis or Valkey.
//!
//! Whoever holds a lock has a *lease*. The client renews the lease while the holder lives;
//! when the holder dies, the lease soon ends and the lock is free. A release hands the lock
//! to the first waiter. The [guide] starts with the [concepts]; it also says what is
//! [guaranteed], and what no lock can guarantee.
//!
//! [guide]: guide/index.html
//! [concepts]: guide/concepts/index.html
//! [guaranteed]: guide/guarantees/index.html
//!
//! # What is special
//!
#![doc = include_str!("special.md")]
//!
//! The commands are of the repository. [Performance](guide/performance/index.html) has more, and says
//! where others are faster.
//!
//! # How to use it
//!
//! As an attribute:
//!
//! ```
//! use leasehold::{LockError, Locks, distributed_lock};
//!
//! #[distributed_lock(key = "invoice:{invoice_id}", ttl = "10s")]
//! async fn charge(invoice_id: u64) -> Result<u64, LockError> {
//!     Ok(invoice_id) // one call at a time for each invoice, in all processes
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), LockError> {
//! Locks::in_memory().install(); // in production: Locks::connect(url).await?.install()
//! charge(42).await?;
//! # Ok(())
//! # }
//! ```
//!
//! As a layer around a service, or around a [route of axum](guide/http/index.html):
//!
//! ```
//! use std::convert::Infallible;
//!
//! use http::{Request, Response};
//! use leasehold::{LockLayer, Locks};
//! use tower::{Layer, ServiceExt}; // tower's feature `util`
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = Locks::in_memory();
//! let four_at_a_time = LockLayer::semaphore(&locks, "reports", 4);
//!
//! let service = four_at_a_time.layer(tower::service_fn(|_: Request<()>| async {
//!     Ok::<_, Infallible>(Response::new(String::from("a report")))
//! }));
//! assert!(service.oneshot(Request::new(())).await?.status().is_success());
//! # Ok(())
//! # }
//! ```
//!
//! By hand:
//!
//! ```
//! use leasehold::Locks;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), leasehold::LockError> {
//! let locks = Locks::in_memory();
//!
//! let lease = locks.mutex("order:42").lock().await?;
//! println!("held, with the fencing token {}", lease.fence()?);
//! lease.release().await?; // or drop it
//! # Ok(())
//! # }
//! ```
//!
//! # Install
//!
//! ```sh
//! cargo add leasehold --features axum   # or without axum
//! ```
//!
//! Version 0.1 is the first one: the interface may still change with each minor version. The
//! default features bring 82 crates of others, `redis` and `tokio` among them.
//!
//! The guide says how to run [jobs](guide/jobs/index.html), also with the
//! [scheduler that you have](guide/schedulers/index.html), limit
//! [routes](guide/http/index.html), [test](guide/testing/index.html) code under a lock, and
//! [operate](guide/operating/index.html) all that; [troubleshooting] starts from what you see.
//!
//! [troubleshooting]: guide/troubleshooting/index.html
//!
//! # Before you decide
//!
//! | question | answer |
//! |---|---|
//! | Redis is down? | Calls try for a second, or for their `wait` if that is longer (10 s, if you set none), and fail with [`LockError::Store`]; the body does not run. Leases that are held stay valid to their deadlines. [More](guide/deployments/index.html) |
//! | My process stands still for a minute? | Its lease ends, and another holder starts. It learns of the loss when it goes on, and the work is dropped at its next `.await`. Only a [fencing token](guide/concepts/index.html) that the data checks keeps out a write that was under way. |
//! | Redis fails over? | The new master may lack the last grants, so two may hold a lock. `sync_replicas` makes that rare, [a quorum](guide/deployments/index.html) avoids it. |
//! | What does a lock cost? | Two commands, about 0.1 ms on a local server; none while it [lingers](guide/lingering/index.html). [Measured](guide/performance/index.html) |
//! | Where does it run? | Redis from 6.2 on and [Valkey](guide/servers/index.html), alone, with Sentinel, as Cluster, or several as a quorum; TLS with `ring` or the provider that you install. Tested on Linux with glibc. On macOS, Windows and musl it compiles; there, some things [differ](guide/deployments/index.html). |
//! | What does it need? | Rust 1.89 and tokio 1. It fits axum 0.8, tower 0.5, http 1, metrics 0.24 and bb8-redis 0.26. MIT or Apache-2.0. |
//!
//! # Types
//!
//! | what | type |
//! |---|---|
//! | a client, and how it connects | [`Locks`], [`LocksBuilder`](struct.LocksBuilder.html), [`QuorumLocks`](struct.QuorumLocks.html) |
//! | either client, as an argument | [`LockClient`], [`SemaphoreClient`] |
//! | kinds of lock | [`Mutex`], [`ReentrantMutex`], [`Semaphore`], [`RwLock`], [`MultiLock`] |
//! | a held lock | [`Lease`], [`LeaseSet`]; of work that succeeds once also [`Tick`] |
//! | … as its work sees it | [`LeaseHandle`], [`LeaseSetHandle`], [`LeaseState`], [`Fence`] |
//! | … on its way to another process | [`Ticket`] |
//! | the name of a lock | [`LockKey`], [`KeyPart`](trait@KeyPart), [`KeyTemplate`], [`lock_key!`](macro.lock_key.html) |
//! | leader election: to run in it, to watch it | [`Election`], [`ElectionHandle`], [`ElectionState`] |
//! | a job that is due once in each tick | [`Job`] |
//! | how long to wait | [`Wait`] |
//! | the attribute | [`distributed_lock`](attr.distributed_lock.html) |
//! | the layer | [`LockLayer`](layer/struct.LockLayer.html), [`path_key`](layer/fn.path_key.html), [`layer`](layer/index.html) |
//! | what went wrong | [`LockError`], [`LossReason`], [`Outcome`], [`Step`], [`NoMajority`], [`ServerAnswer`] |
//! | what a release or a shutdown did | [`Released`], [`ShutdownReport`] |
//! | an operator's view | [`LockList`], [`LockInfo`], [`LockKind`], [`Holder`], [`Waiter`], [`ClientInfo`], [`ClientId`], [`LastSuccess`], [`ForceRelease`], [`Forced`], [`ForcedBy`], [`JobInfo`], [`AskedAgain`], [`RunAgain`], [`Diagnosis`](struct.Diagnosis.html), [`Finding`](struct.Finding.html), [`Severity`](enum.Severity.html), [`Fact`](struct.Fact.html) |
//! | limits that an operator sets | [`Limits`], [`LimitHandle`], [`LimitOverride`], [`LimitOf`] |
//! | faults for tests | [`Faults`](struct.Faults.html), [`Fault`](enum.Fault.html) |
//!
//! # Features
//!
//! | feature | default | what |
//! |---|---|---|
//! | `macros` | yes | the attribute `#[distributed_lock]`, `lock_key!`, `#[derive(KeyPart)]` |
//! | `redis` | yes | the Redis store: `Locks::connect`, `Locks::from_env` |
//! | `bb8` | no | `LocksBuilder::connect_pool`, for a pool that the program has |
//! | `tower` | yes | `LockLayer`, for any Tower service that speaks HTTP |
//! | `axum` | no | keys from axum's routes, and `LeaseHandle` as an extractor; turns on `tower` |
//! | `metrics` | no | waits, holds, losses and renewals, through the `metrics` facade |
//! | `tls` | no | `rediss://` URLs, with the cryptography of `ring` |
//! | `tls-no-provider` | no | `rediss://` URLs, with the cryptography that the program installs in `rustls`, such as `aws-lc-rs` |
//! | `serde` | no | `serde::Serialize` for `LockInfo` and what is in it (durations in seconds); a `Ticket` as a string |
//! | `cluster` | no | a Redis Cluster as the store: URLs of several nodes, or of one |
//! | `quorum` | no | `Locks::quorum`: several independent servers, of which a majority decides |
//! | `doctor` | no | `Locks::diagnose`: what puts the locks at risk, or slows them down |
//! | `calendar` | no | ticks by a calendar and a time zone: `Mutex::schedule`, and `schedule` of the attribute |
//! | `faults` | no | `Locks::in_memory_with_faults`: a store that fails as a test wants it |
//!
//! The in-memory store needs no feature. Two things are crates of their own: the command
//! `leasehold` (`cargo install leasehold-cli`), and [a web page that shows the
//! locks](https://docs.rs/leasehold-console), a router for axum.
//!
//! # Options
//!
//! [Options](guide/options/index.html) has the table, and says which of the attribute, the layer, a
//! handle, a set and the tool has which.
//!
//! # Metrics
//!
//! With the feature `metrics`. No label has the name of a lock.
//!
#![doc = include_str!("metrics.md")]
//!
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(docsrs, doc(auto_cfg(hide(feature = "internals"))))]

mod api;
#[cfg(feature = "macros")]
mod attribute;
mod client;
mod core;
mod engine;
#[cfg(all(doc, not(doctest)))]
pub mod guide;
mod hints;
mod keeper;
#[cfg(feature = "tower")]
pub mod layer;
mod local_queue;
mod state;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod store;
#[cfg(not(feature = "internals"))]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "with the feature `internals` the suites use all of it"
)]
mod store;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod system;
#[cfg(not(feature = "internals"))]
mod system;

#[cfg(feature = "redis")]
pub use crate::api::builder::LocksBuilder;
pub use crate::api::election::{Election, ElectionHandle, ElectionState};
#[cfg(feature = "faults")]
pub use crate::api::faults::Faults;
pub use crate::api::force::ForceRelease;
pub use crate::api::job::Job;
pub use crate::api::limits::{LimitHandle, Limits};
pub use crate::api::list::LockList;
pub use crate::api::lock_client::{LockClient, SemaphoreClient};
pub use crate::api::locks::Locks;
pub use crate::api::multi_lock::MultiLock;
pub use crate::api::mutex::Mutex;
#[cfg(feature = "quorum")]
pub use crate::api::quorum::QuorumLocks;
pub use crate::api::rate_limit::RateLimit;
pub use crate::api::reentrant_mutex::ReentrantMutex;
pub use crate::api::rw_lock::RwLock;
pub use crate::api::semaphore::Semaphore;
pub use crate::core::error::{LockError, LossReason, Outcome, Step};
pub use crate::core::fence::Fence;
pub use crate::core::key::{IntoLockKey, KeyPart, KeyTemplate, LockKey};
pub use crate::core::limit_override::{LimitOf, LimitOverride};
pub use crate::core::no_majority::{NoMajority, ServerAnswer};
pub use crate::core::options::Wait;
pub use crate::core::rate::Rate;
pub use crate::engine::lease::{Lease, LeaseHandle, LeaseState, Released, Tick};
pub use crate::engine::lease_set::{LeaseSet, LeaseSetHandle};
pub use crate::engine::rate_status::RateStatus;
pub use crate::engine::ticket::Ticket;
#[cfg(feature = "tower")]
pub use crate::layer::LockLayer;
#[cfg(feature = "axum")]
pub use crate::layer::path_key;
pub use crate::state::shutdown::ShutdownReport;
#[cfg(feature = "faults")]
pub use crate::store::fault_injection::Fault;
pub use crate::store::{
    AskedAgain, ClientId, ClientInfo, Forced, ForcedBy, Holder, JobInfo, LastSuccess, LockInfo,
    LockKind, RunAgain, Waiter,
};
#[cfg(feature = "doctor")]
pub use crate::store::{Diagnosis, Fact, Finding, Severity};
/// The crate bb8-redis, in the version whose pools [`LocksBuilder::connect_pool`] accepts.
#[cfg(feature = "bb8")]
pub use bb8_redis;
#[cfg(feature = "macros")]
pub use leasehold_macros::{KeyPart, distributed_lock, lock_key};

/// For what the macros expand to alone.
#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod __private {
    pub use std::pin::pin;

    pub use crate::attribute::{
        Call, FromLockError, Guarded, SetCall, Skippable, body, key, lease, lease_set,
    };
    pub use crate::{KeyPart, KeyTemplate, Rate};
}
