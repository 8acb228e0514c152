//! The layer and its options.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tower::Layer;

use super::demand::Demand;
use super::hold::{HoldUntil, OnLost};
use super::identity::Identify;
use super::key::RequestKey;
use super::outage::Outage;
use super::policy::Policy;
use super::request_lock::LayerKind;
use super::service::LockService;
use super::template_key::plain_name;
use super::upgrade::Warned;
use super::waiters::Waiters;
use crate::api::lock_client::{LockClient, SemaphoreClient};
use crate::api::lock_options::{LockOptions, setters};
use crate::api::locks::Locks;
use crate::core::key::LockKey;
use crate::core::options::Options;

/// Longer than any request takes that is not stuck.
const MAX_HOLD: Duration = Duration::from_secs(10 * 60);

/// A quarter of what axum's extractors take into memory, and about what an HTTP/1 server may hold
/// of a connection anyway.
const READ_AHEAD: usize = 512 * 1024;

/// A Tower layer that runs each request under the lock that its key names, or refuses it.
///
/// See the [module](super) for the refusals, for how long the lock is held, and for the
/// layer's place among others.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use http::StatusCode;
/// use leasehold::layer::Refusal;
/// use leasehold::{LockLayer, Locks};
///
/// let locks = Locks::in_memory();
///
/// let layer = LockLayer::mutex(&locks, "import")
///     .ttl(Duration::from_secs(10))
///     .wait(Duration::from_secs(2))
///     .on_refused(async |refusal, _| {
///         let mut response = refusal.to_response();
///         if matches!(refusal, Refusal::Held(_)) {
///             *response.status_mut() = StatusCode::LOCKED;
///         }
///         response
///     });
/// ```
pub struct LockLayer<K> {
    key: Arc<K>,
    pub(super) policy: Arc<Policy>,
}

impl<K: RequestKey + 'static> LockLayer<K> {
    /// A layer with a mutex: one request at a time for each key. Others are refused with
    /// status 409.
    ///
    /// # Panics
    ///
    /// When the app is built, if the key is a string literal that looks like a template, such
    /// as `"order:{id}"`. It would be one lock for all orders. `path_key` and
    /// [`template_key`](super::template_key) make keys from a template. Also if an option is out of
    /// its range, or excludes another one: every request would be refused.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::layer::key_by;
    /// use leasehold::{LockLayer, Locks};
    ///
    /// let locks = Locks::in_memory();
    /// let one_at_a_time = LockLayer::mutex(&locks, "import");
    /// let one_for_each_path =
    ///     LockLayer::mutex(&locks, key_by(|parts| Some(parts.uri.path().to_owned())));
    /// ```
    #[track_caller]
    pub fn mutex(locks: &impl LockClient, key: K) -> Self {
        Self::new(locks.locks(), key, LayerKind::Mutex)
    }

    /// A layer with a semaphore: at most `limit` requests at a time for each key, from 1
    /// up. Others are refused with status 429.
    ///
    /// # Panics
    ///
    /// When the app is built, if the key is a string literal that looks like a template, if an option is
    /// out of its range, or if a limit is 0, as in [`mutex`](Self::mutex).
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LockLayer, Locks};
    ///
    /// let four_at_a_time = LockLayer::semaphore(&Locks::in_memory(), "reports", 4);
    /// ```
    #[track_caller]
    pub fn semaphore(locks: &impl SemaphoreClient, key: K, limit: u32) -> Self {
        Self::new(locks.locks(), key, LayerKind::Semaphore { limit })
    }

    /// A layer with a read-write lock: for each key, many requests that read, or one that
    /// writes. Others are refused with status 409.
    ///
    /// The methods that HTTP calls safe read: GET, HEAD, OPTIONS and TRACE. All others
    /// write, including unknown ones. So a handler of a GET must change nothing; if it does,
    /// use [`mutex`](Self::mutex) for its route. A browser's preflight is an OPTIONS
    /// request. Answer it outside of this layer, or it is refused while a writer holds the
    /// lock.
    ///
    /// The [`LeaseHandle`](crate::LeaseHandle) of a request that reads has no fencing
    /// token.
    ///
    /// # Panics
    ///
    /// When the app is built, if the key is a string literal that looks like a template, if an option is
    /// out of its range, or if a limit is 0, as in [`mutex`](Self::mutex).
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
    #[track_caller]
    pub fn rw_lock(locks: &impl LockClient, key: K) -> Self {
        Self::new(locks.locks(), key, LayerKind::RwLock)
    }

    #[track_caller]
    fn new(locks: &Locks, key: K, kind: LayerKind) -> Self {
        let name = plain_name(&key);
        let mut layer = Self::of(locks, key, kind);
        let policy = layer.policy();
        policy.name = name.and_then(|name| LockKey::new(name).ok());
        policy.given.label = name;
        layer
    }
}

impl<K> LockLayer<K> {
    #[track_caller]
    pub(super) fn of(locks: &Locks, key: K, kind: LayerKind) -> Self {
        let max_hold = Some(MAX_HOLD);
        let options = Options { max_hold, ..Options::default().at_once() };
        let policy = Policy {
            locks: locks.clone(),
            name: None,
            demand: Demand::new(kind),
            set: None,
            given: LockOptions { options, ..LockOptions::default() },
            max_waiters: None,
            read_ahead: READ_AHEAD,
            timeout: None,
            waiters: Waiters::default(),
            hold_until: HoldUntil::default(),
            on_lost: OnLost::default(),
            warned: Warned::default(),
            identify: Identify::default(),
            fails_open: false,
            outage: Outage::default(),
            on_refused: None,
            fixed: OnceLock::new(),
        };
        Self { key: Arc::new(key), policy: Arc::new(policy) }
    }

    /// The options, to change one.
    pub(super) fn policy(&mut self) -> &mut Policy {
        let policy = Arc::make_mut(&mut self.policy);
        policy.fixed.take();
        policy
    }

    setters! {
        (checked policy().given):
        /// How long a lease lasts without a renewal: 100 ms to 24 h, by default 30 s. The
        /// client renews it every third of this time.
        ///
        /// If the process dies, its locks are free after this time. The TTL does not limit how
        /// long a request may run; [`max_hold`](Self::max_hold) does.
        #[must_use]
        ttl;
        /// How long a request waits for its lock: a duration, or [`Wait::Forever`](crate::Wait::Forever). The default
        /// is 0: it is refused at once.
        ///
        /// Each waiting request keeps a connection and memory of this process.
        /// [`max_waiters`](Self::max_waiters) limits their number. When an HTTP client
        /// disconnects, its request stops waiting, once the server has noticed it. Over HTTP/1 that
        /// needs somebody who reads the request's body. With axum the layer does so, up to
        /// 512 KiB or what `read_ahead` says; with another type of body, read it before the layer.
        #[must_use]
        wait;
        /// The longest time that a request holds its lock: 100 ms to 30 days, by default 10
        /// minutes. `None` means no limit.
        ///
        /// It counts from the grant, and includes the response's body. At its end the lock is
        /// lost, and free for others. A handler that still runs is dropped, and the response is
        /// 503. A body that is still being sent goes on without the lock, so a semaphore no
        /// longer counts it. For slower requests, or to count streams until their end, set a
        /// longer time or `None`.
        #[must_use]
        max_hold;
        /// How long a released lock stays with this process, idle, after its last request. Off by
        /// default; at most 1 h.
        ///
        /// The next request here has it without a command to the lock store, until another process
        /// wants it. For a limit that is seldom reached, the layer then costs about as much as a
        /// local one. If the process dies, its idle locks stay held for the rest of their TTL. On a
        /// quorum or a pool of your own it has no effect.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        /// use leasehold::LockLayer;
        ///
        /// let locks = leasehold::Locks::in_memory();
        /// let limit = LockLayer::semaphore(&locks, "reports", 64).linger(Duration::from_secs(2));
        /// # let _ = limit;
        /// ```
        #[must_use]
        linger;
    }

    /// How many requests of one key may wait in this process. The default is 256, and for a
    /// semaphore its limit plus 256.
    ///
    /// The next request is refused at once, with `Retry-After: 1`: with status 429 by a
    /// semaphore, with 503 by the others. With 0 no request waits, as with a
    /// [`wait`](Self::wait) of 0. Without a `wait` the number has no effect.
    ///
    /// A request counts until it has its lock, is refused, or its HTTP client disconnects and the server
    /// [notices it](Self::wait).
    /// Over Redis that includes the round trip that acquires a free lock, so a small number
    /// also limits how many requests acquire at the same time. Requests that wait for a
    /// failing store count too. Above the limit they are refused even with
    /// [`fail_open`](Self::fail_open).
    ///
    /// This layer and its clones count together. Other layers and other processes have
    /// counts of their own.
    #[must_use]
    pub fn max_waiters(mut self, most: usize) -> Self {
        self.policy().max_waiters = Some(most);
        self
    }

    /// Lets requests pass *without a lock*, with a warning, if the lock store fails. By
    /// default they are refused with status 503.
    ///
    /// Use it for limits that protect your service from load, if serving matters more than
    /// the limit. Never use it for a lock that protects data. A request that passes gets no
    /// [`LeaseHandle`](crate::LeaseHandle) of this layer; that of an outer layer stays.
    ///
    /// Before the first request passes, the layer retries for one second or for
    /// [`wait`](Self::wait), whichever is longer; on a quorum for `wait` only. If the store can't
    /// be reached, the layer and its clones remember that: later requests pass at once. One of
    /// them at a time has the store looked at in the background, after 1 s, and then less often,
    /// up to every 4 s. Once the store answers, one request asks for its lock; if it is not refused
    /// for a full store or the like, requests need their lock again. What nobody has asked about for
    /// 10 s is forgotten. On a cluster this goes for each lock alone. A store that refuses for good,
    /// as for a right that is lacking, is asked by each request.
    #[must_use]
    pub fn fail_open(mut self) -> Self {
        self.policy().fails_open = true;
        self
    }
}

impl<S, K> Layer<S> for LockLayer<K> {
    type Service = LockService<S, K>;

    fn layer(&self, inner: S) -> Self::Service {
        LockService::new(inner, self.key.clone(), self.policy.clone())
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
