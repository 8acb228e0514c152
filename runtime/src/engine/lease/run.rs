//! Running work under a lease.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use super::Lease;
use crate::core::error::LockError;

impl Lease {
    /// Runs a future under the lease, and drops it when the lease is lost. Inside,
    /// [`LeaseHandle::current`](crate::LeaseHandle::current) returns this lease's handle.
    ///
    /// The deadline is checked before each poll, so work that was paused past it does not go
    /// on.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lease was lost before the future was ready.
    ///
    /// # Cancel safety
    ///
    /// As safe as the given future, which is dropped with this one.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let locks = leasehold::Locks::in_memory();
    /// let lease = locks.mutex("order:42").lock().await?;
    /// let shipped = lease.run(async { "shipped" }).await?;
    /// assert_eq!(shipped, "shipped");
    /// lease.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockError> {
        let mut work = pin!(self.handle.scope(work));
        let mut loss = pin!(self.local().lost());
        poll_fn(|context| {
            if let Poll::Ready(reason) = loss.as_mut().poll(context) {
                return Poll::Ready(Err(self.lost_by(reason)));
            }
            if !self.local().is_held() {
                // It is lost, and how will be known soon.
                return Poll::Pending;
            }
            work.as_mut().poll(context).map(Ok)
        })
        .await
    }
}
