//! Leader election: one process runs a future, and another takes over when that one fails.

use std::future::Future;

use super::locks::Locks;
use super::mutex::Mutex;
use crate::core::error::LockError;
use crate::core::key::IntoLockKey;
use crate::engine::lease::LeaseHandle;

impl Locks {
    /// Elects a leader with the default options: [`Mutex::lead`] on a mutex of this name.
    /// Another process takes over at most 30 seconds after the leader has died.
    ///
    /// # Errors
    ///
    /// - [`LockError::ShutDown`] when the client is [shut down](Locks::shutdown). The
    ///   future was dropped at once, and the lock was released.
    /// - [`LockError::NoRuntime`] outside of a Tokio runtime with timers.
    /// - [`LockError::WrongKind`] if the name is in use by another kind of lock, or by
    ///   something that is not a lock.
    /// - [`LockError::InvalidKey`] if no lock can have this name.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping this future drops the work, and then the lock is released in the
    /// background.
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
    ///             // If the lease is lost, the loop is dropped here at the latest.
    ///             tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    ///         }
    ///     })
    ///     .await
    /// # }
    /// ```
    pub fn lead<K, F, W>(
        &self,
        key: K,
        work: F,
    ) -> impl Future<Output = Result<W::Output, LockError>> + use<K, F, W>
    where
        K: IntoLockKey,
        F: FnMut(LeaseHandle) -> W,
        W: Future,
    {
        self.mutex(key).lead(work)
    }
}

impl Mutex {
    /// Elects a leader: waits for the lock as long as it takes, and runs a future under it.
    /// Any number of processes may call this; one at a time runs its future.
    ///
    /// If the lease is lost, the future is dropped. When the lock is acquired again, `work`
    /// makes a new one. When the future returns, `lead` releases the lock and returns the
    /// output: this process does not lead again. So work without an end is a plain `loop`
    /// with an `.await` in it. Do not break out of the loop when the lease is lost: `lead`
    /// drops the future by itself, and leads again later.
    ///
    /// If the store fails, the client logs a warning and tries again until it answers. The
    /// options of the mutex apply, except `wait`, `linger`, `replace`, `once` and `once_per`. With
    /// `max_hold`, the others have their turn after that time.
    ///
    /// To know who leads, or to let the leader step down and campaign again, use an
    /// [`election`](Self::election).
    ///
    /// Tasks that the future has spawned go on without the lock. Protect shared data with
    /// the fencing token, as under any lock: a process that was paused may finish one more
    /// step when it wakes up.
    ///
    /// etcd and Consul call this leader election too.
    ///
    /// # Errors
    ///
    /// - [`LockError::ShutDown`] when the client is [shut down](Locks::shutdown). The
    ///   future was dropped at once, and the lock was released.
    /// - [`LockError::NoRuntime`] outside of a Tokio runtime with timers.
    /// - [`LockError::WrongKind`] if the name is in use by another kind of lock, or by
    ///   something that is not a lock.
    /// - [`LockError::InvalidKey`] if no lock can have this name.
    /// - [`LockError::InvalidOption`] if an option is out of its range.
    ///
    /// # Panics
    ///
    /// If the future panics. The lock is then released in the background.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping this future drops the work, and then the lock is released in the
    /// background.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let locks = leasehold::Locks::in_memory();
    /// let leader = locks.mutex("migration").ttl(Duration::from_secs(5));
    /// let applied = leader.lead(|_lease| async { 3 }).await?;
    /// assert_eq!(applied, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lead<F, W>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<W::Output, LockError>> + use<F, W>
    where
        F: FnMut(LeaseHandle) -> W,
        W: Future,
    {
        let mut election = self.election();
        async move { election.lead(work).await }
    }
}
