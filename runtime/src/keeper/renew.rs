//! Renewing leases: which are due, and what an answer means.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::task::consume_budget;
use tokio::time::sleep_until;

use super::jobs::Jobs;
use super::loss::report_loss;
use super::release::release;
use crate::core::error::LossReason;
use crate::core::log_rate::seldom;
use crate::core::panics::caught;
use crate::core::repeats::retry_pause;
use crate::state::lease::LocalLease;
use crate::store::{Ask, Renewal, Store, StoreError};

/// Handles due leases: renews those that need it, in one batch for each TTL. `again` is called
/// with the time at which a lease is due next, `over` with a lease whose `max_hold` has ended.
pub(super) async fn renew_due(
    store: &Arc<dyn Store>,
    due: Vec<Arc<LocalLease>>,
    mut again: impl FnMut(&Arc<LocalLease>, Instant),
    mut over: impl FnMut(Arc<LocalLease>),
) {
    // A batch has one TTL: a short lease does not wait for the answers of longer ones.
    let mut batches = BTreeMap::<_, (Vec<_>, Vec<_>)>::new();
    for local in due {
        #[cfg(feature = "metrics")]
        local.show_if_it_lasts();
        // The newer run waits until the older one has stopped.
        if !local.is_held_or_stopping() {
            match local.release_due() {
                Some(end) if store.now() < end => again(&local, end),
                Some(_) => over(local),
                None => {}
            }
        } else if let Some((sent, request)) = local.renewal().filter(|_| local.needs_renewal()) {
            let (locals, requests) = batches.entry(request.ttl).or_default();
            locals.push((local, sent));
            requests.push(request);
        } else if !local.is_stopping() {
            again(&local, local.next_due(store.now()).min(local.deadline()));
        }
    }
    let ask = |(ttl, (locals, requests)): (_, (_, Vec<_>))| {
        let answers = store.renew_all(&requests);
        async move { (ttl, locals, answers.await) }
    };
    let mut asked: FuturesUnordered<_> = batches.into_iter().map(ask).collect();
    let (mut not_held, mut failures) = (Vec::new(), BTreeMap::new());
    while let Some((ttl, locals, answers)) = asked.next().await {
        for ((local, sent), answer) in locals.into_iter().zip(answers) {
            match apply_answer(&local, sent, ttl, answer) {
                Ok(RenewOutcome::Held(Some(next))) => again(&local, next),
                Ok(RenewOutcome::Held(None)) => {}
                Ok(RenewOutcome::NotHeld(reason)) => not_held.push((local, reason)),
                Err(error) => {
                    again(&local, store.now() + retry_pause(local.request.ttl).min(left(&local)));
                    // A lease that was lost meanwhile has had its log line.
                    if local.is_held() {
                        let failed = failures.entry(local.request.key.log_label());
                        failed.or_insert_with(|| (0_usize, error.source)).0 += 1;
                    }
                }
            }
        }
    }
    for (lock, (leases, error)) in failures {
        if let Some(left_out) = seldom("renewals", lock) {
            tracing::warn!(lock, left_out, leases, %error, "leases could not be renewed; trying again");
        }
    }
    join_all(not_held.iter().map(|(local, reason)| report_loss(store, local, *reason))).await;
}

/// How long a failed renewal is worth repeating: without end while its holder stops.
fn left(local: &LocalLease) -> Duration {
    if local.is_stopping() { Duration::MAX } else { local.remaining() }
}

/// The meaning of a renewal's answer for its lease.
pub(crate) enum RenewOutcome {
    /// It is held, and due next at that time if it is to be handled again.
    Held(Option<Instant>),
    /// It was held until this answer.
    NotHeld(LossReason),
}

/// Applies an answer to a lease. A failure is *unknown*, not *lost*: the renewal is retried
/// until the deadline. The answer *not held* is final.
fn apply_answer(
    local: &LocalLease,
    sent: Instant,
    ttl: Duration,
    answer: Result<Renewal, StoreError>,
) -> Result<RenewOutcome, StoreError> {
    match answer {
        Ok(Renewal::Renewed) => {
            local.count_renewal(sent, "renewed");
            local.extend(sent, ttl);
            Ok(RenewOutcome::Held(local.is_held_or_stopping().then(|| local.next_due(sent))))
        }
        Ok(Renewal::NotHeld(reason)) => {
            local.count_renewal(sent, "not_held");
            // Nothing changes if the guard has begun its release meanwhile.
            let reason = local.why_not_held(reason);
            Ok(if local.mark_not_held(reason) {
                RenewOutcome::NotHeld(reason)
            } else {
                RenewOutcome::Held(None)
            })
        }
        Err(error) => {
            local.count_renewal(sent, "failed");
            local.mark_suspect();
            Err(error)
        }
    }
}

/// Renews one lease now.
pub(crate) async fn renew(
    store: &Arc<dyn Store>,
    local: &LocalLease,
) -> Result<RenewOutcome, StoreError> {
    let Some((sent, request)) = local.renewal() else {
        consume_budget().await;
        return Ok(RenewOutcome::Held(None));
    };
    apply_answer(local, sent, request.ttl, store.renew(&request).await)
}

/// Handles one lease for as long as it is held.
pub(super) async fn renew_until_over(jobs: Arc<Jobs>, local: Arc<LocalLease>, first: Instant) {
    let (mut next, mut is_over) = (Some(first), false);
    while let Some(when) = next.take() {
        tokio::select! {
            () = local.until_not_held(), if local.is_held() => {}
            () = sleep_until(when.into()) => {}
        }
        let again = |_: &_, when| next = Some(when);
        if !caught(renew_due(&jobs.store, vec![local.clone()], again, |_| is_over = true)).await {
            next = Some(jobs.store.now() + retry_pause(local.request.ttl));
        }
    }
    if is_over {
        release(jobs, local, true).await;
    }
}

#[cfg(test)]
mod tests;
