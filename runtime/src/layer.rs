//! A layer for Tower services that speak HTTP: it runs each request under a lock, or
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
//! // Four reports at a time, in all your processes together.
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
//! The layer selects the kind of lock: a [`mutex`](LockLayer::mutex), a
//! [`semaphore`](LockLayer::semaphore), or an [`rw_lock`](LockLayer::rw_lock), which a GET
//! reads and a PUT writes. A [`RequestKey`] selects the lock for each request: a plain
//! name, a template over the request's values ([`template_key`]), a function of its head
//! ([`key_by`]), or, with the feature `axum`, the path's parameters
//! (`path_key("order:{id}")`). [`LockLayer::all`] takes several locks for each request, all or none.
//! [`LockLayer::rate`] limits how many requests come in a time, and holds nothing.
//!
//! # Refusals
//!
//! The layer refuses a request before it reaches the inner service. It also answers a
//! request itself if the lock is lost while the request runs. Errors of the inner service
//! pass through. A refusal is a response with a problem body after RFC 9457, which does not
//! name the lock, but may have its label:
//!
//! | status | when | `Retry-After` |
//! |---|---|---|
//! | 400 | the request does not say what to lock, how much of it ([`weight_by`](LockLayer::weight_by)), or within which limit ([`limit_by`](LockLayer::limit_by)); its owner is no name ([`owner_by`](LockLayer::owner_by)) | |
//! | 400 | the connection broke while the request waited, before its body was whole | |
//! | 409 | another request holds the mutex, or holds the read-write lock in a mode that excludes this one | 1; the rest, rounded up, if only [`hold_at_least`](crate::Mutex::hold_at_least) keeps the mutex |
//! | 409 | the work of the request is done already ([`once`](LockLayer::once), [`once_per`](LockLayer::once_per)) | |
//! | 429 | the semaphore is full | 1 |
//! | 429 | the rate is used up ([`rate`](LockLayer::rate)) | when it is not, rounded up |
//! | 429 or 503 | more requests wait for the semaphore, or for another lock, than [`max_waiters`](LockLayer::max_waiters) allows | 1 |
//! | 503 | the lock store failed, or the lock client was shut down | 1 |
//! | 503 | an operator's limit is 0, or less than the request takes ([`Locks::limits`](crate::Locks::limits)) | |
//! | 503 | the lock was lost while the request ran, or the request held it for its [`max_hold`](LockLayer::max_hold) | |
//! | 504 | the handler took longer than [`timeout`](LockLayer::timeout) | |
//! | 500 | the request holds the lock already, from another layer or in its handler | |
//! | 500 | an option is out of its range, or the name is in use by another kind of lock | |
//!
//! A gRPC call, whose content type is `application/grpc`, gets a status of gRPC instead: 400 is
//! `INVALID_ARGUMENT`, 409 `ABORTED`, 429 `RESOURCE_EXHAUSTED`, 503 `UNAVAILABLE`, 500
//! `INTERNAL`, and 504 `DEADLINE_EXCEEDED`. Work that was done before ([`once`](LockLayer::once)) is `ALREADY_EXISTS`. A lost
//! lock is `UNKNOWN`, because clients may send a call that was `UNAVAILABLE` again by
//! themselves. `grpc-retry-pushback-ms` is what `Retry-After` is in HTTP, of a rate in whole milliseconds, or -1.
//!
//! `Retry-After` is in seconds. It does not say when the lease ends, because the holder
//! renews it, or releases it long before. [`LockLayer::on_refused`] replaces all or some of
//! these responses, by an async function that gets the refusal and the request's head.
//!
//! # How long the lock is held
//!
//! The lock is held until the response's *body* has ended or was dropped, not only until
//! the head is ready: see [`LeaseBody`]. The end of the response is sent when the lock store has
//! answered the release, which costs one round trip. So a client that has read its whole answer
//! is not refused because of it. When the HTTP client disconnects, the HTTP server drops the
//! handler or the body, and the lock is released in the background. An HTTP/1 server notices that
//! only while somebody reads the request's body, or has read all of it: while a request waits, the
//! layer [reads ahead](LockLayer::wait).
//!
//! If the lease is lost while the handler runs, the handler is dropped at its next
//! `.await`, and the response is 503 without `Retry-After`: part of the work may be done.
//! Once the head is sent, there can be no other response, so the body goes on without the
//! lock. A handler whose stream must not outlive the lock takes the [`LeaseHandle`] and
//! watches [`lost`](crate::LeaseHandle::lost). [`LockLayer::hold_until`] releases the lock
//! with the head instead, and [`LockLayer::on_lost`] lets the handler finish after a loss.
//!
//! After ten minutes the lock is lost, unless [`max_hold`](LockLayer::max_hold) says
//! otherwise, so that a stuck request does not hold it for ever. This includes long
//! streams, such as server-sent events under a semaphore, or a large download by a slow
//! HTTP client. They go on, but others get their permits.
//!
//! # The lease in the handler
//!
//! The [`LeaseHandle`] has the key, the fencing token and `lost()`. The handler finds it in
//! the request's extensions, and with axum as an argument. Functions that the handler calls
//! find it with [`LeaseHandle::current`]: in the inner service's `call`, in its future, and
//! while the response's body is polled. Spawned tasks do not, unless they run in
//! [`LeaseHandle::scope`].
//!
//! A transaction belongs inside the handler, with its commit. If a middleware outside of
//! this layer commits, the next holder may start before the commit.
//!
//! Server-sent events hold the lock until the stream ends or the client closes it. If the
//! response switches protocols (101, as for a WebSocket) or opens a tunnel (CONNECT), the lease
//! belongs to the handler's [`LeaseHandle`], and ends when its last clone is dropped. If the
//! handler has kept none, the lock is released with the head, and the layer warns once. For both,
//! the guide has an example.
//!
//! # Where to put it
//!
//! - *Inside authentication*: a stranger must not hold a lock by asking for it.
//! - *Inside a concurrency limit*: otherwise requests of an axum router hold their locks while
//!   they wait for the limit.
//! - *A time-out*: the layer's own [`timeout`](LockLayer::timeout), or a layer inside of this one. Both
//!   free the lock before the client has its answer. A time-out around this layer includes the wait for
//!   the lock, and answers before the lock is free: the client's next request may be refused because of it.
//! - *Inside CORS*: otherwise each preflight takes a part of a rate, and a refusal has no CORS header.
//! - *Another of these layers*, where [`LockLayer::all`] is not enough, in the same order on all routes. Otherwise two requests can each
//!   hold what the other waits for, until their waits are over.
//!
//! A slow HTTP client holds a lock while it sends the request's body or reads the
//! response's. If strangers choose the key, limit the time for both.
//!
//! The layer makes the inner service ready before it asks for the lock, and keeps it ready
//! meanwhile. If that reserves something, as in a concurrency limit, requests that wait for
//! a lock use it up.
//!
//! [`LeaseHandle`]: crate::LeaseHandle
//! [`LeaseHandle::current`]: crate::LeaseHandle::current
//! [`LeaseHandle::scope`]: crate::LeaseHandle::scope

mod answer;
#[cfg(feature = "axum")]
mod axum;
mod body;
mod call;
mod demand;
mod ending;
mod future;
mod grpc;
mod held;
mod held_body;
mod hold;
mod hold_body;
#[cfg(test)]
mod hostile;
mod identity;
mod key;
mod layer_lock;
mod lock_layer;
mod number;
mod options;
mod outage;
#[cfg(feature = "axum")]
mod path_key;
mod policy;
mod problem;
mod rate_fields;
#[cfg(feature = "axum")]
mod read_ahead;
#[cfg(not(feature = "axum"))]
#[path = "layer/no_read_ahead.rs"]
mod read_ahead;
mod reject;
mod request_lock;
mod request_values;
mod response_head;
mod service;
mod several;
mod stop;
mod succeeding;
mod telemetry;
mod template;
mod template_key;
mod upgrade;
mod waiters;

#[cfg(feature = "axum")]
pub use self::axum::NoLease;
pub use self::body::LeaseBody;
pub use self::future::ResponseFuture;
pub use self::hold::{HoldUntil, OnLost};
pub use self::key::{KeyBy, KeyError, MaybeKey, RequestKey, key_by};
pub use self::layer_lock::LayerLock;
pub use self::lock_layer::LockLayer;
pub use self::number::MaybeNumber;
#[cfg(feature = "axum")]
pub use self::path_key::{PathKey, path_key};
pub use self::reject::Refusal;
pub use self::service::LockService;
pub use self::several::SetKey;
pub use self::template_key::{TemplateKey, template_key};
