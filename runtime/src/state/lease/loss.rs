//! How tasks wait for the end of a lease.

use tokio::task::consume_budget;

use super::LocalLease;
use super::deadlines::LONGEST_SLEEP;
use crate::core::error::{LockError, LossReason};
use crate::core::timers::runtime_with_timers;

impl LocalLease {
    /// Resolves when it is not held any more and somebody has noticed.
    pub(crate) async fn until_not_held(&self) {
        let mut changed = std::pin::pin!(self.changed.notified());
        changed.as_mut().enable();
        if self.is_held() {
            tokio::select! {
                () = changed => {}
                () = self.context.shutdown.over() => {}
            }
        }
    }

    /// Resolves when it is lost; never if it is released before.
    ///
    /// This works without the store: the deadline is enough.
    pub(crate) async fn lost(&self) -> LossReason {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(reason) = self.loss() {
                consume_budget().await;
                return reason;
            }
            if self.is_held() || self.phase.not_held().is_some() {
                assert!(runtime_with_timers().is_some(), "{}", LockError::NoRuntime);
                let left = self.deadline().saturating_duration_since(self.context.store.now());
                // The keeper watches the clock of a lease that it renews.
                let left = if self.is_renewed() { left } else { left.min(LONGEST_SLEEP) };
                tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep(left) => {}
                    () = self.context.shutdown.over() => {}
                }
            } else {
                changed.await;
            }
        }
    }

    /// Why the store does not hold it, of which it has said this. If it has no record of a lease whose
    /// time is not over here, something took the record away.
    pub(crate) fn why_not_held(&self, said: LossReason) -> LossReason {
        let is_gone =
            said == LossReason::Expired && self.context.store.now() < self.deadlines.deadline();
        if is_gone { LossReason::Gone } else { said }
    }
}
