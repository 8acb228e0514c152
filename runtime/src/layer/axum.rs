//! What axum knows of a request, and the lease as an argument of a handler.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{ConnectInfo, FromRequestParts, OptionalFromRequestParts, RawPathParams};
use axum::response::{IntoResponse, Response};
/// The type of a body that any other can be put into, and its errors.
pub(super) use axum::{Error as BodyError, body::Body};
use futures_util::FutureExt;
use http::StatusCode;
use http::request::Parts;

use super::key::NoValue;
use super::problem::{Problem, problem};
use super::reject::{MISCONFIGURED, MISCONFIGURED_DETAIL, Refusal};
use super::telemetry;
use crate::core::error::LockError;
use crate::core::lock_key::NO_LABEL;
use crate::engine::lease::LeaseHandle;
use crate::engine::lease_set::LeaseSetHandle;

/// The parameters of a request's route.
pub(super) struct RouteParams(RawPathParams);

impl RouteParams {
    pub(super) fn read(parts: &mut Parts) -> Result<Self, NoValue> {
        match RawPathParams::from_request_parts(parts, &()).now_or_never() {
            Some(Ok(params)) => Ok(Self(params)),
            Some(Err(RawPathParamsRejection::InvalidUtf8InPathParam(error))) => {
                Err(NoValue::OfClient(error.body_text()))
            }
            // It never has to wait, so this is a missing route, too.
            Some(Err(_)) | None => Err(NoValue::OffRoute("the layer is not on a route".to_owned())),
        }
    }

    pub(super) fn value(&self, name: &str) -> Result<&str, NoValue> {
        let misplaced = |why| NoValue::OfServer(format!("its route has {why}"));
        let mut values = self.0.iter().filter(|param| param.0 == name);
        match (values.next(), values.next()) {
            (Some((_, value)), None) => Ok(value),
            (None, _) => Err(misplaced(format!("no parameter `{{{name}}}`"))),
            (Some(_), Some(_)) => Err(misplaced(format!("`{{{name}}}` more than once"))),
        }
    }
}

/// The peer, if the app is served with the peers' addresses.
pub(super) fn connected_peer(parts: &mut Parts) -> Option<SocketAddr> {
    let info = ConnectInfo::<SocketAddr>::from_request_parts(parts, &());
    info.now_or_never().and_then(Result::ok).map(|info| info.0)
}

macro_rules! extractor {
    ($(#[$meta:meta])* $handle:ident, $missing:expr) => {
        $(#[$meta])*
        impl<S: Send + Sync> FromRequestParts<S> for $handle {
            type Rejection = NoLease;

            async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NoLease> {
                parts.extensions.get::<Self>().cloned().ok_or(NoLease($missing))
            }
        }

        impl<S: Send + Sync> OptionalFromRequestParts<S> for $handle {
            type Rejection = Infallible;

            async fn from_request_parts(
                parts: &mut Parts,
                _: &S,
            ) -> Result<Option<Self>, Infallible> {
                Ok(parts.extensions.get::<Self>().cloned())
            }
        }
    };
}

extractor! {
    /// The lease that the request runs under. With several layers it is the innermost one's, and with
    /// a layer of several locks that of the last, in the order of their names.
    ///
    /// Take an `Option` of it if a request may pass without a lock.
    LeaseHandle, Missing::Lease
}
extractor! {
    /// The leases that the request runs under, of the innermost layer with several locks.
    ///
    /// Take an `Option` of it if a request may pass without them.
    LeaseSetHandle, Missing::Set
}

/// The built-in response, which the layer would give. What an operator can act on is logged.
impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        telemetry::refused(&self, self.label().unwrap_or(NO_LABEL));
        self.to_response().map(Body::from)
    }
}

/// The response of the layer to the same error, for a handler that acquires a lock itself. It does
/// not name the lock.
impl IntoResponse for LockError {
    fn into_response(self) -> Response {
        let lock = self.label().unwrap_or(NO_LABEL);
        let refusal = Refusal::from(self);
        telemetry::refused(&refusal, lock);
        refusal.to_response().map(Body::from)
    }
}

/// The rejection of a request without a lock whose handler takes a [`LeaseHandle`] or a
/// [`LeaseSetHandle`]: status 500. The log says which, and what to do; the client does not read it.
///
/// # Examples
///
/// ```
/// use axum::extract::FromRequestParts;
/// use leasehold::LeaseHandle;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (mut parts, ()) = http::Request::new(()).into_parts();
/// let lease = <LeaseHandle as FromRequestParts<()>>::from_request_parts(&mut parts, &()).await;
/// println!("{}", lease.unwrap_err()); // says what to do
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NoLease(Missing);

/// What a handler takes, and no layer has set.
#[derive(Clone, Copy, Debug)]
enum Missing {
    Lease,
    Set,
}

impl fmt::Display for NoLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Missing::Lease => {
                "the handler takes a `LeaseHandle`, but this request is under no lock: no `LockLayer` \
                 is on its route, or the layer let it through without one, as `fail_open()` does; take \
                 an `Option<LeaseHandle>` there"
            }
            Missing::Set => {
                "the handler takes a `LeaseSetHandle`, but no `LockLayer::all` is on its route, or the \
                 layer let it through without locks, as `fail_open()` does; take an \
                 `Option<LeaseSetHandle>` there, or a `LeaseHandle` under a layer with one lock"
            }
        })
    }
}

impl std::error::Error for NoLease {}

impl IntoResponse for NoLease {
    fn into_response(self) -> Response {
        tracing::error!("{self}");
        let (kind, title) = MISCONFIGURED;
        let detail = MISCONFIGURED_DETAIL;
        let details = Problem { kind, title, detail, lock: None, retry_after: None };
        problem(StatusCode::INTERNAL_SERVER_ERROR, &details, None).map(Body::from)
    }
}
