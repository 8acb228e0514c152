//! Running work under a lease.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use super::{Lease, LeaseHandle, LeaseState};
use crate::core::error::{LockError, LossReason};

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
        let (loss, work) = (pin!(self.local().lost()), pin!(self.handle.scope(work)));
        run_until(loss, &self.handle, work).await
    }
}

impl LeaseHandle {
    /// Runs a future under a lease that somebody else may release meanwhile, and drops it when
    /// the lease is lost or released.
    #[cfg_attr(not(feature = "macros"), expect(dead_code, reason = "the attribute calls it"))]
    pub(crate) async fn run_nested<F: Future>(&self, work: F) -> Result<F::Output, LockError> {
        let ended = async {
            self.until_not_held().await;
            match self.state() {
                LeaseState::Released => LossReason::Released,
                _ => self.lost().await,
            }
        };
        run_until(pin!(ended), self, pin!(self.scope(work))).await
    }
}

/// Runs pinned work: an async function that takes a future by value has room for it twice.
async fn run_until<T>(
    mut ended: Pin<&mut impl Future<Output = LossReason>>,
    lease: &LeaseHandle,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Result<T, LockError> {
    poll_fn(|context| {
        if let Poll::Ready(reason) = ended.as_mut().poll(context) {
            return Poll::Ready(Err(LockError::Lost { key: lease.key().clone(), reason }));
        }
        if !lease.is_held() {
            // It has ended, and how will be known soon.
            return Poll::Pending;
        }
        work.as_mut().poll(context).map(Ok)
    })
    .await
}
