//! The name, the options and the client that every kind of lock has. Making a handle can't
//! fail; its first use reports a bad name or option.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::consume_budget;

use crate::core::error::LockError;
use crate::core::key::{IntoLockKey, LockKey};
use crate::core::lock_key::NO_LABEL;
use crate::core::options::Options;
use crate::engine::acquire::acquire;
#[cfg(feature = "tower")]
use crate::engine::acquire::{Look, take_idle};
use crate::engine::lease::Lease;
use crate::engine::shared::Shared;
use crate::store::{Kind, Note, Owner, RequestSpec};

/// A lock's name, and the options for its leases.
#[derive(Clone, Debug)]
pub(crate) struct LockSpec {
    pub(crate) shared: Arc<Shared>,
    key: Key,
    owner: Option<String>,
    note: Option<Note>,
    pub(crate) options: Options,
}

impl LockSpec {
    pub(crate) fn new(shared: &Arc<Shared>, key: impl IntoLockKey) -> Self {
        Self {
            shared: shared.clone(),
            key: Key::new(key),
            owner: None,
            note: None,
            options: Options::default(),
        }
    }

    pub(crate) fn set_owner(&mut self, owner: impl Into<String>) {
        self.owner = Some(owner.into());
    }

    pub(crate) fn set_label(&mut self, label: &'static str) {
        self.key.set_label(label);
    }

    pub(crate) fn set_note(&mut self, note: &str) {
        self.note = Note::new(note);
    }

    pub(crate) fn has_owner(&self) -> bool {
        self.owner.is_some()
    }

    /// The name, or what is wrong with it.
    pub(crate) fn key(&self) -> Result<LockKey, LockError> {
        self.key.get()
    }

    /// What metrics and logs call it.
    pub(crate) fn label(&self) -> &'static str {
        self.key.0.as_ref().map_or(NO_LABEL, LockKey::log_label)
    }

    /// Acquires, and waits as long as the options say.
    pub(crate) async fn acquire(&self, kind: Kind) -> Result<Lease, LockError> {
        self.acquire_with(kind, self.options).await
    }

    /// Acquires without waiting.
    pub(crate) async fn try_acquire(&self, kind: Kind) -> Result<Lease, LockError> {
        self.acquire_with(kind, self.options.at_once()).await
    }

    /// A lease that is idle in this process, without a wait. Only of a lock without an owner.
    #[cfg(feature = "tower")]
    pub(crate) fn take_idle(&self, kind: Kind) -> Option<Lease> {
        let key = self.key.0.as_ref().ok().filter(|_| self.owner.is_none())?;
        take_idle(&self.shared, key, kind, &self.options)
    }

    /// A look whether the store answers. `None` if the store is not needed to refuse this.
    #[cfg(feature = "tower")]
    pub(crate) fn look(&self, kind: Kind) -> Option<Look> {
        let (key, note) = (self.key.get().ok()?, self.note.clone());
        let owner = self.owner.as_deref().map(Owner::new).transpose().ok()?;
        Look::new(&self.shared, RequestSpec { key, kind, owner, note }, &self.options)
    }

    /// The same lock with another TTL.
    pub(crate) fn with_ttl(&self, ttl: Duration) -> Self {
        Self { options: Options { ttl, ..self.options }, ..self.clone() }
    }

    async fn acquire_with(&self, kind: Kind, options: Options) -> Result<Lease, LockError> {
        // Some are refused without the store.
        consume_budget().await;
        let key = self.key.get()?;
        let owner = self.owner.as_deref().map(Owner::new).transpose()?;
        acquire(&self.shared, RequestSpec { key, kind, owner, note: self.note.clone() }, options)
            .await
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

    pub(crate) fn set_label(&mut self, label: &'static str) {
        if let Ok(key) = &mut self.0 {
            *key = key.clone().with_label(label);
        }
    }

    pub(crate) fn get(&self) -> Result<LockKey, LockError> {
        self.0.clone().map_err(|(name, problem)| LockError::InvalidKey { name, problem })
    }
}

/// The options that mean the same for every kind of lock.
macro_rules! lifetime_options {
    ($($options:ident).+) => {
        /// The longest time that a lease is held, even if it is renewed: 100 ms to 30 days.
        /// By default there is no limit.
        ///
        /// It counts from the grant. At its end the lease is lost
        /// ([`LossReason::MaxHold`](crate::LossReason::MaxHold)) and released, so that
        /// stuck work does not hold a lock for ever.
        pub fn max_hold(mut self, most: impl Into<Option<std::time::Duration>>) -> Self {
            self.$($options).+.max_hold = most.into();
            self
        }

        /// Lets the client renew leases, every third of their TTL. The default is `true`.
        /// With `false` a lease lasts for its TTL, or until
        /// [`Lease::renew`](crate::Lease::renew).
        pub fn auto_renew(mut self, renew: bool) -> Self {
            self.$($options).+.auto_renew = renew;
            self
        }
    };
}

pub(crate) use lifetime_options;
