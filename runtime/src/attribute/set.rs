//! A call of a function with several locks.

use std::pin::Pin;

use super::ending::OnLost;
use super::outcome::{Guarded, Skippable, skip_or_fail};
use super::pinned::Body;
use crate::api::lock_client::SemaphoreClient;
use crate::api::lock_options::{LockOptions, common_setters, setters};
use crate::api::locks::Locks;
use crate::api::multi_lock::{MultiLock, Part, PartKind};
use crate::core::error::LockError;
use crate::core::key::LockKey;
use crate::core::lock_key::NO_LABEL;
use crate::core::rate::Rate;
use crate::engine::lease_set::{LeaseSet, LeaseSetHandle};

/// The handle of the leases that the body runs under, for `lease = name`.
///
/// # Panics
///
/// Outside of such a body.
#[must_use]
pub fn lease_set() -> LeaseSetHandle {
    LeaseSetHandle::current().expect("a body runs under its leases")
}

/// One call of a function with several locks.
#[derive(Debug)]
#[must_use = "it does nothing until it is run"]
pub struct SetCall {
    locks: Option<Locks>,
    parts: Vec<Part>,
    /// The first lock's.
    label: &'static str,
    given: LockOptions,
    on_lost: OnLost,
}

impl SetCall {
    /// A call without locks yet, and with the default options.
    #[expect(clippy::new_without_default, reason = "the attribute writes it, and no user")]
    pub fn new() -> Self {
        let (parts, given) = (Vec::new(), LockOptions::default());
        Self { locks: None, parts, label: NO_LABEL, given, on_lost: OnLost::Cancel }
    }

    /// The same, for a body that is skipped while others hold one of the locks: by default, it does
    /// not wait.
    pub fn or_skip() -> Self {
        let mut call = Self::new();
        call.given.options = call.given.options.at_once();
        call
    }

    /// Names the client. Otherwise it is the scope's, or the installed one.
    pub fn counting(mut self, locks: &impl SemaphoreClient) -> Self {
        self.locks = Some(locks.locks().clone());
        self
    }

    /// Adds a mutex.
    pub fn mutex(self, key: Result<LockKey, LockError>) -> Self {
        self.with(key, PartKind::Mutex)
    }

    /// Adds a permit of a semaphore.
    pub fn permit(self, key: Result<LockKey, LockError>, limit: u32, weight: u32) -> Self {
        self.with(key, PartKind::Permit { limit, weight })
    }

    /// Adds a reader's lock.
    pub fn read(self, key: Result<LockKey, LockError>) -> Self {
        self.with(key, PartKind::Read)
    }

    /// Adds a writer's lock.
    pub fn write(self, key: Result<LockKey, LockError>) -> Self {
        self.with(key, PartKind::Write)
    }

    /// Adds a part of a rate.
    pub fn rate(self, key: Result<LockKey, LockError>, rate: Rate, weight: u32) -> Self {
        self.with(key, PartKind::Rate { rate, weight })
    }

    fn with(mut self, key: Result<LockKey, LockError>, kind: PartKind) -> Self {
        if let (true, Ok(key)) = (self.parts.is_empty(), &key) {
            self.label = key.log_label();
        }
        self.parts.push(Part::new(key, kind));
        self
    }

    setters! {
        (given):
        /// How long each lease lasts without a renewal.
        ttl;
        /// How long to wait for all locks together.
        wait;
        /// A name for the holder.
        owner;
        /// A text for people.
        note;
    }

    common_setters!((given));

    /// Lets the body finish when a lease is lost.
    pub fn let_finish(mut self) -> Self {
        self.on_lost = OnLost::Finish;
        self
    }

    /// Runs the body under the locks, or returns why they were not acquired.
    pub async fn run<R: Guarded, F>(self, body: Pin<&mut Option<F>>) -> R
    where
        F: Future<Output = R>,
    {
        let on_lost = self.on_lost;
        let result = match Box::pin(self.acquire()).await {
            Ok(leases) => guard(leases, on_lost, Body(body), R::is_success).await,
            Err(error) => Err(error),
        };
        result.unwrap_or_else(R::refused)
    }

    /// Runs the body under the locks, or skips it if another holder has one of them.
    pub async fn run_or_skip<R: Skippable, F>(self, body: Pin<&mut Option<F>>) -> R
    where
        F: Future<Output = R>,
    {
        let (on_lost, label) = (self.on_lost, self.label);
        let result = match Box::pin(self.acquire()).await {
            Ok(leases) => guard(leases, on_lost, Body(body), R::is_success).await,
            Err(error) => Err(error),
        };
        result.unwrap_or_else(|error| skip_or_fail(error, label))
    }

    async fn acquire(self) -> Result<LeaseSet, LockError> {
        let locks = self.locks.or_else(Locks::current).ok_or(LockError::NotInstalled)?;
        MultiLock::of(locks.shared(), self.parts, self.given).lock().await
    }
}

/// Runs the body, and releases the leases before the result is returned.
async fn guard<F: Future>(
    leases: LeaseSet,
    on_lost: OnLost,
    body: Body<'_, F>,
    is_success: fn(&F::Output) -> bool,
) -> Result<F::Output, LockError> {
    let result = match on_lost {
        OnLost::Cancel => leases.run(body).await,
        OnLost::Finish => Ok(leases.run_to_the_end(body).await),
    };
    leases.finish(result.as_ref().is_ok_and(is_success), result.is_err()).await;
    result
}
