//! A layer for Tower services that speak HTTP: each request is handled under a
//! lock, or is refused.
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
//! What kind of lock it is, the layer says: a [`mutex`](LockLayer::mutex), a
//! [`semaphore`](LockLayer::semaphore), or an [`rw_lock`](LockLayer::rw_lock), which
//! a GET reads and a PUT writes. Which lock a request takes, a [`RequestKey`] says: a plain name, a function
//! of the request's head ([`key_by`]), or, with the feature `axum`, the path's
//! parameters (`path_key("order:{id}")`).
//!
//! # Refusals
//!
//! A request that is refused never reaches the inner service, unless the lock
//! is lost while it runs. The inner service's errors pass through; refusals
//! are responses, with a problem body after RFC 9457 that does not name the
//! lock:
//!
//! | status | when | `Retry-After` |
//! |---|---|---|
//! | 400 | the request does not say what to lock | |
//! | 409 | another holds the mutex, or reads or writes meanwhile | 1; of a mutex that is [kept](crate::Mutex::hold_at_least) the rest, rounded up |
//! | 429 | the semaphore is full | 1 |
//! | 429 or 503 | more requests wait for the semaphore, or for another lock, than [`max_waiters`](LockLayer::max_waiters) allows | 1 |
//! | 503 | the lock store failed | 1 |
//! | 503 | the lock was lost while the request ran, or the request held it for its [`max_hold`](LockLayer::max_hold) | |
//! | 500 | the layer has an option that makes no sense, or the name is in use by another kind of lock | |
//!
//! `Retry-After` is in seconds. The rest of a lease would be no answer: its holder
//! renews it, or releases it long before. [`LockLayer::on_refused`] puts answers of your
//! own in the place of these, all or some.
//!
//! # For how long the lock is held
//!
//! Until the response's *body* has ended or was dropped, not only until its
//! head was made: see [`LeaseBody`]. A client that goes away drops the handler
//! or the body, and so frees the lock, in the background.
//!
//! When the lease is lost while the handler runs, the handler is dropped at its
//! next await point and the answer is 503, without `Retry-After`: part of the work may
//! have been done. Once the head was sent, no other answer can be given: the body goes
//! on without the lock. A handler that streams what must not outlive the lock takes the
//! [`LeaseHandle`] and watches [`lost`](crate::LeaseHandle::lost).
//!
//! After ten minutes it is lost at any rate, unless
//! [`max_hold`](LockLayer::max_hold) says otherwise: a request that is stuck does not
//! hold its lock for ever. That counts for long streams too, such as server-sent events
//! under a semaphore, or a large download to a slow client: they go on, and from then on
//! others have their permits.
//!
//! # The lease in the handler
//!
//! The [`LeaseHandle`] has the key, the fencing token and `lost()`. It is in the
//! request's extensions (with axum, an argument of the handler); and what the handler
//! calls, however deep, finds it by [`LeaseHandle::current`]: in the inner service's
//! `call`, in its future, and while the response's body is polled. Not in tasks that
//! they spawn, unless those run in [`LeaseHandle::scope`].
//!
//! A transaction belongs into the handler: there it is committed before the
//! lock is free. One that a middleware outside this layer commits is committed
//! when others already hold the lock.
//!
//! An upgrade (101) ends with its head here: what is spoken on the connection
//! afterwards is not under the lock.
//!
//! # Where to put it
//!
//! - *Inside authentication*: a stranger must not hold a lock by asking for
//!   it.
//! - *Inside a concurrency limit*, not around it: around it, requests hold their
//!   locks while they queue for the limit.
//! - *A time-out* around this layer counts the wait for the lock, one inside it
//!   does not. Either frees the lock when it strikes.
//!
//! A slow client holds a lock for as long as it sends its request's body or
//! reads the response's: where strangers choose the key, bound both.
//!
//! The inner service is made ready before the lock is asked for, and kept ready
//! meanwhile. If it reserves something by that, as a concurrency limit does,
//! requests that wait for a lock use it up.
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
