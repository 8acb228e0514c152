//! The layer and its options.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Response};
use tower::Layer;

use super::body::LeaseBody;
use super::key::RequestKey;
use super::reject::Refusal;
use super::service::LockService;
use crate::error::Quiet;
use crate::{
    Counting, IntoLockKey, Lease, LockError, LockKey, Locking, Locks, Mutex, RwLock, Semaphore,
    Wait,
};

/// Longer than a request takes that is not stuck.
const MAX_HOLD: Duration = Duration::from_secs(10 * 60);

/// Handles each request under the lock that its key names, or refuses it.
///
/// See the [module](super) for what is answered when, for how long the lock is
/// held, and where among other layers it belongs.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use http::StatusCode;
/// use leasehold::tower::Refusal;
/// use leasehold::{LockLayer, Locks};
///
/// let locks = Locks::in_memory();
///
/// let layer = LockLayer::mutex(&locks, "import")
///     .ttl(Duration::from_secs(10))
///     .wait(Duration::from_secs(2))
///     .on_refused(|refusal| {
///         let mut response = refusal.to_response();
///         if matches!(refusal, Refusal::Held(_)) {
///             *response.status_mut() = StatusCode::LOCKED;
///         }
///         response
///     });
/// ```
pub struct LockLayer<K> {
    key: Arc<K>,
    policy: Policy,
}

impl<K: RequestKey + 'static> LockLayer<K> {
    /// One request at a time for each key: others are refused with status 409.
    ///
    /// # Panics
    ///
    /// If the key is a plain string that looks like a template, such as
    /// `"order:{id}"`, which would be one lock for all orders: when the app is
    /// built. `path_key` makes a key of a template.
    pub fn mutex(locks: &impl Locking, key: K) -> Self {
        Self::new(locks.locks(), key, Kind::Mutex)
    }

    /// At most `limit` requests at a time for each key: others are refused
    /// with status 429.
    ///
    /// # Panics
    ///
    /// As of [`mutex`](Self::mutex).
    pub fn semaphore(locks: &impl Counting, key: K, limit: u32) -> Self {
        Self::new(locks.locks(), key, Kind::Semaphore { limit })
    }

    /// For each key, requests that read together, or one that writes: others are
    /// refused with status 409.
    ///
    /// The methods that HTTP calls safe read: GET, HEAD, OPTIONS and TRACE. All
    /// others write, unknown ones too. So a handler of a GET must change nothing; if
    /// it does, [`mutex`](Self::mutex) is the layer for its route. A browser's
    /// preflight is an OPTIONS: answer it outside of this layer, or a writer has it
    /// refused.
    ///
    /// The [`LeaseHandle`](crate::LeaseHandle) of a request that reads has no
    /// fencing token.
    ///
    /// # Panics
    ///
    /// As of [`mutex`](Self::mutex).
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{Request, Response, StatusCode};
    /// use leasehold::{LockLayer, Locks};
    /// use tower::{Layer, ServiceExt};
    /// # use std::convert::Infallible;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = Locks::in_memory();
    /// let catalogue = LockLayer::rw_lock(&locks, "catalogue");
    /// let service = catalogue.layer(tower::service_fn(|_: Request<()>| async {
    ///     Ok::<_, Infallible>(Response::new(String::new()))
    /// }));
    ///
    /// let reader = locks.rw_lock("catalogue").read().await?;
    /// let response = service.clone().oneshot(Request::get("/").body(())?).await?;
    /// assert_eq!(response.status(), StatusCode::OK);
    /// let response = service.oneshot(Request::put("/").body(())?).await?;
    /// assert_eq!(response.status(), StatusCode::CONFLICT);
    /// # Ok(())
    /// # }
    /// ```
    pub fn rw_lock(locks: &impl Locking, key: K) -> Self {
        Self::new(locks.locks(), key, Kind::RwLock)
    }

    fn new(locks: &Locks, key: K, kind: Kind) -> Self {
        let name = <dyn Any>::downcast_ref::<&'static str>(&key);
        if let Some(name) = name {
            let is_template = LockKey::new(name).is_ok() && name.into_lock_key().is_err();
            assert!(
                !is_template,
                "the key {name:?} is one lock for all requests: write `path_key({name:?})` (with \
                 the feature `axum`) or `key_by(…)` for one lock each"
            );
        }
        let policy = Policy {
            locks: locks.clone(),
            name: name.and_then(|name| LockKey::new(name).ok()),
            kind,
            ttl: None,
            wait: Wait::For(Duration::ZERO),
            max_hold: Some(MAX_HOLD),
            fails_open: false,
            on_refused: None,
        };
        Self { key: Arc::new(key), policy }
    }
}

impl<K> LockLayer<K> {
    /// How long a lease lasts unless it is renewed, which it is every third of
    /// this: 100 ms to 24 h, by default 30 s. A server that dies keeps the lock
    /// for at most this long; requests are not bounded by it, but by
    /// [`max_hold`](Self::max_hold).
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.policy.ttl = Some(ttl);
        self
    }

    /// How long a request waits for its lock: a duration, or
    /// [`Wait::Forever`]. By default 0: it is refused at once.
    ///
    /// Requests that wait queue up in this server, each with its connection
    /// and its memory. A client that goes away stops waiting.
    #[must_use]
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.policy.wait = wait.into();
        self
    }

    /// For how long a request holds its lock at most: 100 ms to 30 days, by default 10
    /// minutes; `None` is without end.
    ///
    /// Counted from the grant, and over all of the response's body. At its end the lock
    /// is lost, and free for others: a handler that still runs is dropped, and answered
    /// for with status 503; a body that is still being sent goes on without the lock, so
    /// that a semaphore does not count it any more. Where requests are to take longer,
    /// or streams are to be counted to their end, choose a longer time, or none.
    #[must_use]
    pub fn max_hold(mut self, most: impl Into<Option<Duration>>) -> Self {
        self.policy.max_hold = most.into();
        self
    }

    /// Lets requests pass *without a lock*, with a warning, when the lock
    /// store fails. By default they are refused with status 503.
    ///
    /// For limits that protect a server, where serving matters more than the
    /// limit; never for a lock that protects data. A store that fails is asked
    /// again for a second before a request passes. One that passed has no
    /// [`LeaseHandle`](crate::LeaseHandle).
    #[must_use]
    pub fn fail_open(mut self) -> Self {
        self.policy.fails_open = true;
        self
    }

    /// Answers refused requests with a function of your own.
    ///
    /// [`Refusal::to_response`] is the built-in answer, for the cases that are
    /// to stay as they are.
    #[must_use]
    pub fn on_refused<F, D>(mut self, answer: F) -> Self
    where
        F: Fn(&Refusal) -> Response<D> + Send + Sync + 'static,
        D: Into<Bytes>,
    {
        self.policy.on_refused = Some(Arc::new(move |refusal| answer(refusal).map(Into::into)));
        self
    }
}

impl<S, K> Layer<S> for LockLayer<K> {
    type Service = LockService<S, K>;

    fn layer(&self, inner: S) -> Self::Service {
        LockService::new(inner, self.key.clone(), Arc::new(self.policy.clone()))
    }
}

impl<K> Clone for LockLayer<K> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), policy: self.policy.clone() }
    }
}

impl<K: fmt::Debug> fmt::Debug for LockLayer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, policy } = self;
        f.debug_struct("LockLayer").field("key", key).field("policy", policy).finish()
    }
}

/// An acquisition under way.
pub(super) type Acquire = Pin<Box<dyn Future<Output = Result<Lease, LockError>> + Send>>;

type OnRefused = Arc<dyn Fn(&Refusal) -> Response<Bytes> + Send + Sync>;

/// Which kind of lock a layer takes.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Mutex,
    Semaphore { limit: u32 },
    RwLock,
}

/// All of a layer's options but the key.
#[derive(Clone)]
pub(super) struct Policy {
    locks: Locks,
    /// The key's, if that is one plain name: it is the same for all requests.
    pub(super) name: Option<LockKey>,
    kind: Kind,
    ttl: Option<Duration>,
    wait: Wait,
    max_hold: Option<Duration>,
    fails_open: bool,
    on_refused: Option<OnRefused>,
}

impl Policy {
    pub(super) fn acquire(&self, key: LockKey, method: &Method) -> Acquire {
        match self.kind {
            Kind::Mutex => {
                let mutex = self.locks.mutex(key).wait(self.wait).max_hold(self.max_hold);
                let mutex = self.ttl.into_iter().fold(mutex, Mutex::ttl);
                Box::pin(async move { mutex.lock().await })
            }
            Kind::Semaphore { limit } => {
                let semaphore = self.locks.semaphore(key, limit);
                let semaphore = semaphore.wait(self.wait).max_hold(self.max_hold);
                let semaphore = self.ttl.into_iter().fold(semaphore, Semaphore::ttl);
                Box::pin(async move { semaphore.acquire().await })
            }
            Kind::RwLock => {
                let lock = self.locks.rw_lock(key).wait(self.wait).max_hold(self.max_hold);
                let lock = self.ttl.into_iter().fold(lock, RwLock::ttl);
                if method.is_safe() {
                    Box::pin(async move { lock.read().await })
                } else {
                    Box::pin(async move { lock.write().await })
                }
            }
        }
    }

    /// Nothing, if the request passes without a lock.
    ///
    /// # Errors
    ///
    /// The refusal, if it does not.
    pub(super) fn judge(&self, error: LockError) -> Result<(), Refusal> {
        match Refusal::of(error, matches!(self.kind, Kind::Semaphore { .. })) {
            Refusal::Unavailable(error) if self.fails_open => {
                tracing::warn!(
                    error = %Quiet(&error),
                    "a request passes without its lock: the lock store failed"
                );
                Ok(())
            }
            refusal => Err(refusal),
        }
    }

    /// The answer to a refused request.
    pub(super) fn answer<B>(&self, refusal: &Refusal) -> Response<LeaseBody<B>> {
        refusal.log();
        let response = match &self.on_refused {
            Some(answer) => answer(refusal),
            None => refusal.to_response(),
        };
        response.map(LeaseBody::refusal)
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("locks", &self.locks)
            .field("kind", &self.kind)
            .field("ttl", &self.ttl)
            .field("wait", &self.wait)
            .field("max_hold", &self.max_hold)
            .field("fails_open", &self.fails_open)
            .finish_non_exhaustive()
    }
}
