//! Releases, and cancels of acquisitions that no caller waits for any more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use super::jobs::{Job, JobLimit, retry_pause};
use super::loss::note_end;
use super::pending_releases::PendingRelease;
use super::to_cancel::ToCancel;
use crate::core::error::Outcome;
use crate::core::key::LockKey;
use crate::core::timers::runtime_with_timers;
use crate::state::lease::LocalLease;
use crate::state::shutdown::ActivityGuard;
use crate::store::{Answer, Ask, Ended, LIVE_MOST, Store, StoreError, StoreFuture};

/// How long at least the bytes of an unanswered command may still arrive: as long as a silent
/// connection is kept.
const LATE_ARRIVAL: Duration = Duration::from_millis(500);

/// Releases a lease, and retries for as long as the store may still have it. If it was held until
/// now, its lock stays kept for the rest of `hold_at_least`. `pending` is `None` if `max_hold` has
/// ended the lease.
pub(super) fn release(
    store: Arc<dyn Store>,
    limit: JobLimit,
    local: Arc<LocalLease>,
    was_held: bool,
    pending: Option<PendingRelease>,
    activity: ActivityGuard,
) -> Job {
    Box::pin(async move {
        let release = || local.send_release(was_held);
        let of = (&local.request.key, local.request.ttl);
        if let Some(answer) = retry_until_over(&store, &limit, of, "released", release).await {
            note_end(&store, &local, answer).await;
        }
        drop(pending);
        cancel_late_grant(store, limit, local, activity).await;
    })
}

/// Completes a lease whose work has succeeded, and retries for as long as the store may still have it.
pub(super) fn complete(
    store: Arc<dyn Store>,
    limit: JobLimit,
    local: Arc<LocalLease>,
    pending: PendingRelease,
    activity: ActivityGuard,
) -> Job {
    Box::pin(async move {
        let complete = || {
            let sent = local.begin_to_send_release();
            let command = store.complete(&local.request, local.success());
            // A store that can't record a success only releases.
            let command = command.unwrap_or_else(|| store.release(&local.request, Duration::ZERO));
            async move {
                let answer = command.await.inspect_err(|error| sent.failed(error))?;
                Ok((answer, sent.is_first()))
            }
        };
        let of = (&local.request.key, local.request.ttl);
        let lock = local.request.key.log_label();
        match retry_until_over(&store, &limit, of, "completed", complete).await {
            Some((answer @ Ended::NotHeld(_), true)) => {
                tracing::warn!(
                    lock,
                    "work succeeded after its lease was lost; it does not count as done"
                );
                note_end(&store, &local, answer).await;
            }
            Some((Ended::NotHeld(_), false)) => {
                tracing::warn!(
                    lock,
                    "work succeeded, and an answer was lost; whether it counts as done is unknown"
                );
                local.count_out(true);
            }
            Some((answer, _)) => note_end(&store, &local, answer).await,
            None => {}
        }
        drop(pending);
        cancel_late_grant(store, limit, local, activity).await;
    })
}

/// Cancels the request of an ended lease, if an ask of it got no answer: that ask may arrive
/// late and grant the lock to nobody. The request was not handed over, so no later lease has it.
pub(super) fn cancel_late_grant(
    store: Arc<dyn Store>,
    limit: JobLimit,
    local: Arc<LocalLease>,
    activity: ActivityGuard,
) -> Job {
    Box::pin(async move {
        let _activity = activity;
        // In memory, a job runs on a caller's runtime, which may have no timers.
        if let Some(since) = local.unanswered_since().filter(|_| runtime_with_timers().is_some()) {
            sleep(late(&store, since)).await;
            cancel_all(&store, &limit, &[local.request.clone().into()]).await;
        }
    })
}

/// How long to wait until an unanswered ask can no longer arrive: as long again as has passed since
/// it was sent. TCP doubles its pause before each retransmission.
pub(crate) fn late(store: &Arc<dyn Store>, sent: Instant) -> Duration {
    store.now().saturating_duration_since(sent).clamp(LATE_ARRIVAL, LIVE_MOST)
}

/// What is not known of an acquisition that is given up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnknownOutcome {
    /// An ask failed without an answer. If false, at most the command in flight is open.
    is_unanswered: bool,
    /// When the first such ask was sent, or else the last ask.
    since: Instant,
}

impl UnknownOutcome {
    /// `unanswered_since` is when the first unanswered ask was sent, if there was one; `sent` is
    /// when the last ask was sent.
    pub(crate) fn new(unanswered_since: Option<Instant>, sent: Instant) -> Self {
        Self { is_unanswered: unanswered_since.is_some(), since: unanswered_since.unwrap_or(sent) }
    }
}

/// Acquisitions that are given up.
pub(super) struct Cancelled {
    pub(super) requests: Vec<ToCancel>,
    /// Their command, if it is still in flight.
    pub(super) in_flight: Option<StoreFuture<Answer>>,
    pub(super) outcome: UnknownOutcome,
    pub(super) pending: Vec<PendingRelease>,
}

/// Cancels acquisitions: after the answer to the command in flight, and with retries for as long as
/// the store may still have them.
///
/// If an ask got no answer, `later` runs a second cancel when that ask can no longer arrive
/// late. When a client connects again, it kills its abandoned connection on the server, and then
/// nothing arrives late; but some servers refuse that.
pub(super) fn cancel(
    store: Arc<dyn Store>,
    limit: JobLimit,
    cancelled: Cancelled,
    activity: ActivityGuard,
    later: impl FnOnce(Job, Duration) + Send + 'static,
) -> Job {
    Box::pin(async move {
        let Cancelled { requests, in_flight, mut outcome, pending } = cancelled;
        if let Some(in_flight) = in_flight {
            // It is cancelled whether it was granted or not.
            let is_unknown = |error: StoreError| error.outcome == Outcome::Unknown;
            outcome.is_unanswered |= match answered(in_flight).await {
                Some(answer) => answer.is_err_and(is_unknown),
                None => true,
            };
        }
        cancel_all(&store, &limit, &requests).await;
        drop(pending);
        if outcome.is_unanswered {
            let late = late(&store, outcome.since);
            let again = async move {
                cancel_all(&store, &limit, &requests).await;
                drop(activity);
            };
            later(Box::pin(again), late);
        }
    })
}

/// The answer to a command, unless it takes too long.
async fn answered(command: StoreFuture<Answer>) -> Option<Result<Answer, StoreError>> {
    // In memory, a job runs on a caller's runtime, which may have no timers.
    if runtime_with_timers().is_none() {
        return Some(command.await);
    }
    timeout(LIVE_MOST, command).await.ok()
}

async fn cancel_all(store: &Arc<dyn Store>, limit: &JobLimit, requests: &[ToCancel]) {
    let cancel = async |request: &ToCancel| {
        let of = (request.key(), request.lasts());
        retry_until_over(store, limit, of, "cancelled", || request.send(&**store)).await;
    };
    join_all(requests.iter().map(cancel)).await;
}

/// Sends a command until it is answered, or for as long as its request may last after the first
/// failure. Returns the answer, if there was one. A refusal is no reason to give up: an operator may
/// be changing permissions or passwords.
async fn retry_until_over<T, F: Future<Output = Result<T, StoreError>>>(
    store: &Arc<dyn Store>,
    limit: &JobLimit,
    (key, ttl): (&LockKey, Duration),
    done: &str,
    command: impl Fn() -> F,
) -> Option<T> {
    // An offer or a place in the queue lasts as long as a waiter may live.
    let lasts = ttl.max(LIVE_MOST);
    let (mut end, mut was_refused) = (None, false);
    loop {
        let answer = {
            // The semaphore is never closed.
            let _permit = limit.acquire().await;
            command().await
        };
        let error = match answer {
            Ok(answer) => return Some(answer),
            Err(error) => error,
        };
        // In memory, a job runs on a caller's runtime, which may have no timers.
        let is_hopeless = error.is_shut_down || runtime_with_timers().is_none();
        let now = store.now();
        let lock = key.log_label();
        if is_hopeless || now >= *end.get_or_insert(now + lasts) {
            tracing::warn!(lock, error = %error.source, "a lease could not be {done}; its TTL ends it");
            return None;
        }
        if !error.is_passing && !was_refused {
            was_refused = true;
            tracing::warn!(
                lock,
                error = %error.source,
                "a lease could not be {done} yet; retrying until its TTL ends it"
            );
        }
        sleep(retry_pause(ttl)).await;
    }
}
