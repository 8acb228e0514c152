//! The service that the layer makes.

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
use super::key::RequestKey;
use super::policy::Policy;
use super::reject::Refusal;
use crate::core::key::LockKey;

/// The service that a [`LockLayer`](super::LockLayer) makes: each request runs under a
/// lock.
///
/// # Examples
///
/// ```
/// use leasehold::tower::LockService;
/// use leasehold::{LockLayer, Locks};
/// use tower::Layer;
///
/// fn one_at_a_time<S>(locks: &Locks, inner: S) -> LockService<S, &'static str> {
///     LockLayer::mutex(locks, "import").layer(inner)
/// }
/// ```
pub struct LockService<S, K> {
    inner: S,
    key: Arc<K>,
    policy: Arc<Policy>,
}

impl<S, K> LockService<S, K> {
    pub(super) fn new(inner: S, key: Arc<K>, policy: Arc<Policy>) -> Self {
        Self { inner, key, policy }
    }
}

impl<S, K, A, B> Service<Request<A>> for LockService<S, K>
where
    S: Service<Request<A>, Response = Response<B>> + Clone,
    K: RequestKey,
    B: Body,
    B::Data: From<Bytes>,
{
    type Response = Response<LeaseBody<B>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, A>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let is_grpc = is_grpc(request.headers());
        let (asked, request) = if let Some(name) = self.policy.fixed() {
            (Ok(Some((name.clone(), 1))), request)
        } else {
            let (mut parts, body) = request.into_parts();
            (self.asked(&mut parts), Request::from_parts(parts, body))
        };
        let policy = self.policy.clone();
        // The key is known only now, so the lock is acquired in the future and
        // not in `poll_ready`.
        match asked {
            Ok(Some((key, weight))) => {
                let lock = policy.lock(key.clone(), weight, request.method());
                if let Some(lease) = lock.take_idle() {
                    return ResponseFuture::under_idle(
                        policy,
                        is_grpc,
                        lease,
                        &mut self.inner,
                        request,
                    );
                }
                let acquire = policy.acquire(lock, &key);
                ResponseFuture::locked(policy, is_grpc, acquire, self.take_ready(), request)
            }
            Ok(None) => ResponseFuture::unlocked(policy, is_grpc, self.inner.call(request)),
            Err(refusal) => {
                // The inner service gives back what it reserved when it became ready.
                drop(self.take_ready());
                ResponseFuture::refused(policy, is_grpc, refusal)
            }
        }
    }
}

impl<S, K: RequestKey> LockService<S, K> {
    /// The lock that a request needs, and how much of it.
    fn asked(&self, parts: &mut Parts) -> Result<Option<(LockKey, u32)>, Refusal> {
        let Some(key) = self.key.lock_key(parts).map_err(Refusal::NoKey)? else {
            return Ok(None);
        };
        let weight = self.policy.weight(parts).map_err(Refusal::NoWeight)?;
        Ok(Some((key, weight)))
    }
}

impl<S: Clone, K> LockService<S, K> {
    /// Takes the service that was made ready. A clone takes its place, and must be made
    /// ready again.
    fn take_ready(&mut self) -> S {
        let clone = self.inner.clone();
        mem::replace(&mut self.inner, clone)
    }
}

impl<S: Clone, K> Clone for LockService<S, K> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), key: self.key.clone(), policy: self.policy.clone() }
    }
}

impl<S: fmt::Debug, K: fmt::Debug> fmt::Debug for LockService<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockService")
            .field("inner", &self.inner)
            .field("key", &self.key)
            .field("policy", &self.policy)
            .finish()
    }
}
