//! The locks of a layer with several.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use http::request::Parts;

use super::demand::Demand;
use super::key::RequestKey;
use super::number::MaybeNumber;
#[cfg(feature = "axum")]
use super::path_key::PathKey;
use super::reject::Refusal;
use super::request_lock::LayerKind;
use super::template_key::{TemplateKey, fixed_name, plain_name};
use crate::api::multi_lock::MultiLock;
use crate::core::key::LockKey;
use crate::core::rate::Rate;

/// One of the locks or rates of [`LockLayer::all`](super::LockLayer::all): its kind, its key, and how
/// much of it a request takes.
///
/// # Examples
///
/// ```
/// use leasehold::layer::{LayerLock, template_key};
/// use leasehold::{LockLayer, Locks};
///
/// // 3 requests of a tenant at a time, and 10 in all.
/// let limits = LockLayer::all(&Locks::in_memory(), [
///     LayerLock::permit(template_key("tenant:{header:x-tenant}"), 3),
///     LayerLock::permit("total", 10),
/// ]);
/// ```
#[derive(Clone)]
#[must_use = "it is a part of `LockLayer::all`"]
pub struct LayerLock {
    key: Arc<dyn RequestKey + Send + Sync>,
    /// Its name or its template. Two keys with the same one are the same for each request.
    name: Option<Arc<str>>,
    label: Option<&'static str>,
    pub(super) demand: Demand,
}

impl LayerLock {
    /// A mutex: one request at a time for each key.
    ///
    /// # Panics
    ///
    /// If the key is a string literal that looks like a template, as in
    /// [`LockLayer::mutex`](super::LockLayer::mutex).
    #[track_caller]
    pub fn mutex(key: impl RequestKey + Send + Sync + 'static) -> Self {
        Self::new(key, LayerKind::Mutex)
    }

    /// A permit of a semaphore: at most `limit` requests at a time for each key, from 1 up.
    ///
    /// # Panics
    ///
    /// As in [`mutex`](Self::mutex).
    #[track_caller]
    pub fn permit(key: impl RequestKey + Send + Sync + 'static, limit: u32) -> Self {
        Self::new(key, LayerKind::Semaphore { limit })
    }

    /// A read-write lock: for each key, many requests that read, or one that writes, by the method as
    /// in [`LockLayer::rw_lock`](super::LockLayer::rw_lock).
    ///
    /// # Panics
    ///
    /// As in [`mutex`](Self::mutex).
    #[track_caller]
    pub fn rw_lock(key: impl RequestKey + Send + Sync + 'static) -> Self {
        Self::new(key, LayerKind::RwLock)
    }

    /// A rate: so many requests in a time for each key, beside how many at a time.
    ///
    /// See [`LockLayer::rate`](super::LockLayer::rate). It is taken when all locks are, and refuses with
    /// status 429.
    ///
    /// # Panics
    ///
    /// As in [`mutex`](Self::mutex).
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::layer::{LayerLock, template_key};
    /// use leasehold::{LockLayer, Locks, Rate};
    ///
    /// // For each tenant, 3 requests at a time and 100 in a minute.
    /// let of_tenant = || template_key("tenant:{header:x-tenant}");
    /// let limits = LockLayer::all(&Locks::in_memory(), [
    ///     LayerLock::permit(of_tenant(), 3),
    ///     LayerLock::rate(of_tenant(), Rate::per_minute(100)),
    /// ]);
    /// ```
    #[track_caller]
    pub fn rate(key: impl RequestKey + Send + Sync + 'static, rate: Rate) -> Self {
        Self::new(key, LayerKind::Rate { rate })
    }

    #[track_caller]
    fn new<K: RequestKey + Send + Sync + 'static>(key: K, kind: LayerKind) -> Self {
        let label = plain_name(&key);
        let name = template_of(&key).or_else(|| fixed_name(&key)).map(Arc::from);
        Self { key: Arc::new(key), name, label, demand: Demand::new(kind) }
    }

    /// What is wrong if another one of its set has the same name, so that every request would be
    /// refused. A lock and a rate of one name are two things; a mutex, a reader or a writer that is
    /// named twice counts once.
    pub(super) fn clash(&self, other: &Self) -> Option<String> {
        use LayerKind::{Mutex, Rate, RwLock};
        let name = self.name.as_deref().filter(|_| self.name == other.name)?;
        match (self.demand.kind, other.demand.kind) {
            (Rate { rate: one }, Rate { rate: other }) => Some(one.named_twice(&other, name)),
            (Mutex, Mutex) | (RwLock, RwLock) | (Rate { .. }, _) | (_, Rate { .. }) => None,
            _ => Some(format!(
                "two of its locks have the name `{name}`; name it once: one name is one kind, and a \
                 permit has the weight of both"
            )),
        }
    }

    /// What metrics, logs and refusals call these locks, such as `"tenant"`. By default it is the
    /// template or the name. A name that is a `String` or a `LockKey`, and a key that a function makes,
    /// have no label.
    pub fn label(mut self, label: &'static str) -> Self {
        self.label = Some(label);
        self
    }

    /// How much of the limit a request takes, as in
    /// [`LockLayer::weight_by`](super::LockLayer::weight_by); or how much of the rate, from 1 to its
    /// burst.
    ///
    /// # Panics
    ///
    /// If it is neither a permit nor a rate.
    #[track_caller]
    pub fn weight_by<F, T>(mut self, weight: F) -> Self
    where
        F: Fn(&Parts) -> T + Send + Sync + 'static,
        T: MaybeNumber,
    {
        self.demand.set_weight(Arc::new(move |parts| weight(parts).maybe_number()));
        self
    }

    /// The limit for a request, as in [`LockLayer::limit_by`](super::LockLayer::limit_by).
    ///
    /// # Panics
    ///
    /// If it is no permit.
    #[track_caller]
    pub fn limit_by<F, T>(mut self, limit: F) -> Self
    where
        F: Fn(&Parts) -> T + Send + Sync + 'static,
        T: MaybeNumber,
    {
        self.demand.set_limit(Arc::new(move |parts| limit(parts).maybe_number()));
        self
    }

    /// The rate for a request, by a function of its head: of its plan, say. `None` is the rate of all.
    ///
    /// All requests with the same key take from the same rate. If they disagree on it, as while a deploy
    /// changes it, each is checked by its own.
    ///
    /// # Panics
    ///
    /// If it is no rate.
    #[track_caller]
    pub fn rate_by(
        mut self,
        rate: impl Fn(&Parts) -> Option<Rate> + Send + Sync + 'static,
    ) -> Self {
        self.demand.set_rate(Arc::new(rate));
        self
    }

    /// The key of a request's lock; `None` if the request needs none.
    pub(super) fn key(&self, parts: &mut Parts) -> Result<Option<LockKey>, Refusal> {
        let key = self.key.lock_key(parts).map_err(Refusal::NoKey)?;
        Ok(key.map(|key| self.label.into_iter().fold(key, LockKey::with_label)))
    }

    /// Adds the lock of this key to the others of a request.
    pub(super) fn add_to(
        &self,
        locks: MultiLock,
        key: LockKey,
        parts: &Parts,
    ) -> Result<MultiLock, Refusal> {
        let (kind, weight) = self.demand.of(parts)?;
        Ok(match kind {
            LayerKind::Mutex => locks.mutex(key),
            LayerKind::Semaphore { limit } => locks.weighted_permit(key, limit, weight),
            LayerKind::RwLock if parts.method.is_safe() => locks.read(key),
            LayerKind::RwLock => locks.write(key),
            LayerKind::Rate { rate } => locks.weighted_rate(key, rate, weight),
            LayerKind::Set => unreachable!("a set is no part of one"),
        })
    }
}

/// The template, if the key is made from one.
fn template_of(key: &dyn Any) -> Option<&'static str> {
    let template = key.downcast_ref().map(TemplateKey::template);
    #[cfg(feature = "axum")]
    let template = template.or_else(|| key.downcast_ref().map(PathKey::template));
    template
}

impl fmt::Debug for LayerLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayerLock")
            .field("kind", &self.demand)
            .field("label", &self.label)
            .finish_non_exhaustive()
    }
}
