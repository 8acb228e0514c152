//! Renewing: which leases are due, what an answer means, and how a lease was lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::task::consume_budget;
use tokio::time::sleep_until;

use super::jobs::{Gate, Job, pause};
use super::release::release;
use crate::core::error::LossReason;
use crate::state::lease::LocalLease;
use crate::state::shutdown::{ActivityGuard, Shutdown};
use crate::state::telemetry;
use crate::store::{Renewal, Request, Store, StoreError};

/// Looks after leases that are due: renews what is to be renewed, all at once. `again` is
/// told when each is due next, `over` which were held for as long as they may be.
pub(super) async fn tend(
    store: &Arc<dyn Store>,
    due: Vec<Arc<LocalLease>>,
    mut again: impl FnMut(&Arc<LocalLease>, Instant),
    mut over: impl FnMut(Arc<LocalLease>),
) {
    // Those of a TTL go together: a short lease does not wait for the others' answers.
    let mut batches = BTreeMap::<_, (Vec<_>, Vec<_>)>::new();
    for local in due {
        if !local.is_held() {
            match local.end() {
                Some(end) if store.now() < end => again(&local, end),
                Some(_) => over(local),
                None => {}
            }
        } else if let Some((sent, request)) = local.renewal().filter(|_| local.is_to_be_renewed()) {
            let (locals, requests) = batches.entry(request.ttl).or_default();
            locals.push((local, sent));
            requests.push(request);
        } else {
            again(&local, local.deadline());
        }
    }
    let ask = |(ttl, (locals, requests)): (_, (_, Vec<_>))| {
        let answers = store.renew_all(&requests);
        async move { (ttl, locals, answers.await) }
    };
    let mut asked: FuturesUnordered<_> = batches.into_iter().map(ask).collect();
    let (mut gone, mut failures) = (Vec::new(), Vec::new());
    while let Some((ttl, locals, answers)) = asked.next().await {
        for ((local, sent), answer) in locals.into_iter().zip(answers) {
            match judge(&local, sent, ttl, answer) {
                Ok(Judged::Held(next)) => next.into_iter().for_each(|next| again(&local, next)),
                Ok(Judged::Gone(reason)) => gone.push((local, reason)),
                Err(error) => {
                    again(&local, store.now() + pause(local.request.ttl).min(local.remaining()));
                    failures.push(error.source);
                }
            }
        }
    }
    if let Some(error) = failures.first() {
        let leases = failures.len();
        tracing::warn!(leases, %error, "leases could not be renewed; trying again");
    }
    join_all(gone.iter().map(|(local, reason)| tell(store, local, *reason))).await;
}

/// What a renewal's answer means for a lease.
pub(crate) enum Judged {
    /// It is held, and is to be looked after then.
    Held(Option<Instant>),
    /// It is not, and was until now.
    Gone(LossReason),
}

/// A store that does not answer is to be asked again, until the deadline: *unknown* is
/// not *lost*. That it is not held is final.
fn judge(
    local: &LocalLease,
    sent: Instant,
    ttl: Duration,
    answer: Result<Renewal, StoreError>,
) -> Result<Judged, StoreError> {
    match answer {
        Ok(Renewal::Renewed) => {
            telemetry::renewal("renewed");
            local.prolong(sent, ttl);
            Ok(Judged::Held(local.is_held().then(|| local.next(sent))))
        }
        Ok(Renewal::NotHeld(reason)) => {
            telemetry::renewal("not_held");
            // Without effect if the guard has begun its release meanwhile.
            Ok(if local.vanish(reason) { Judged::Gone(reason) } else { Judged::Held(None) })
        }
        Err(error) => {
            telemetry::renewal("failed");
            local.suspect();
            Err(error)
        }
    }
}

/// Renews one lease.
pub(crate) async fn renew(
    store: &Arc<dyn Store>,
    local: &LocalLease,
) -> Result<Judged, StoreError> {
    let Some((sent, request)) = local.renewal() else {
        consume_budget().await;
        return Ok(Judged::Held(None));
    };
    judge(local, sent, request.ttl, store.renew(&request).await)
}

/// Says how a lease was lost that is not held any more.
pub(super) fn tell_once(store: Arc<dyn Store>, local: Arc<LocalLease>, reason: LossReason) -> Job {
    Box::pin(async move { tell(&store, &local, reason).await })
}

/// Lets a lease be lost if the store says that it was taken by force. Without an answer it
/// is left to its next renewal.
pub(super) fn check(store: Arc<dyn Store>, local: Arc<LocalLease>) -> Job {
    Box::pin(async move {
        if let Ok(true) = store.was_forced(&local.request).await {
            local.lose(LossReason::Forced);
        }
    })
}

/// Says how a lease was lost that is not held any more; as far as is known, if this is
/// dropped before it is told more.
async fn tell(store: &Arc<dyn Store>, local: &LocalLease, reason: LossReason) {
    let mut told = Told { local, reason };
    told.reason = why(store, &local.request, reason).await;
}

/// Says how a lease was lost when it is dropped.
struct Told<'a> {
    local: &'a LocalLease,
    reason: LossReason,
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.local.lose(self.reason);
    }
}

/// How a lease was lost that the store says is not held.
pub(crate) async fn why(
    store: &Arc<dyn Store>,
    request: &Request,
    reason: LossReason,
) -> LossReason {
    match store.was_forced(request).await {
        Ok(true) => LossReason::Forced,
        _ => reason,
    }
}

/// Looks after one lease for as long as it is held.
pub(super) async fn tend_until_over(
    store: Arc<dyn Store>,
    gate: Gate,
    shutdown: Arc<Shutdown>,
    local: Arc<LocalLease>,
    first: Instant,
) {
    let (mut next, mut is_over) = (Some(first), false);
    while let Some(when) = next.take() {
        tokio::select! {
            () = local.over(), if local.is_held() => {}
            () = sleep_until(when.into()) => {}
        }
        tend(&store, vec![local.clone()], |_, when| next = Some(when), |_| is_over = true).await;
    }
    if is_over {
        release(store, gate, local, true, ActivityGuard::new(&shutdown)).await;
    }
}

#[cfg(test)]
mod tests;
