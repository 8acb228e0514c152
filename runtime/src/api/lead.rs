//! One process at a time does it, and another goes on when that one can't.

use std::future::Future;
use std::time::Duration;

use tokio::time::sleep;

use super::locks::Locks;
use super::mutex::Mutex;
use crate::core::error::{LockError, Quiet};
use crate::core::key::IntoLockKey;
use crate::core::options::Wait;
use crate::engine::lease::LeaseHandle;

/// The pause after a store that refused, so as not to ask it without end.
const PAUSE: Duration = Duration::from_secs(5);

impl Locks {
    /// Runs a future on one process at a time: [`Mutex::lead`] with the defaults, so
    /// another process goes on 30 seconds after this one has died.
    ///
    /// # Errors
    ///
    /// As of [`Mutex::lead`].
    ///
    /// # Cancel safety
    ///
    /// As of [`Mutex::lead`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn tick(fence: leasehold::Fence) {}
    /// # async fn example(locks: leasehold::Locks) -> Result<(), leasehold::LockError> {
    /// locks
    ///     .lead("scheduler", |lease| async move {
    ///         loop {
    ///             if let Ok(fence) = lease.fence() {
    ///                 tick(fence).await;
    ///             }
    ///             // Here, at the latest, it is stopped when the lease is lost.
    ///             tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    ///         }
    ///     })
    ///     .await
    /// # }
    /// ```
    pub async fn lead<W: Future>(
        &self,
        key: impl IntoLockKey,
        work: impl FnMut(LeaseHandle) -> W,
    ) -> Result<W::Output, LockError> {
        self.mutex(key).lead(work).await
    }
}

impl Mutex {
    /// Waits for the lock, for as long as it takes, and runs a future under it. When the
    /// lease is lost, the future is dropped, and a new one is made when the lock is had
    /// again. When it is ready, the lock is released, and its output returned: this process
    /// does not lead again. So one that is to go on for ever is a plain `loop`, with an
    /// `.await` in it, and does not return because of a loss that it sees itself.
    ///
    /// So of all processes that call this, one runs its future, as long as it lives and
    /// reaches the store. A store that fails is asked again until it answers, with a
    /// warning. The options are those of the lock but for `wait`; with `max_hold`, the
    /// others have their turn after that time.
    ///
    /// What the future has spawned is not stopped with it.
    ///
    /// What is shared with others is to be written with the fencing token, as under any
    /// lock: a process that stood still goes on for a moment when it wakes up.
    ///
    /// The idea is that of a leader's election; etcd and Consul have it under this name.
    ///
    /// # Errors
    ///
    /// - [`LockError::ShutDown`] when the client is [shut down](Locks::shutdown): the
    ///   future was dropped at once, and the lock released.
    /// - [`LockError::WrongKind`], [`LockError::InvalidKey`] or
    ///   [`LockError::InvalidOption`] for a name or an option that makes no sense.
    ///
    /// # Panics
    ///
    /// If the future panics; the lock is released in the background. And outside of a
    /// tokio runtime with timers.
    ///
    /// # Cancel safety
    ///
    /// Safe: the future is dropped with this one, and then the lock is released in the
    /// background.
    pub async fn lead<W: Future>(
        &self,
        mut work: impl FnMut(LeaseHandle) -> W,
    ) -> Result<W::Output, LockError> {
        let campaign = self.clone().wait(Wait::Forever);
        let shutdown = &self.shared().client.keeper.shutdown;
        loop {
            let lease = match campaign.lock().await {
                Ok(lease) => lease,
                Err(error) if error.is_store_failure() => {
                    tracing::warn!(error = %Quiet(&error), "whoever is to lead can't be found out; trying again");
                    tokio::select! {
                        () = shutdown.begun() => return Err(LockError::ShutDown),
                        () = sleep(PAUSE.mul_f64(0.5 + 0.5 * fastrand::f64())) => continue,
                    }
                }
                Err(error) => return Err(error),
            };
            // Whatever ends it, the future is dropped before the lock goes to another.
            // Boxed, as whatever holds it by value on its way would grow by it each time.
            let working = Box::pin(async { work(lease.handle()).await });
            let led = tokio::select! {
                biased;
                () = shutdown.begun() => Err(LockError::ShutDown),
                led = lease.run(working) => led,
            };
            match led {
                Err(LockError::Lost { .. }) if !shutdown.has_begun() => drop(lease),
                Err(LockError::Lost { .. }) => return Err(LockError::ShutDown),
                led => {
                    if let Err(error) = lease.release().await {
                        tracing::warn!(error = %Quiet(&error), "a leader's lock was not released as it should be");
                    }
                    return led;
                }
            }
        }
    }
}
