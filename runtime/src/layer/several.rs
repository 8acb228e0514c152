//! The layer with several locks.

use std::sync::Arc;

use http::request::Parts;

use super::demand::assert_none;
use super::key::{KeyError, RequestKey};
use super::layer_lock::LayerLock;
use super::lock_layer::LockLayer;
use super::request_lock::LayerKind;
use crate::api::lock_client::SemaphoreClient;
use crate::api::multi_lock::MAX_KEYS;
use crate::core::key::LockKey;
use crate::core::rate::Rate;

/// The key of a layer with several locks: each has its own. Returned by
/// [`LockLayer::all`](super::LockLayer::all).
///
/// # Examples
///
/// ```
/// use leasehold::layer::{LayerLock, SetKey};
/// use leasehold::{LockLayer, Locks};
///
/// fn limits(locks: &Locks) -> LockLayer<SetKey> {
///     LockLayer::all(locks, [LayerLock::mutex("import"), LayerLock::permit("jobs", 8)])
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SetKey(());

impl RequestKey for SetKey {
    /// Always `None`: the keys of its locks are asked for.
    fn lock_key(&self, _: &mut Parts) -> Result<Option<LockKey>, KeyError> {
        Ok(None)
    }
}

impl LockLayer<SetKey> {
    /// A layer with several locks and rates: each request takes one of each, all or none, with one wait.
    /// It is refused with status 429 if a semaphore is full or a rate is used up, and with 409 if another
    /// lock is held.
    ///
    /// They are the same locks as those of the other layers, and wait in the same queues. If all are
    /// free mutexes and permits, one command acquires them, on a cluster if they share a slot.
    /// Otherwise they are acquired in the order of their names, as [`MultiLock`](crate::MultiLock)
    /// says: so give the narrow limit a name that comes first, such as `tenant:acme` before `total`.
    /// A refused request holds none of them.
    ///
    /// The options of the layer are those of all its locks. A lock whose key is `None` for a request
    /// is left out. [`linger`](Self::linger) has no effect. [`Refusal::label`](super::Refusal::label)
    /// is the label of the lock that refused, and so is `lock` in the problem body, if the label is
    /// not the lock's name.
    ///
    /// A handler gets a [`LeaseSetHandle`](crate::LeaseSetHandle) of all leases, and the
    /// [`LeaseHandle`](crate::LeaseHandle) of the last one, in the order of the names.
    ///
    /// # Panics
    ///
    /// When the app is built, if there is no lock, if there are more than 64, or if one name or template
    /// is given twice, other than for two mutexes, two read-write locks, or a lock and a rate. So two
    /// rates of one tenant need two names.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::layer::{LayerLock, template_key};
    /// use leasehold::{LockLayer, Locks};
    ///
    /// // 3 requests of a tenant at a time, 10 in all, and one for each document.
    /// let locks = Locks::in_memory();
    /// let limits = LockLayer::all(&locks, [
    ///     LayerLock::mutex(template_key("document:{header:x-document}")),
    ///     LayerLock::permit(template_key("tenant:{header:x-tenant}"), 3),
    ///     LayerLock::permit("total", 10),
    /// ])
    /// .wait(Duration::from_secs(2));
    /// ```
    #[track_caller]
    pub fn all(locks: &impl SemaphoreClient, set: impl IntoIterator<Item = LayerLock>) -> Self {
        let set: Arc<[_]> = set.into_iter().collect();
        let count = set.len();
        assert!((1..=MAX_KEYS).contains(&count), "a layer has 1 to {MAX_KEYS} locks, not {count}");
        let mut pairs =
            set.iter().enumerate().flat_map(|(n, one)| set[..n].iter().map(move |it| (one, it)));
        assert_none(pairs.find_map(|(one, other)| other.clash(one)));
        let mut layer = Self::of(locks.locks(), SetKey(()), LayerKind::Set);
        layer.policy().set = Some(set);
        layer
    }

    /// A layer with a rate: so many requests in a time for each key, in all processes together. Others
    /// are refused with status 429.
    ///
    /// By default a request is refused at once if the rate is used up; with [`wait`](Self::wait) it waits
    /// for its turn, unless that comes too late. `Retry-After` says when the rate allows the request, in
    /// whole seconds, and the member `retry_after_ms` of the problem body in milliseconds. The handler's
    /// responses and a refusal by the rate have the fields `RateLimit-Policy` and `RateLimit` of the IETF
    /// draft, by the label of the rate.
    ///
    /// A request holds nothing, so there is no lease, and options for one mean nothing. For the weight
    /// of a request, a rate by its plan, and rates beside locks, take [`all`](Self::all) with
    /// [`LayerLock::rate`].
    ///
    /// Each request costs one command. [`Rate`] says what a burst is; [`Locks::rate`](crate::Locks::rate)
    /// what a failover may forget.
    ///
    /// # Panics
    ///
    /// If the key is a plain string that looks like a template, as in [`mutex`](Self::mutex).
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::layer::template_key;
    /// use leasehold::{LockLayer, Locks, Rate};
    ///
    /// // 100 requests of a tenant in a minute, and 10 at once.
    /// let of_tenant = template_key("tenant:{header:x-tenant}");
    /// let layer = LockLayer::rate(&Locks::in_memory(), of_tenant, Rate::per_minute(100).burst(10));
    /// ```
    #[track_caller]
    pub fn rate(
        locks: &impl SemaphoreClient,
        key: impl RequestKey + Send + Sync + 'static,
        rate: Rate,
    ) -> Self {
        Self::all(locks, [LayerLock::rate(key, rate)])
    }
}
