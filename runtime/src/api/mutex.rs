//! The mutex: one holder at a time, on all servers together.

use std::sync::Arc;
use std::time::Duration;

use super::lock_spec::{LockSpec, lifetime_options};
use crate::core::error::LockError;
use crate::core::key::IntoLockKey;
use crate::core::options::Wait;
use crate::engine::lease::Lease;
use crate::engine::shared::Shared;
use crate::store::Kind;

/// A mutex by name: a cheap handle, from [`Locks::mutex`](crate::Locks::mutex).
#[derive(Clone, Debug)]
#[must_use = "a mutex does nothing until it is locked"]
pub struct Mutex {
    spec: LockSpec,
}

impl Mutex {
    pub(crate) fn new(shared: &Arc<Shared>, key: impl IntoLockKey) -> Self {
        Self { spec: LockSpec::new(shared, key) }
    }

    /// How long the lease lasts unless it is renewed, which it is every third
    /// of this: 100 ms to 24 h, by default 30 s. A holder that dies keeps the
    /// lock for at most this long; one that dies in the moment when it is handed
    /// over, for a second at most.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.spec.options.ttl = ttl;
        self
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.spec.shared
    }

    /// How long [`lock`](Self::lock) waits: a duration, by default 10 s, or
    /// [`Wait::Forever`].
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.spec.options.wait = wait.into();
        self
    }

    lifetime_options!(spec.options);

    /// How long the lock stays held after it was acquired, even if it is
    /// released before: by default 0, at most 24 h.
    ///
    /// For jobs that several servers start at the same time: one that comes a
    /// little late, when the first has finished, is refused as well. The idea
    /// is ShedLock's `lockAtLeastFor`.
    pub fn hold_at_least(mut self, time: Duration) -> Self {
        self.spec.options.hold_at_least = time;
        self
    }

    /// Whose leases these are, for [`Locks::is_held_by`](crate::Locks::is_held_by) and [`Locks::inspect`](crate::Locks::inspect): 1 to
    /// 128 bytes without control characters. By default nobody's in particular.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.spec.set_owner(owner);
        self
    }

    /// Waits until it holds the lock: first come, first served between clients, and
    /// the tasks of one client in their own order. A client whose tasks wait for it keeps
    /// it among them for up to 20 ms, and no more than 64 of them.
    ///
    /// # Errors
    ///
    /// - [`LockError::TimedOut`] if others held it, or were before it, for all of
    ///   the wait.
    /// - [`LockError::Store`] if the store failed, and went on failing for the
    ///   wait, or for a second if that is longer. The request is taken back in
    ///   the background.
    /// - [`LockError::WrongKind`] if the name is in use by another kind of lock.
    /// - [`LockError::InvalidKey`] or [`LockError::InvalidOption`] for a name or
    ///   an option that makes no sense; no command is sent.
    /// - [`LockError::ShutDown`] once the client was [shut down](crate::Locks::shutdown).
    ///
    /// # Panics
    ///
    /// If it has to wait outside of a tokio runtime with timers; and over Redis in a tokio
    /// runtime without them.
    ///
    /// # Cancel safety
    ///
    /// Safe: if the future is dropped before it is ready, nothing stays held. Its
    /// place in the queue goes to the next task of this client that waits for the
    /// same lock. Otherwise the place, or a grant that was on its way, is taken
    /// back in the background; if the store can't be reached, it ends with its
    /// TTL, or after 6 s if that is longer.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    ///
    /// let lease = locks.mutex("invoice:42").lock().await?;
    /// assert!(locks.mutex("invoice:42").try_lock().await.is_err());
    /// lease.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lock(&self) -> Result<Lease, LockError> {
        self.spec.acquire(Kind::Mutex).await
    }

    /// Takes the lock if it is free and nobody waits for it, and does not wait.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`] if another holds it, or waits for it; all others as of
    /// [`lock`](Self::lock). A store that fails is asked again for a second.
    ///
    /// # Panics
    ///
    /// If it has to ask again outside of a tokio runtime with timers; and over Redis in a
    /// tokio runtime without them.
    ///
    /// # Cancel safety
    ///
    /// As of [`lock`](Self::lock).
    pub async fn try_lock(&self) -> Result<Lease, LockError> {
        self.spec.try_acquire(Kind::Mutex).await
    }
}
