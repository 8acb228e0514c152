//! A closure under a lock: acquire, run, release.

use super::multi_lock::MultiLock;
use super::mutex::Mutex;
use super::reentrant_mutex::ReentrantMutex;
use super::rw_lock::RwLock;
use super::semaphore::Semaphore;
use crate::core::error::LockError;
use crate::engine::lease::LeaseHandle;
use crate::engine::lease_set::LeaseSetHandle;

/// An async closure that gets a handle, or an async function. It stands for `AsyncFnOnce`, so that rustc
/// can say what to write.
#[diagnostic::on_unimplemented(
    message = "the work is no async closure that gets the lease: write `async |lease| {{ .. }}`",
    note = "to run a future under a lease, acquire the lease first: `lock.lock().await?.run(future).await?`"
)]
#[allow(unreachable_pub, reason = "it is the bound of public methods")]
pub trait Work<H, R>: AsyncFnOnce(H) -> R {}

#[diagnostic::do_not_recommend]
impl<H, R, W: AsyncFnOnce(H) -> R> Work<H, R> for W {}

impl Mutex {
    /// Acquires the lock as [`lock`](Self::lock) does, runs the work under the lease, and ends the lease.
    /// The work is an async closure, `async |lease| …`, or an async function of the handle. The result is
    /// that of the work. With [`once`](Self::once) or [`once_per`](Self::once_per),
    /// `Ok` completes the work, and an error lets it run again.
    ///
    /// The work is dropped when the lease is lost, as in [`Lease::run`](crate::Lease::run). Inside,
    /// [`LeaseHandle::current`] returns the handle that the closure gets. A blocking function runs by
    /// [`Lease::run_blocking`](crate::Lease::run_blocking).
    ///
    /// # Errors
    ///
    #[doc = include_str!("errors/running.md")]
    /// - [`LockError::Done`] if the work has succeeded, with [`once`](Self::once) or
    ///   [`once_per`](Self::once_per).
    /// - [`LockError::Unsupported`] with these options on a quorum. No command is sent.
    /// - [`LockError::Quorum`] on a quorum, if too few servers agreed for the whole wait.
    #[doc = include_str!("errors/waiting.md")]
    ///
    /// # Cancel safety
    ///
    /// As safe as the work, which is dropped with the future. The lock is released in the background.
    ///
    /// # Examples
    ///
    /// With `?` behind the call, the closure says its error type:
    ///
    /// ```
    /// use leasehold::{LockError, Locks};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// let locks = Locks::in_memory();
    /// let order = locks.mutex("order:42");
    /// let shipped = order.run(async |lease| -> Result<_, LockError> {
    ///     let _fence = lease.fence()?; // for the database
    ///     Ok("shipped")
    /// });
    /// assert_eq!(shipped.await?, "shipped");
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<T, E, W>(&self, work: W) -> impl Future<Output = Result<T, E>> + use<T, E, W>
    where
        W: Work<LeaseHandle, Result<T, E>>,
        E: From<LockError>,
    {
        let lease = self.lock();
        async move { lease.await?.run_and_end(work).await }
    }
}

impl ReentrantMutex {
    /// Acquires the lock as [`lock`](Self::lock) does, runs the work under the lease, and releases it, as
    /// [`Mutex::run`].
    ///
    /// # Errors
    ///
    #[doc = include_str!("errors/running.md")]
    #[doc = include_str!("errors/waiting.md")]
    ///
    /// # Cancel safety
    ///
    /// As safe as the work, which is dropped with the future. The lock is released in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LockError, Locks};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// let locks = Locks::in_memory();
    /// let order = locks.reentrant_mutex("order:42").owner("worker-7");
    /// order.run(async |_lease| order.run(async |_lease| Ok::<_, LockError>(())).await).await
    /// # }
    /// ```
    pub fn run<T, E, W>(&self, work: W) -> impl Future<Output = Result<T, E>> + use<T, E, W>
    where
        W: Work<LeaseHandle, Result<T, E>>,
        E: From<LockError>,
    {
        let lease = self.lock();
        async move { lease.await?.run_and_end(work).await }
    }
}

impl Semaphore {
    /// Acquires a permit as [`acquire`](Self::acquire) does, runs the work under it, and releases it, as
    /// [`Mutex::run`].
    ///
    /// # Errors
    ///
    #[doc = include_str!("errors/running.md")]
    /// - [`LockError::Closed`] if an operator has set a [limit](crate::Locks::limits) that leaves no
    ///   room for the request, such as 0.
    #[doc = include_str!("errors/waiting.md")]
    ///
    /// # Cancel safety
    ///
    /// As safe as the work, which is dropped with the future. The lock is released in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LockError, Locks};
    ///
    /// async fn report(locks: &Locks) -> Result<u32, LockError> {
    ///     locks.semaphore("reports", 4).run(async |_permit| Ok(12)).await
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # assert_eq!(report(&Locks::in_memory()).await?, 12);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<T, E, W>(&self, work: W) -> impl Future<Output = Result<T, E>> + use<T, E, W>
    where
        W: Work<LeaseHandle, Result<T, E>>,
        E: From<LockError>,
    {
        self.run_many(1, work)
    }

    /// The same with a permit that takes `weight` of the limit, as [`acquire_many`](Self::acquire_many)
    /// does.
    ///
    /// # Errors
    ///
    #[doc = include_str!("errors/running.md")]
    /// - [`LockError::Closed`] if an operator has set a [limit](crate::Locks::limits) that leaves no
    ///   room for the request, such as 0.
    #[doc = include_str!("errors/waiting.md")]
    ///
    /// # Cancel safety
    ///
    /// As safe as the work, which is dropped with the future. The lock is released in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LockError, Locks};
    ///
    /// async fn render(locks: &Locks) -> Result<(), LockError> {
    ///     locks.semaphore("cores", 8).run_many(6, async |_permit| Ok(())).await
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # render(&Locks::in_memory()).await
    /// # }
    /// ```
    pub fn run_many<T, E, W>(
        &self,
        weight: u32,
        work: W,
    ) -> impl Future<Output = Result<T, E>> + use<T, E, W>
    where
        W: Work<LeaseHandle, Result<T, E>>,
        E: From<LockError>,
    {
        let lease = self.acquire_many(weight);
        async move { lease.await?.run_and_end(work).await }
    }
}

impl RwLock {
    /// Acquires the lock as [`read`](Self::read) does, runs the work under the lease, and releases it, as
    /// [`Mutex::run`].
    ///
    /// # Errors
    ///
    #[doc = include_str!("errors/running.md")]
    /// - [`LockError::Quorum`] on a quorum, if too few servers agreed for the whole wait.
    #[doc = include_str!("errors/waiting.md")]
    ///
    /// # Cancel safety
    ///
    /// As safe as the work, which is dropped with the future. The lock is released in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LockError, Locks};
    ///
    /// async fn prices(locks: &Locks) -> Result<u32, LockError> {
    ///     locks.rw_lock("catalogue").run_read(async |_lease| Ok(3)).await
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # assert_eq!(prices(&Locks::in_memory()).await?, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_read<T, E, W>(&self, work: W) -> impl Future<Output = Result<T, E>> + use<T, E, W>
    where
        W: Work<LeaseHandle, Result<T, E>>,
        E: From<LockError>,
    {
        let lease = self.read();
        async move { lease.await?.run_and_end(work).await }
    }

    /// Acquires the lock as [`write`](Self::write) does, runs the work under the lease, and releases it,
    /// as [`Mutex::run`].
    ///
    /// # Errors
    ///
    #[doc = include_str!("errors/running.md")]
    /// - [`LockError::WouldDeadlock`] if the lock's owner holds it already, and would wait for itself.
    /// - [`LockError::Quorum`] on a quorum, if too few servers agreed for the whole wait.
    #[doc = include_str!("errors/waiting.md")]
    ///
    /// # Cancel safety
    ///
    /// As safe as the work, which is dropped with the future. The lock is released in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LockError, Locks};
    ///
    /// async fn import(locks: &Locks) -> Result<(), LockError> {
    ///     let catalogue = locks.rw_lock("catalogue");
    ///     catalogue.run_write(async |lease| lease.fence().map(drop)).await
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # import(&Locks::in_memory()).await
    /// # }
    /// ```
    pub fn run_write<T, E, W>(&self, work: W) -> impl Future<Output = Result<T, E>> + use<T, E, W>
    where
        W: Work<LeaseHandle, Result<T, E>>,
        E: From<LockError>,
    {
        let lease = self.write();
        async move { lease.await?.run_and_end(work).await }
    }
}

impl MultiLock {
    /// Acquires all locks as [`lock`](Self::lock) does, runs the work under their leases, and releases
    /// them, as [`Mutex::run`]. The loss of one lease drops the work, and the others are released.
    ///
    /// # Errors
    ///
    #[doc = include_str!("errors/running.md")]
    /// - [`LockError::Closed`] if an operator has set a [limit](crate::Locks::limits) that leaves no
    ///   room for the request, such as 0.
    /// - [`LockError::RateLimited`] if a rate is used up for the whole wait.
    #[doc = include_str!("errors/waiting.md")]
    ///
    /// # Cancel safety
    ///
    /// As safe as the work, which is dropped with the future. The lock is released in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LockError, Locks};
    ///
    /// async fn transfer(locks: &Locks) -> Result<(), LockError> {
    ///     let both = locks.all(["account:1", "account:2"]);
    ///     both.run(async |leases| {
    ///         let _fences = (leases.fence("account:1")?, leases.fence("account:2")?);
    ///         Ok(()) // move the money
    ///     })
    ///     .await
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # transfer(&Locks::in_memory()).await
    /// # }
    /// ```
    pub fn run<T, E, W>(&self, work: W) -> impl Future<Output = Result<T, E>> + use<T, E, W>
    where
        W: Work<LeaseSetHandle, Result<T, E>>,
        E: From<LockError>,
    {
        let leases = self.lock();
        async move { leases.await?.run_and_end(work).await }
    }
}
