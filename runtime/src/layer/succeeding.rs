//! Options of the layer for requests that are to succeed once.

use super::lock_layer::LockLayer;
use super::policy::Policy;
use super::request_lock::LayerKind;
#[cfg(not(feature = "calendar"))]
use crate::api::absent::absent;
use crate::api::lock_options::setters;

impl<K> LockLayer<K> {
    setters! {
        (checked policy_of_mutex("once").given):
        /// Lets a request succeed once for each key: after a success, requests with the same key
        /// are refused for this long, with status 409 ([`Refusal::Done`](super::Refusal::Done)).
        /// 100 ms to 366 days; by default they are never refused for that.
        ///
        /// With a key from a header, as `Idempotency-Key`, a client may send its request again
        /// without harm. A response with a status below 400 is a success, once its body has ended;
        /// with [`HoldUntil::Head`](super::HoldUntil::Head), once its head is there. A gRPC status other than 0 is none. A
        /// request that fails, panics, loses its lock or is dropped leaves the key to the next.
        /// `LockError::Done` in the refusal says when the work succeeded. To answer with the first
        /// response, look that up in [`on_refused`](Self::on_refused): the guide's page on
        /// [idempotency](crate::guide::idempotency) shows how, without `once`. If what the work has
        /// written is lost, [`Locks::run_again`](crate::Locks::run_again) ends the refusals. On a quorum it can't be used:
        /// requests are answered with 500.
        ///
        /// # Panics
        ///
        /// When the app is built, if the layer is not a mutex.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        /// use leasehold::layer::template_key;
        /// use leasehold::{LockLayer, Locks};
        ///
        /// // A request whose header is missing or unusable is refused.
        /// let by_header = template_key("payment:{header:idempotency-key}");
        /// let payments = LockLayer::mutex(&Locks::in_memory(), by_header)
        ///     .once(Duration::from_secs(24 * 60 * 60));
        /// ```
        #[must_use]
        once;
    }

    setters! {
        (checked policy_of_mutex("once_per").given):
        /// Lets a request succeed once for each key in each period of the server's clock: after a
        /// success, requests with the same key are refused until the next period begins, with
        /// status 409 ([`Refusal::Done`](super::Refusal::Done)). 100 ms to 366 days; by default
        /// they are never refused for that.
        ///
        /// For a route that a scheduler calls on all servers. What a success is,
        /// [`once`](Self::once) says; do not set both. [`Mutex::once_per`](crate::Mutex::once_per)
        /// says when periods begin, and [`offset`](Self::offset) shifts them. With a
        /// [`wait`](Self::wait), a request whose period is done waits for the next one if that
        /// begins soon enough.
        ///
        /// # Panics
        ///
        /// When the app is built, if the layer is not a mutex.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        /// use leasehold::{LockLayer, Locks};
        ///
        /// let nightly = LockLayer::mutex(&Locks::in_memory(), "nightly")
        ///     .once_per(Duration::from_secs(24 * 60 * 60))
        ///     .offset(Duration::from_secs(3 * 60 * 60)); // from 03:00 UTC
        /// ```
        #[must_use]
        once_per;
    }

    setters! {
        (checked policy_of_mutex("offset").given):
        /// Shifts the periods of [`once_per`](Self::once_per), which comes before it: one begins this
        /// long after the Unix epoch, or of whole weeks after Monday, 5 January 1970. The default
        /// is 0.
        ///
        /// # Panics
        ///
        /// When the app is built, if the layer is not a mutex, or has no `once_per` yet.
        #[must_use]
        offset;
    }

    #[cfg(feature = "calendar")]
    setters! {
        (checked policy_of_mutex("schedule").given):
        /// Lets a request succeed once for each key in each tick of a calendar, such as
        /// `"daily in Europe/Berlin"`. Otherwise as [`once_per`](Self::once_per).
        /// [`Mutex::schedule`](crate::Mutex::schedule) says what a schedule is.
        ///
        /// # Panics
        ///
        /// When the app is built, if the layer is not a mutex, or if the text is no schedule.
        #[cfg_attr(docsrs, doc(cfg(feature = "calendar")))]
        #[must_use]
        schedule;
    }

    #[cfg(not(feature = "calendar"))]
    absent! { Calendar: schedule<T>(self, _: T) -> Self; }

    /// The options, to change one of those that only mutexes have.
    #[track_caller]
    fn policy_of_mutex(&mut self, option: &str) -> &mut Policy {
        let is_mutex = matches!(self.policy.demand.kind, LayerKind::Mutex);
        assert!(is_mutex, "`{option}` is for mutexes: under other locks several requests run");
        self.policy()
    }
}
