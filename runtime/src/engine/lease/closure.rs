//! Running a closure under a lease, to the lease's end.

use super::{Lease, LeaseHandle};
use crate::core::blocking::on_thread;
use crate::core::error::LockError;

impl Lease {
    /// Runs work under the lease, and ends the lease. A loss drops the work.
    pub(crate) async fn run_and_end<T, E, W>(self, work: W) -> Result<T, E>
    where
        W: AsyncFnOnce(LeaseHandle) -> Result<T, E>,
        E: From<LockError>,
    {
        let result = self.run(work(self.handle())).await?;
        self.finish(result.is_ok()).await;
        result
    }

    /// Runs a blocking function under the lease on a thread of its own, waits until it has
    /// returned, and ends the lease: it is completed if it has [`once`](crate::Mutex::once) and the
    /// function returns `Ok`, and released otherwise. For Diesel, `rusqlite`, files, and work that
    /// computes for long.
    ///
    /// **A loss can't stop a thread.** The function goes on to its end, while another may hold the
    /// lock. So it asks before each step that another holder must not see done:
    /// [`ensure_held`](LeaseHandle::ensure_held), or [`fence`](LeaseHandle::fence) for a statement that
    /// checks the token. Then it returns [`LockError::Lost`], and has done no more. What it returns is
    /// the answer, whatever became of the lease; a function that returns `Ok` after a loss is logged
    /// as a warning.
    ///
    /// Inside, [`LeaseHandle::current`] returns the lease's handle. If the thread begins only after the
    /// lease was lost, because too many others are at work, the function is not called.
    ///
    /// # Errors
    ///
    /// - The error that the function returns.
    /// - [`LockError::Lost`] if the lease was lost before the function was called.
    /// - [`LockError::NoRuntime`] outside of a Tokio runtime with timers, and when the runtime ends
    ///   before it calls the function.
    ///
    /// An error of the release never replaces the result; it is logged.
    ///
    /// # Panics
    ///
    /// If the function does. The lease is released in the background.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the function goes on. The lease is renewed until it has returned, and is
    /// then released, and not completed.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LockError, Locks};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// let locks = Locks::in_memory();
    /// let lease = locks.mutex("ledger").lock().await?;
    /// let rows = lease.run_blocking(|lease| {
    ///     let rows = 3; // read and write with the blocking driver
    ///     lease.ensure_held()?; // and only then commit
    ///     Ok::<_, LockError>(rows)
    /// });
    /// assert_eq!(rows.await?, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_blocking<T, E, W>(self, work: W) -> Result<T, E>
    where
        W: FnOnce(&LeaseHandle) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<LockError> + Send + 'static,
    {
        let (lease, result) = on_thread(move || {
            let handle = self.handle();
            handle.ensure_held()?;
            let result = {
                let _in_span = self.hold().enter();
                handle.sync_scope(|| work(&handle))
            };
            Ok((self, result))
        })
        .await?;
        lease.finish(result.is_ok()).await;
        result
    }
}
