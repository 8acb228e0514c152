//! Running work under a lease.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
#[cfg(feature = "macros")]
use std::task::Context;
use std::task::Poll;

use super::Lease;
#[cfg(feature = "macros")]
use super::{LeaseHandle, LeaseState, StopAt};
use crate::core::error::{LockError, LossReason};
use crate::core::timers::check_timers;
#[cfg(feature = "macros")]
use crate::state::telemetry::Hold;

impl Lease {
    /// Runs a future under the lease, and drops it when the lease is lost. Inside,
    /// [`LeaseHandle::current`](crate::LeaseHandle::current) returns this lease's handle.
    ///
    /// The deadline is checked before each poll, so work that was paused past it does not go
    /// on.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] if the lease was lost before the future was ready.
    /// - [`LockError::NoRuntime`] outside of a Tokio runtime with timers. The future is dropped.
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
        check_timers()?;
        let (loss, work) = (pin!(self.local().lost()), pin!(self.handle.scope_of(true, work)));
        run_until(loss, self, work).await
    }
}

#[cfg(feature = "macros")]
impl LeaseHandle {
    /// Runs a future under the lease until it is stopped. One function for all cases: each
    /// annotated function has a copy of this.
    pub(crate) async fn run_until<F: Future>(
        &self,
        stop: StopAt,
        hold: Option<&Hold>,
        work: F,
    ) -> Result<F::Output, LockError> {
        if stop != StopAt::Nothing {
            check_timers()?;
        }
        // Only of a lease of its own is there a span.
        let lasts = stop == StopAt::Loss && hold.is_some();
        let (mut stopped, mut work) = (pin!(self.stopped(stop)), pin!(self.scope_of(lasts, work)));
        poll_fn(|context| {
            if let Some(answer) = self.poll_stop(stop, stopped.as_mut(), context) {
                return answer.map(Err);
            }
            let _in_span = hold.map(Hold::enter);
            work.as_mut().poll(context).map(Ok)
        })
        .await
    }

    fn poll_stop(
        &self,
        stop: StopAt,
        stopped: Pin<&mut impl Future<Output = LossReason>>,
        context: &mut Context<'_>,
    ) -> Option<Poll<LockError>> {
        if stop == StopAt::Nothing {
            return None;
        }
        if let Poll::Ready(reason) = stopped.poll(context) {
            return Some(Poll::Ready(LockError::Lost { key: self.key().clone(), reason }));
        }
        // It has ended, and how will be known soon.
        (!self.is_held()).then_some(Poll::Pending)
    }

    async fn stopped(&self, stop: StopAt) -> LossReason {
        if stop == StopAt::End {
            // Boxed: seldom, and the others have no room for it.
            Box::pin(self.until_not_held()).await;
            if self.state() == LeaseState::Released {
                return LossReason::Released;
            }
        }
        self.local().lost().await
    }
}

/// Runs pinned work: an async function that takes a future by value has room for it twice.
async fn run_until<T>(
    mut ended: Pin<&mut impl Future<Output = LossReason>>,
    lease: &Lease,
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
        let _in_span = lease.hold().enter();
        work.as_mut().poll(context).map(Ok)
    })
    .await
}
