//! Running a closure under a set of leases, to their end.

use futures_util::future::join_all;

use super::{LeaseSet, LeaseSetHandle};
use crate::core::blocking::on_thread;
use crate::core::error::LockError;
use crate::engine::lease::{Lease, Scope};

impl LeaseSet {
    /// Ends the leases of work that has ended. The work's error tells of a loss: then only those
    /// that are held have an end.
    pub(crate) async fn finish(self, is_success: bool, was_lost: bool) {
        let ends = self.leases.into_iter().filter(|lease| !was_lost || lease.is_held());
        join_all(ends.map(|lease: Lease| lease.finish(is_success))).await;
    }

    /// Runs work under the leases, and ends them. A loss drops the work.
    pub(crate) async fn run_and_end<T, E, W>(self, work: W) -> Result<T, E>
    where
        W: AsyncFnOnce(LeaseSetHandle) -> Result<T, E>,
        E: From<LockError>,
    {
        let result = self.run(work(self.handle())).await;
        let (is_success, was_lost) = (matches!(result, Ok(Ok(_))), result.is_err());
        self.finish(is_success, was_lost).await;
        result?
    }

    /// Runs a blocking function under the leases on a thread of its own, waits until it has returned,
    /// and releases them. All that is said of [`Lease::run_blocking`] holds for each of them.
    ///
    /// # Errors
    ///
    /// - The error that the function returns.
    /// - [`LockError::Lost`] if a lease was lost before the function was called.
    /// - [`LockError::NoRuntime`] outside of a Tokio runtime with timers, and when the runtime ends
    ///   before it calls the function.
    ///
    /// # Panics
    ///
    /// If the function does. The leases are released in the background.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the function goes on. The leases are renewed until it has returned,
    /// and are then released.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LockError, Locks};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// let locks = Locks::in_memory();
    /// let leases = locks.all(["account:1", "account:2"]).lock().await?;
    /// let moved = leases.run_blocking(|leases| {
    ///     let _fence = leases.fence("account:1")?; // for the statement that moves the money
    ///     Ok::<_, LockError>(100)
    /// });
    /// assert_eq!(moved.await?, 100);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_blocking<T, E, W>(self, work: W) -> Result<T, E>
    where
        W: FnOnce(&LeaseSetHandle) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<LockError> + Send + 'static,
    {
        let (leases, result) = on_thread(move || {
            let handle = self.handle();
            handle.ensure_held()?;
            let result = {
                let _in_span = self.leases.last().map(|last| last.hold().enter());
                Scope::sync_around(Scope::of_set(self.handles(), false), || work(&handle))
            };
            Ok((self, result))
        })
        .await?;
        leases.finish(result.is_ok(), false).await;
        result
    }
}
