//! How a lease was lost, and who is told.

use std::sync::Arc;

use super::jobs::Job;
use crate::core::error::LossReason;
use crate::state::lease::LocalLease;
use crate::store::{Ask, Request, Store};

/// `report_loss` as a job.
pub(super) fn report_loss_job(
    store: Arc<dyn Store>,
    local: Arc<LocalLease>,
    reason: LossReason,
) -> Job {
    Box::pin(async move { report_loss(&store, &local, reason).await })
}

/// Marks a lease lost if the store says that it was taken by force. Without an answer, its next
/// renewal finds out.
pub(super) fn lose_if_forced(store: Arc<dyn Store>, local: Arc<LocalLease>) -> Job {
    Box::pin(async move {
        if let Ok(true) = store.was_forced(&local.request).await {
            local.lose(LossReason::Forced);
        }
    })
}

/// Marks a lease lost once the store has said how. If this is dropped first, the lease is lost
/// with what is known by then.
pub(super) async fn report_loss(store: &Arc<dyn Store>, local: &LocalLease, reason: LossReason) {
    let mut report = LossReport { local, reason };
    report.reason = loss_reason(store, &local.request, reason).await;
}

/// Marks its lease lost when it is dropped.
struct LossReport<'a> {
    local: &'a LocalLease,
    reason: LossReason,
}

impl Drop for LossReport<'_> {
    fn drop(&mut self) {
        self.local.lose(self.reason);
    }
}

/// Reports a loss that the store told the release of a lease, unless it was known before. Says why.
pub(crate) async fn report_late_loss(
    store: &Arc<dyn Store>,
    local: &LocalLease,
    reason: LossReason,
) -> LossReason {
    let is_news = local.count_out(false) && local.has_ended();
    let mut report = LateLoss { local, reason: local.why_not_held(reason), is_news };
    report.reason = loss_reason(store, &local.request, report.reason).await;
    report.reason
}

/// Counts and logs a loss when it is dropped.
struct LateLoss<'a> {
    local: &'a LocalLease,
    reason: LossReason,
    is_news: bool,
}

impl Drop for LateLoss<'_> {
    fn drop(&mut self) {
        if self.is_news {
            self.local.tell_late_loss(self.reason);
        }
    }
}

/// How a lease was lost of which the store says that it is not held: asks whether it was taken
/// by force.
pub(crate) async fn loss_reason(
    store: &Arc<dyn Store>,
    request: &Request,
    reason: LossReason,
) -> LossReason {
    match store.was_forced(request).await {
        Ok(true) => LossReason::Forced,
        _ => reason,
    }
}
