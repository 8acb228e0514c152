//! How a lease was lost, and who is told.

use std::sync::Arc;

use super::jobs::Job;
use crate::core::error::LossReason;
use crate::state::lease::LocalLease;
use crate::store::{Ask, Ended, Request, Store};

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

/// Marks a lease lost once the store has said how.
pub(super) async fn report_loss(store: &Arc<dyn Store>, local: &LocalLease, reason: LossReason) {
    report(store, local, reason, LocalLease::lose).await;
}

/// Counts a lease out whose end the store has answered. If it had ended before, that is reported.
pub(super) async fn note_end(store: &Arc<dyn Store>, local: &LocalLease, answer: Ended) {
    match answer {
        Ended::NotHeld(reason) => _ = report_late_loss(store, local, reason).await,
        _ => _ = local.count_out(true),
    }
}

/// Reports a loss that the store told the release of a lease, unless it was known before. Says why.
pub(crate) async fn report_late_loss(
    store: &Arc<dyn Store>,
    local: &LocalLease,
    reason: LossReason,
) -> LossReason {
    let is_news = local.count_out(false) && local.has_ended();
    let reason = local.why_not_held(reason);
    if is_news {
        report(store, local, reason, LocalLease::tell_late_loss).await
    } else {
        loss_reason(store, &local.request, reason).await
    }
}

/// Tells of a loss once the store has said how. If this is dropped first, it is told with what is
/// known by then.
async fn report(
    store: &Arc<dyn Store>,
    local: &LocalLease,
    reason: LossReason,
    tell: fn(&LocalLease, LossReason),
) -> LossReason {
    let mut report = LossReport { local, reason, tell };
    report.reason = loss_reason(store, &local.request, reason).await;
    report.reason
}

/// Tells of a loss when it is dropped.
struct LossReport<'a> {
    local: &'a LocalLease,
    reason: LossReason,
    tell: fn(&LocalLease, LossReason),
}

impl Drop for LossReport<'_> {
    fn drop(&mut self) {
        (self.tell)(self.local, self.reason);
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
