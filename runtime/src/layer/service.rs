//! The service that the layer makes.

use std::borrow::Cow;
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use tower::Service;

use super::body::LeaseBody;
use super::future::ResponseFuture;
use super::grpc::is_grpc;
use super::held::Held;
use super::key::RequestKey;
use super::policy::Policy;
use super::reject::Refusal;
use super::request_lock::{RequestLock, Share};

/// The service that a [`LockLayer`](super::LockLayer) makes: each request runs under a
/// lock.
///
/// # Examples
///
/// ```
/// use leasehold::layer::LockService;
/// use leasehold::{LockLayer, Locks};
/// use tower::Layer;
///
/// fn one_at_a_time<S>(locks: &Locks, inner: S) -> LockService<S, &'static str> {
///     LockLayer::mutex(locks, "import").layer(inner)
/// }
/// ```
pub struct LockService<S, K> {
    inner: S,
    /// One part, because axum clones the service for each request.
    settings: Arc<Settings<K>>,
}

/// What the layer says.
#[derive(Debug)]
struct Settings<K> {
    key: Arc<K>,
    policy: Arc<Policy>,
}

impl<S, K> LockService<S, K> {
    pub(super) fn new(inner: S, key: Arc<K>, policy: Arc<Policy>) -> Self {
        Self { inner, settings: Arc::new(Settings { key, policy }) }
    }
}

impl<S, K, A, B> Service<Request<A>> for LockService<S, K>
where
    S: Service<Request<A>, Response = Response<B>> + Clone,
    K: RequestKey,
    A: 'static,
    B: Body,
    B::Data: From<Bytes>,
{
    type Response = Response<LeaseBody<B>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, A, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let Self { inner, settings } = self;
        let Settings { key, policy } = &**settings;
        let is_grpc = is_grpc(request.headers());
        if let Some(lock) = policy.fixed() {
            return call_under(inner, policy, is_grpc, Cow::Borrowed(lock), 1, request);
        }
        let (mut parts, body) = request.into_parts();
        let asked = asked(&**key, policy, &mut parts);
        let request = Request::from_parts(parts, body);
        match asked {
            Ok(Some((lock, weight))) => {
                let lock = Cow::Owned(lock);
                call_under(inner, policy, is_grpc, lock, weight, request)
            }
            Ok(None) => ResponseFuture::unlocked(policy.clone(), is_grpc, inner.call(request)),
            Err(refusal) => {
                // The inner service gives back what it reserved when it became ready.
                drop(take_ready(inner));
                ResponseFuture::refused(policy.clone(), is_grpc, refusal, request)
            }
        }
    }
}

/// The lock that a request needs, and how much of it.
fn asked<K: RequestKey>(
    key: &K,
    policy: &Policy,
    parts: &mut Parts,
) -> Result<Option<(RequestLock, u32)>, Refusal> {
    if let Some(set) = &policy.set {
        return Ok(policy.set(set, parts)?.map(|locks| (locks, 1)));
    }
    let Some(key) = key.lock_key(parts).map_err(Refusal::NoKey)? else {
        return Ok(None);
    };
    let (kind, weight) = policy.demand.of(parts)?;
    Ok(Some((policy.lock(key, kind, policy.identify.read(parts)), weight)))
}

/// Calls a service under a lock.
fn call_under<S, A, B>(
    inner: &mut S,
    policy: &Arc<Policy>,
    is_grpc: bool,
    lock: Cow<'_, RequestLock>,
    weight: u32,
    request: Request<A>,
) -> ResponseFuture<S, A, B>
where
    S: Service<Request<A>> + Clone,
    A: 'static,
    B: Body,
{
    let policy = policy.clone();
    let share = Share::new(weight, request.method());
    if let Some(lease) = lock.take_idle(share) {
        return ResponseFuture::under_idle(policy, is_grpc, Held::One(lease), inner, request);
    }
    if policy.passes(&lock, share) {
        return ResponseFuture::unlocked(policy, is_grpc, inner.call(request));
    }
    // The key is known only now, so the lock is acquired in the future and not in
    // `poll_ready`.
    let label = lock.key.log_label();
    let acquire = policy.acquire(lock.into_owned(), share);
    ResponseFuture::locked(policy, is_grpc, (label, acquire), take_ready(inner), request)
}

/// Takes the service that was made ready. A clone takes its place, and must be made ready
/// again.
fn take_ready<S: Clone>(inner: &mut S) -> S {
    let clone = inner.clone();
    mem::replace(inner, clone)
}

impl<S: Clone, K> Clone for LockService<S, K> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), settings: self.settings.clone() }
    }
}

impl<S: fmt::Debug, K: fmt::Debug> fmt::Debug for LockService<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockService")
            .field("inner", &self.inner)
            .field("settings", &self.settings)
            .finish()
    }
}
