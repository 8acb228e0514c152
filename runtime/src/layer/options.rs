//! Options of the layer that change what a request takes, and how long it keeps it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::request::Parts;

use super::answer::OnRefused;
use super::demand::assert_none;
use super::hold::{HoldUntil, OnLost};
use super::lock_layer::LockLayer;
use super::number::MaybeNumber;
use super::reject::Refusal;
use crate::api::lock_options::setters;

impl<K> LockLayer<K> {
    /// Until when a request holds its lock. The default is [`HoldUntil::BodyEnd`].
    ///
    /// With [`HoldUntil::Head`] the lock is released as soon as the handler has returned its
    /// response, which is sent when the lock store has answered. A slow HTTP client then keeps
    /// nobody waiting. Use it
    /// where the handler does all its work before it returns. A body that is streamed later
    /// is made *without* the lock: its [`LeaseHandle`](crate::LeaseHandle) says so, and
    /// `LeaseHandle::current()` is `None` there.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{Request, Response};
    /// use leasehold::layer::HoldUntil;
    /// use leasehold::{LockLayer, Locks};
    /// use tower::{Layer, ServiceExt};
    /// # use std::convert::Infallible;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = Locks::in_memory();
    /// let layer = LockLayer::mutex(&locks, "import").hold_until(HoldUntil::Head);
    /// let service = layer.layer(tower::service_fn(|_: Request<()>| async {
    ///     Ok::<_, Infallible>(Response::new(String::from("a long report")))
    /// }));
    /// let unread = service.oneshot(Request::new(())).await?;
    /// assert!(locks.mutex("import").lock().await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn hold_until(mut self, until: HoldUntil) -> Self {
        self.policy().hold_until = until;
        self
    }

    /// What happens to a handler whose lock is lost. The default is [`OnLost::Cancel`]: it
    /// is dropped at its next `.await`, and the response is 503.
    ///
    /// With [`OnLost::Finish`] it goes on, its response is sent, and the layer logs a
    /// warning. The next holder may run beside it. Use it where stopping halfway is worse
    /// than that. The handler can watch [`lost`](crate::LeaseHandle::lost) and stop at a
    /// point of its choice. The end of [`max_hold`](Self::max_hold) is a loss, too: it then
    /// frees the lock of a stuck handler, and no longer ends the handler.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::layer::OnLost;
    /// use leasehold::{LockLayer, Locks};
    ///
    /// let layer = LockLayer::mutex(&Locks::in_memory(), "import").on_lost(OnLost::Finish);
    /// ```
    #[must_use]
    pub fn on_lost(mut self, then: OnLost) -> Self {
        self.policy().on_lost = then;
        self
    }

    /// The longest time that a handler may take, from its start until it has returned its response. By
    /// default there is none.
    ///
    /// At its end the handler is dropped at its next `.await`, the lock is released, and then the
    /// response is sent: 504, as [`Refusal::TookTooLong`]. So a client that asks again at once finds
    /// the lock free. A time-out of another layer *outside* of this one answers while the lock is still
    /// being released, so the next request may be refused because of it.
    ///
    /// The time includes neither the [`wait`](Self::wait) for the lock nor the response's body, which
    /// [`max_hold`](Self::max_hold) bounds. It holds for requests that pass without a lock, too.
    ///
    /// # Panics
    ///
    /// When the app is built, if the time is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::{LockLayer, Locks};
    ///
    /// let layer = LockLayer::mutex(&Locks::in_memory(), "import")
    ///     .wait(Duration::from_secs(2))
    ///     .timeout(Duration::from_secs(10));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn timeout(mut self, time: Duration) -> Self {
        assert_none(
            time.is_zero().then_some("a `timeout` of 0 stops each handler that has to wait"),
        );
        self.policy().timeout = Some(time);
        self
    }

    /// How many bytes of its body are read while a request waits for its lock, over HTTP/1: by default
    /// 512 KiB. With 0, nothing is read.
    ///
    /// An HTTP/1 server reads a connection no further than somebody reads the request's body. So while
    /// a request waits, the layer reads ahead, and the request leaves the queue when its client closes
    /// the connection. The handler gets all of the body, in order. If the body is longer than this
    /// number, the rest stays with the client until the handler reads it, and a client that goes away
    /// meanwhile is noticed only at the end of the [`wait`](Self::wait).
    ///
    /// A waiting request takes this much memory at most, and one read of the server; all that wait for
    /// one key take [`max_waiters`](Self::max_waiters) times that. Nothing is read ahead for a request
    /// without a body, over HTTP/2, and after `Expect: 100-continue`: that client sends its body once
    /// it has the lock.
    ///
    /// It works for axum's [`Body`](::axum::body::Body), and so in any app of axum. With another type of
    /// body, read it before the layer, up to a limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::{LockLayer, Locks};
    ///
    /// let uploads = LockLayer::mutex(&Locks::in_memory(), "import")
    ///     .wait(Duration::from_secs(5))
    ///     .max_waiters(16)
    ///     .read_ahead(4 * 1024 * 1024); // 64 MiB for those who wait
    /// ```
    #[cfg(feature = "axum")]
    #[cfg_attr(docsrs, doc(cfg(feature = "axum")))]
    #[must_use]
    pub fn read_ahead(mut self, bytes: usize) -> Self {
        self.policy().read_ahead = bytes;
        self
    }

    setters! {
        (policy().given):
        /// What metrics, logs and traces call the locks of this layer, such as `"order"`. By default
        /// it is the layer's template or name; a key that a function makes has no label.
        #[must_use]
        label;
    }

    /// How much of a semaphore's limit a request takes, by a function of its head: from 1 to
    /// all of the limit. By default each request takes 1.
    ///
    /// The function returns a `u32`, an `Option` of one, or a `Result` of either; `None` is 1. A
    /// request is refused with status 400, and never passes without a permit, if the function
    /// returns an error, 0, or more than the limit. So limit what a client may ask for in the function. A heavy request
    /// that waits is not passed by lighter ones behind it.
    ///
    /// # Panics
    ///
    /// When the app is built, if the layer is not a semaphore.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LockLayer, Locks};
    ///
    /// // A request for 20 pages takes 20 of 64 permits. At most half is for one request.
    /// let pages = LockLayer::semaphore(&Locks::in_memory(), "pages", 64).weight_by(|parts| {
    ///     let Some(pages) = parts.headers.get("x-pages") else { return Ok(1) };
    ///     let pages = pages.to_str().map_err(|_| "the header x-pages is not ASCII")?;
    ///     let pages: u32 = pages.parse().map_err(|_| "the header x-pages is no number")?;
    ///     Ok::<_, &str>(pages.min(32))
    /// });
    /// ```
    #[must_use]
    #[track_caller]
    pub fn weight_by<F, T>(mut self, weight: F) -> Self
    where
        F: Fn(&Parts) -> T + Send + Sync + 'static,
        T: MaybeNumber,
    {
        let weight = Arc::new(move |parts: &Parts| weight(parts).maybe_number());
        self.policy().demand.set_weight(weight);
        self
    }

    /// The semaphore's limit for a request, by a function of its head: of its plan, its tenant or its
    /// model, say. By default it is the layer's limit for each request.
    ///
    /// The function returns a `u32` from 1 up, an `Option` of one, or a `Result` of either; `None`
    /// is the layer's limit. A request is refused with status 400, and never passes without a permit,
    /// if the function returns an error or 0.
    ///
    /// The limit holds for all requests with the same key. If they disagree on it, as while a deploy
    /// changes it, each is checked by its own limit alone: it gets in if what all others hold leaves
    /// room below that. So a lowered limit stops no request that is in, and lets others in once
    /// enough have left.
    ///
    /// # Panics
    ///
    /// When the app is built, if the layer is not a semaphore.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::layer::template_key;
    /// use leasehold::{LockLayer, Locks};
    ///
    /// #[derive(Clone)]
    /// struct Plan { at_a_time: u32 } // put there by the layer that authenticates
    ///
    /// // 2 requests of a tenant at a time, or as many as its plan says.
    /// let of_tenant = template_key("tenant:{header:x-tenant}");
    /// let limit = LockLayer::semaphore(&Locks::in_memory(), of_tenant, 2)
    ///     .limit_by(|parts| parts.extensions.get::<Plan>().map(|plan| plan.at_a_time));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn limit_by<F, T>(mut self, limit: F) -> Self
    where
        F: Fn(&Parts) -> T + Send + Sync + 'static,
        T: MaybeNumber,
    {
        let limit = Arc::new(move |parts: &Parts| limit(parts).maybe_number());
        self.policy().demand.set_limit(limit);
        self
    }

    /// The owner of a request's lease, by a function of its head, which
    /// [`Locks::inspect`](crate::Locks::inspect) shows: 1 to 128 bytes without control
    /// characters. By default, and where the function returns `None`, there is none.
    ///
    /// Another name is answered with status 400. Under a read-write lock, a request that reads
    /// also gets in beside a writer of the same owner; and one that writes gets in beside reads of its
    /// own owner, if nobody else reads and the layer has no [`wait`](Self::wait), and is otherwise
    /// refused with status 409. So let the owner be a name that you have authenticated, and never
    /// what a client chooses.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LockLayer, Locks};
    ///
    /// #[derive(Clone)]
    /// struct User(String); // put there by the layer that authenticates
    ///
    /// let import = LockLayer::mutex(&Locks::in_memory(), "import")
    ///     .owner_by(|parts| parts.extensions.get::<User>().map(|user| user.0.clone()))
    ///     .note_by(|parts| Some(format!("{} {}", parts.method, parts.uri.path())));
    /// ```
    #[must_use]
    pub fn owner_by<F>(mut self, owner: F) -> Self
    where
        F: Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    {
        self.policy().identify.owner = Some(Arc::new(owner));
        self
    }

    /// A text for people, by a function of the request's head, which
    /// [`Locks::inspect`](crate::Locks::inspect) shows with the holder or the waiter: a request's
    /// id, or why. By default, and where the function returns `None`, there is none.
    ///
    /// No text is refused: its first 200 bytes are kept, and control characters become spaces.
    /// Who may read the store can read it.
    #[must_use]
    pub fn note_by<F>(mut self, note: F) -> Self
    where
        F: Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    {
        self.policy().identify.note = Some(Arc::new(note));
        self
    }

    /// Answers refused requests with an async function of your own, which gets the refusal and the
    /// head of the request: its method, URI, headers and extensions.
    ///
    /// For the cases that should stay as they are, return [`Refusal::to_response`]. Each request
    /// calls a clone of the function, so an `async move` closure may use what it has captured, such
    /// as a pool of connections to a database. Calls of gRPC keep their statuses: the function is
    /// not asked.
    ///
    /// The request holds no lock, nor a place among the waiters, while the function runs. The layer
    /// limits neither how long that takes nor how many run at a time. In an outage of the lock store
    /// each request is refused, so do not ask another system for each [`Refusal::Unavailable`]
    /// without a limit. If the HTTP client disconnects, the function's future is dropped. To notice that
    /// over HTTP/1, the layer reads axum's body meanwhile, and throws it away.
    ///
    /// A request that loses its lock or takes too long is refused when the inner service has its head.
    /// So a layer with this function copies the head of each request that gets its lock, unless it has
    /// [`OnLost::Finish`] and no [`timeout`](Self::timeout).
    ///
    /// # Examples
    ///
    /// ```
    /// use http::StatusCode;
    /// use leasehold::layer::Refusal;
    /// use leasehold::{LockLayer, Locks};
    ///
    /// let layer = LockLayer::mutex(&Locks::in_memory(), "import").on_refused(
    ///     async |refusal, parts| {
    ///         let mut response = refusal.to_response();
    ///         if matches!(refusal, Refusal::Held(_)) && parts.uri.path() == "/import" {
    ///             *response.status_mut() = StatusCode::LOCKED;
    ///         }
    ///         response
    ///     },
    /// );
    /// ```
    #[must_use]
    pub fn on_refused<F, Fut, D>(mut self, answer: F) -> Self
    where
        F: FnOnce(Refusal, Parts) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Response<D>> + Send,
        D: Into<Bytes>,
    {
        self.policy().on_refused = Some(OnRefused::new(answer));
        self
    }
}
