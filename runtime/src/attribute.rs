//! The attribute expands to calls of these: its expansion names no other part of the crate.

mod ending;
mod options;
mod outcome;
mod pinned;
mod set;

use std::future::Future;
use std::pin::Pin;

use self::ending::OnLost;
use self::outcome::skip_or_fail;
pub use self::outcome::{FromLockError, Guarded, Skippable};
use self::pinned::Body;
pub use self::set::{SetCall, lease_set};
use crate::api::lock_client::{LockClient, SemaphoreClient};
use crate::api::lock_options::LockOptions;
use crate::api::lock_spec::LockSpec;
use crate::api::locks::Locks;
use crate::api::mutex::Mutex;
use crate::api::rw_lock::RwLock;
use crate::api::semaphore::Semaphore;
use crate::core::error::LockError;
use crate::core::key::{IntoLockKey, LockKey};
use crate::core::lock_key::NO_LABEL;
use crate::engine::lease::{Lease, LeaseHandle, StopAt};

/// The key of an expression.
///
/// # Errors
///
/// [`LockError::InvalidKey`] if no lock can have the name.
pub fn key<K: IntoLockKey>(key: K) -> Result<LockKey, LockError> {
    key.into_lock_key()
}

/// The handle of the lease that the body runs under, for `lease = name`.
///
/// # Panics
///
/// Outside of such a body.
#[must_use]
pub fn lease() -> LeaseHandle {
    LeaseHandle::current().expect("a body runs under its lease")
}

/// The body, to be pinned in the function: everything below carries a pointer to it.
pub fn body<F: Future>(body: F) -> Option<F> {
    Some(body)
}

/// One call of an annotated function.
#[derive(Debug)]
#[must_use = "it does nothing until it is run"]
pub struct Call {
    key: Result<LockKey, LockError>,
    locks: Option<Locks>,
    kind: CallKind,
    /// How many permits of the semaphore it takes.
    weight: u32,
    given: LockOptions,
    on_lost: OnLost,
    /// A mutex that the caller holds is not acquired again.
    is_reentrant: bool,
}

/// The kind of lock that a call takes.
#[derive(Debug)]
enum CallKind {
    Mutex,
    Semaphore { permits: u32 },
    Read,
    Write,
}

/// The lease that a body runs under.
enum Held {
    Own(Lease),
    /// A caller has it, and releases it.
    ByCaller(LeaseHandle),
}

impl Call {
    /// A call with this key and the default options.
    pub fn new(key: Result<LockKey, LockError>) -> Self {
        Self {
            key,
            locks: None,
            kind: CallKind::Mutex,
            weight: 1,
            given: LockOptions::default(),
            on_lost: OnLost::Cancel,
            is_reentrant: false,
        }
    }

    /// The same, for a body that is skipped while others hold the lock: by default, it does not wait.
    pub fn or_skip(key: Result<LockKey, LockError>) -> Self {
        let mut call = Self::new(key);
        call.given.options = call.given.options.at_once();
        call
    }

    /// Names the client. Otherwise it is the scope's, or the installed one.
    pub fn locks(mut self, locks: &impl LockClient) -> Self {
        self.locks = Some(locks.locks().clone());
        self
    }

    /// Names the client of a semaphore.
    pub fn counting(self, locks: &impl SemaphoreClient) -> Self {
        self.locks(locks)
    }

    /// Makes it a semaphore.
    pub fn permits(mut self, permits: u32) -> Self {
        self.kind = CallKind::Semaphore { permits };
        self
    }

    /// Makes it a read lock.
    pub fn read(mut self) -> Self {
        self.kind = CallKind::Read;
        self
    }

    /// Makes it a write lock.
    pub fn write(mut self) -> Self {
        self.kind = CallKind::Write;
        self
    }

    /// How much of the permits the call takes.
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// Runs the body under the lock, or returns why it was not acquired.
    pub fn run<R: Guarded, F>(self, body: Pin<&mut Option<F>>) -> impl Future<Output = R>
    where
        F: Future<Output = R>,
    {
        self.run_if(R::is_success, body)
    }

    /// The same, where a function says which results are successes.
    pub async fn run_if<R: Guarded, F>(
        self,
        is_success: impl FnOnce(&R) -> bool,
        body: Pin<&mut Option<F>>,
    ) -> R
    where
        F: Future<Output = R>,
    {
        let on_lost = self.on_lost;
        let result = match Box::pin(self.acquire()).await {
            Ok(held) => guard(held, on_lost, Body(body), is_success).await,
            Err(error) => Err(error),
        };
        result.unwrap_or_else(R::refused)
    }

    /// Runs the body under the lock, or skips it if another holder has the lock.
    pub fn run_or_skip<R: Skippable, F>(self, body: Pin<&mut Option<F>>) -> impl Future<Output = R>
    where
        F: Future<Output = R>,
    {
        self.run_or_skip_if(R::is_success, body)
    }

    /// The same, where a function says which results are successes.
    // No `async fn`: its future would keep room for the call, because of the look at the label.
    pub fn run_or_skip_if<R: Skippable, F>(
        self,
        is_success: impl FnOnce(&R) -> bool,
        body: Pin<&mut Option<F>>,
    ) -> impl Future<Output = R>
    where
        F: Future<Output = R>,
    {
        let (on_lost, lock) = (self.on_lost, self.log_label());
        async move {
            let result = match Box::pin(self.acquire()).await {
                Ok(held) => guard(held, on_lost, Body(body), is_success).await,
                Err(error) => Err(error),
            };
            result.unwrap_or_else(|error| skip_or_fail(error, lock))
        }
    }

    fn log_label(&self) -> &'static str {
        self.key.as_ref().map_or(NO_LABEL, LockKey::log_label)
    }

    /// The lease that the caller runs under, if it is one of this mutex, held by the client
    /// that the call would use.
    fn outer(&self) -> Option<LeaseHandle> {
        let (true, Ok(key)) = (self.is_reentrant, &self.key) else { return None };
        let locks = self.locks.clone().or_else(Locks::current)?;
        LeaseHandle::around(locks.client().id, key).filter(LeaseHandle::is_of_mutex)
    }

    /// Acquires the lock. Box its large future, or every caller carries room for it.
    async fn acquire(self) -> Result<Held, LockError> {
        if let Some(outer) = self.outer() {
            // No command is sent, so a loop of such calls would keep its thread.
            tokio::task::consume_budget().await;
            return Ok(Held::ByCaller(outer));
        }
        self.acquire_own().await.map(Held::Own)
    }

    async fn acquire_own(self) -> Result<Lease, LockError> {
        let key = self.key?;
        let locks = self.locks.or_else(Locks::current).ok_or(LockError::NotInstalled)?;
        let spec = LockSpec::with(locks.shared(), key, self.given);
        match self.kind {
            CallKind::Mutex => Mutex::new(spec).lock().await,
            CallKind::Semaphore { permits } => {
                Semaphore::new(spec, permits).acquire_many(self.weight).await
            }
            CallKind::Read => RwLock::new(spec).read().await,
            CallKind::Write => RwLock::new(spec).write().await,
        }
    }
}

/// Runs the body, and releases or completes the lease before the result is returned. An error of
/// that never replaces the result.
async fn guard<F: Future>(
    held: Held,
    on_lost: OnLost,
    body: Body<'_, F>,
    is_success: impl FnOnce(&F::Output) -> bool,
) -> Result<F::Output, LockError> {
    let (handle, span, stop) = match &held {
        Held::Own(lease) => (lease.as_handle(), Some(lease.hold()), StopAt::Loss),
        Held::ByCaller(outer) => (outer, None, StopAt::End),
    };
    let stop = if let OnLost::Finish = on_lost { StopAt::Nothing } else { stop };
    let result = handle.run_until(stop, span, body).await?;
    if let Held::Own(lease) = held {
        lease.finish(is_success(&result)).await;
    }
    Ok(result)
}
