//! How tasks wait for the end of a lease, and what the answers to its release mean.

use std::sync::atomic::Ordering;

use tokio::task::consume_budget;

use super::LocalLease;
use super::deadlines::LONGEST_SLEEP;
use crate::core::error::{LockError, LossReason, Outcome};
use crate::core::timers::runtime_with_timers;
use crate::store::{Ended, StoreError};

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

    /// Notes that a release got no answer.
    pub(crate) fn note_unconfirmed_release(&self) {
        self.is_release_unconfirmed.store(true, Ordering::Release);
    }

    /// Returns true if this answer to a release means that a release ended the lease: this one, or
    /// one before it that got no answer.
    pub(crate) fn is_released_by(&self, answer: Ended) -> bool {
        let is_unconfirmed = self.is_release_unconfirmed.load(Ordering::Acquire);
        !matches!(answer, Ended::NotHeld(_)) || is_unconfirmed
    }

    /// Notes that a release, or what came in its place, has failed with this error, and may have taken
    /// effect.
    pub(crate) fn note_failed_release(&self, error: &StoreError) {
        if error.outcome == Outcome::Unknown {
            self.note_unconfirmed_release();
        }
    }
}
