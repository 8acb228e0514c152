//! Waiting for the end of a lease.

use tokio::task::consume_budget;

use super::LocalLease;
use super::deadlines::LOOK;
use crate::core::error::LossReason;

impl LocalLease {
    /// Resolves when somebody has seen that it is not held any more.
    pub(crate) async fn over(&self) {
        let mut changed = std::pin::pin!(self.changed.notified());
        changed.as_mut().enable();
        if self.is_held() {
            tokio::select! {
                () = changed => {}
                () = self.shutdown.over() => {}
            }
        }
    }

    /// Resolves when it is lost; never, if it is released before.
    ///
    /// Needs no answer of the store: the deadline is enough.
    pub(crate) async fn lost(&self) -> LossReason {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(reason) = self.loss() {
                consume_budget().await;
                return reason;
            }
            if self.is_held() || self.phase.gone().is_some() {
                let left = self.deadline().saturating_duration_since(self.store.now());
                // Who renews it looks at it as well.
                let left = if self.is_renewed() { left } else { left.min(LOOK) };
                tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep(left) => {}
                    () = self.shutdown.over() => {}
                }
            } else {
                changed.await;
            }
        }
    }
}
