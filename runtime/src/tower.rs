//! A layer for Tower services that speak HTTP: it handles each request under a lock, or
//! refuses it.
//!
//! ```
//! use http::{Request, Response, StatusCode};
//! use http_body_util::Full;
//! use leasehold::{Locks, LockLayer};
//! use tower::{Layer, ServiceExt};
//! # use std::convert::Infallible;
//! # use bytes::Bytes;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = Locks::in_memory();
//!
//! // Four reports at a time, on all servers together.
//! let layer = LockLayer::semaphore(&locks, "reports", 4);
//! let service = layer.layer(tower::service_fn(|_: Request<()>| async {
//!     Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("a report"))))
//! }));
//!
//! let response = service.oneshot(Request::new(())).await?;
//! assert_eq!(response.status(), StatusCode::OK);
//! # Ok(())
//! # }
//! ```
//!
//! The layer is a [`mutex`](LockLayer::mutex), a [`semaphore`](LockLayer::semaphore), or an
//! [`rw_lock`](LockLayer::rw_lock), which a GET reads and a PUT writes. A [`RequestKey`]
//! names the lock of each request: a plain name, a function of the request's head
//! ([`key_by`]), or, with the feature `axum`, the path's parameters
//! (`path_key("order:{id}")`).
//!
//! # Refusals
//!
//! A refused request does not reach the inner service, unless the lock is lost while it
//! runs. The inner service's errors pass through. Refusals are responses with a problem
//! body after RFC 9457, which does not name the lock:
//!
//! | status | when | `Retry-After` |
//! |---|---|---|
//! | 400 | the request does not say what to lock | |
//! | 409 | others hold the mutex or the read-write lock | 1; the rest, rounded up, if nobody holds the mutex and [`hold_at_least`](crate::Mutex::hold_at_least) keeps it |
//! | 429 | the semaphore is full | 1 |
//! | 429 or 503 | more requests wait for the semaphore, or for another lock, than [`max_waiters`](LockLayer::max_waiters) allows | 1 |
//! | 503 | the lock store failed for one second, or for `wait` if that is longer | 1 |
//! | 503 | the lock was lost while the request ran, or the request held it for its [`max_hold`](LockLayer::max_hold) | |
//! | 500 | the layer has an option that makes no sense, or the name is in use by another kind of lock | |
//!
//! `Retry-After` is in seconds. The rest of the lease would make a poor one: the holder
//! renews it, or releases it long before. [`LockLayer::on_refused`] replaces all or some of
//! these answers.
//!
//! # How long the lock is held
//!
//! The layer holds the lock until the response's *body* has ended or was dropped, not only
//! until its head was made: see [`LeaseBody`]. A client that goes away drops the handler or
//! the body, and a background task then releases the lock.
//!
//! If the lease is lost while the handler runs, the handler is dropped at its next await
//! point. The answer is 503 without `Retry-After`, because part of the work may be done.
//! Once the head was sent, the body goes on without the lock. A handler whose stream must
//! not outlive the lock takes the [`LeaseHandle`] and watches
//! [`lost`](crate::LeaseHandle::lost).
//!
//! After ten minutes the lease is lost, unless [`max_hold`](LockLayer::max_hold) says
//! otherwise. So a stuck request does not hold its lock for ever. Long streams, such as
//! server-sent events under a semaphore or a large download to a slow client, go on then
//! without their permits.
//!
//! # The lease in the handler
//!
//! The [`LeaseHandle`] has the key, the fencing token and `lost()`. It is in the request's
//! extensions, and with axum an argument of the handler. Functions that the handler calls,
//! however deep, find it with [`LeaseHandle::current`]: in the inner service's `call`, in its
//! future, and while the response's body is polled. Spawned tasks find it only if they run
//! in [`LeaseHandle::scope`].
//!
//! A transaction belongs in the handler, which commits it before the lock is free. A
//! middleware outside this layer would commit when others already hold the lock.
//!
//! The lock of an upgrade (101) ends with its head: the connection afterwards is not under
//! the lock.
//!
//! # Where to put it
//!
//! - *Inside authentication*: a stranger must not hold a lock by asking for it.
//! - *Inside a concurrency limit*, not around it: around it, requests hold their
//!   locks while they queue for the limit.
//! - *A time-out* around this layer counts the wait for the lock, one inside it
//!   does not. Either frees the lock when it fires.
//!
//! A slow client holds a lock while it sends its request's body or reads the response's.
//! Where strangers choose the key, bound both.
//!
//! The layer makes the inner service ready before it acquires the lock, and keeps it ready
//! meanwhile. If readiness reserves something, as in a concurrency limit, waiting requests
//! use it up.
//!
//! [`LeaseHandle`]: crate::LeaseHandle
//! [`LeaseHandle::current`]: crate::LeaseHandle::current
//! [`LeaseHandle::scope`]: crate::LeaseHandle::scope

#[cfg(feature = "axum")]
mod axum;
mod body;
mod future;
mod key;
mod layer;
mod policy;
mod reject;
mod service;
mod waiters;

#[cfg(feature = "axum")]
pub use self::axum::{NoLease, PathKey, path_key};
pub use self::body::LeaseBody;
pub use self::future::ResponseFuture;
pub use self::key::{KeyBy, KeyError, MaybeKey, RequestKey, key_by};
pub use self::layer::LockLayer;
pub use self::reject::Refusal;
pub use self::service::LockService;
