//! The name, the options and the client that every kind of lock has. Making a handle can't
//! fail; its first use reports a bad name or option.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::consume_budget;

use super::lock_options::LockOptions;
use crate::core::error::LockError;
use crate::core::key::{IntoLockKey, LockKey};
use crate::core::lock_key::NO_LABEL;
use crate::core::options::Options;
use crate::engine::acquire::acquire;
#[cfg(feature = "tower")]
use crate::engine::acquire::{Look, take_idle};
use crate::engine::lease::Lease;
use crate::engine::shared::Shared;
use crate::store::Kind;

/// A lock's name, and the options for its leases.
#[derive(Clone, Debug)]
pub(crate) struct LockSpec {
    pub(crate) shared: Arc<Shared>,
    key: Key,
    pub(crate) given: LockOptions,
}

impl LockSpec {
    /// With the default options.
    pub(crate) fn new(shared: &Arc<Shared>, key: impl IntoLockKey) -> Self {
        Self::with(shared, key, LockOptions::default())
    }

    pub(crate) fn with(shared: &Arc<Shared>, key: impl IntoLockKey, given: LockOptions) -> Self {
        Self { shared: shared.clone(), key: Key::new(key), given }
    }

    /// The name, or what is wrong with it.
    pub(crate) fn key(&self) -> Result<LockKey, LockError> {
        self.key.get()
    }

    /// What metrics and logs call it.
    pub(crate) fn label(&self) -> &'static str {
        let of_key = || self.key.0.as_ref().map_or(NO_LABEL, LockKey::log_label);
        self.given.label.unwrap_or_else(of_key)
    }

    /// Acquires, and waits as long as the options say.
    pub(crate) fn acquire(
        &self,
        kind: Result<Kind, LockError>,
    ) -> impl Future<Output = Result<Lease, LockError>> + Send + use<> {
        self.acquire_with(kind, self.given.options)
    }

    /// Acquires without waiting.
    pub(crate) fn try_acquire(
        &self,
        kind: Result<Kind, LockError>,
    ) -> impl Future<Output = Result<Lease, LockError>> + Send + use<> {
        self.acquire_with(kind, self.given.options.at_once())
    }

    /// A lease that is idle in this process, without a wait. Only of a lock without an owner.
    #[cfg(feature = "tower")]
    pub(crate) fn take_idle(&self, kind: Kind) -> Option<Lease> {
        let key = self.key.0.as_ref().ok().filter(|_| self.given.owner.is_none())?;
        take_idle(&self.shared, key, kind, &self.given.options)
    }

    /// A look whether the store answers. `None` if the store is not needed to refuse this.
    #[cfg(feature = "tower")]
    pub(crate) fn look(&self, kind: Kind) -> Option<Look> {
        let request = self.given.request(self.key.get().ok()?, kind).ok()?;
        Look::new(&self.shared, request, &self.given.options)
    }

    /// The same lock with another TTL.
    pub(crate) fn with_ttl(&self, ttl: Duration) -> Self {
        let mut other = self.clone();
        other.given.options.ttl = ttl;
        other
    }

    /// The future borrows nothing: the handle may be a temporary of a `select!`, or of a task that is
    /// spawned.
    fn acquire_with(
        &self,
        kind: Result<Kind, LockError>,
        options: Options,
    ) -> impl Future<Output = Result<Lease, LockError>> + Send + use<> {
        let shared = self.shared.clone();
        let request = kind.and_then(|kind| self.given.request(self.key.get()?, kind));
        async move {
            // Some are refused without the store.
            consume_budget().await;
            acquire(&shared, request?, options).await
        }
    }
}

/// A name that was checked when the handle was made.
#[derive(Clone, Debug)]
pub(crate) struct Key(Result<LockKey, (String, String)>);

impl Key {
    pub(crate) fn new(key: impl IntoLockKey) -> Self {
        Self(key.into_lock_key().map_err(|error| match error {
            LockError::InvalidKey { name, problem } => (name, problem),
            other => (String::new(), other.to_string()),
        }))
    }

    #[cfg(feature = "tower")]
    pub(crate) fn as_ref(&self) -> Option<&LockKey> {
        self.0.as_ref().ok()
    }

    pub(crate) fn get(&self) -> Result<LockKey, LockError> {
        self.0.clone().map_err(|(name, problem)| LockError::InvalidKey { name, problem })
    }
}
