//! Releases, and cancels of acquisitions that no caller waits for any more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::timeout;

use super::jobs::{Counted, Job, Jobs, later};
use super::loss::note_end;
use super::pending_releases::Ends;
use super::to_cancel::ToCancel;
use crate::core::key::LockKey;
use crate::core::repeats::{Repeats, Why};
use crate::core::timers::runtime_with_timers;
use crate::state::lease::LocalLease;
use crate::store::{Answer, Ask, Ended, LIVE_MOST, Store, StoreError, StoreFuture};

/// How long at least the bytes of an unanswered command may still arrive: as long as a silent
/// connection is kept.
const LATE_ARRIVAL: Duration = Duration::from_millis(500);

/// Releases a lease, and retries for as long as the store may still have it. If it was held until
/// now, its lock stays kept for the rest of `hold_at_least`.
pub(super) fn release(jobs: Arc<Jobs>, local: Arc<LocalLease>, was_held: bool) -> Job {
    let counted = jobs.begin(&local.request.key, Ends::Lease);
    release_as(jobs, counted, local, was_held)
}

/// The same for a lease that is counted already.
pub(super) fn release_as(
    jobs: Arc<Jobs>,
    counted: Counted,
    local: Arc<LocalLease>,
    was_held: bool,
) -> Job {
    Box::pin(async move {
        let release = || local.send_release(was_held);
        let of = (&local.request.key, local.request.ttl);
        if let Ok(answer) = repeat(&jobs, of, "released", Refusals::AreRepeated, release).await {
            note_end(&jobs.store, &local, answer).await;
        }
        drop(counted);
        cancel_late_grant(jobs, local);
    })
}

/// Completes a lease whose work has succeeded, and retries for as long as the store may still have it.
pub(super) fn complete(jobs: Arc<Jobs>, local: Arc<LocalLease>) -> Job {
    let counted = jobs.begin(&local.request.key, Ends::Lease);
    Box::pin(async move {
        let store = &jobs.store;
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
        match repeat(&jobs, of, "completed", Refusals::AreRepeated, complete).await {
            Ok((answer @ Ended::NotHeld(_), true)) => {
                tracing::warn!(
                    lock,
                    "work succeeded after its lease was lost; it does not count as done"
                );
                note_end(store, &local, answer).await;
            }
            Ok((Ended::NotHeld(_), false)) => {
                tracing::warn!(
                    lock,
                    "work succeeded, and an answer was lost; whether it counts as done is unknown"
                );
                local.count_out(true);
            }
            Ok((answer, _)) => note_end(store, &local, answer).await,
            Err(_) => {}
        }
        drop(counted);
        cancel_late_grant(jobs, local);
    })
}

/// Cancels the request of an ended lease, if an ask of it got no answer: that ask may arrive
/// late and grant the lock to nobody. The request was not handed over, so no later lease has it.
/// Nobody waits for that.
pub(super) fn cancel_late_grant(jobs: Arc<Jobs>, local: Arc<LocalLease>) {
    if let Some(since) = local.unanswered_since() {
        later(late(&jobs.store, since), async move {
            let requests = [local.request.clone().into()];
            cancel_all(&jobs, &requests, Refusals::AreRepeated).await;
        });
    }
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
}

/// Cancels acquisitions: after the answer to the command in flight, and with retries for as long as
/// the store may still have them.
///
/// A shutdown waits for one cancel of each, until the store answers. It does not wait for what only
/// makes sure:
/// - If an ask got no answer, a second cancel follows when that ask can no longer arrive late. When a
///   client connects again, it kills its abandoned connection on the server, and then nothing arrives
///   late; but some servers refuse that.
/// - If the store refuses the cancel, it is repeated: somebody may give the right.
pub(super) fn cancel(jobs: Arc<Jobs>, cancelled: Cancelled) -> Job {
    let Cancelled { requests, in_flight, mut outcome } = cancelled;
    let counted: Vec<_> = requests.iter().map(|it| jobs.begin(it.key(), Ends::Request)).collect();
    Box::pin(async move {
        if let Some(in_flight) = in_flight {
            // It is cancelled whether it was granted or not.
            outcome.is_unanswered |= match answered(in_flight).await {
                Some(answer) => answer.is_err_and(|error| error.is_unanswered()),
                None => true,
            };
        }
        let are_refused = cancel_all(&jobs, &requests, Refusals::End).await;
        drop(counted);
        let late = late(&jobs.store, outcome.since);
        let (after, again, refusals) = if outcome.is_unanswered {
            (late, requests, Refusals::AreRepeated)
        } else {
            let refused =
                requests.into_iter().zip(are_refused).filter(|(_, is_refused)| *is_refused);
            (Duration::ZERO, refused.map(|(request, _)| request).collect(), Refusals::WereMet)
        };
        if !again.is_empty() {
            later(after, async move { _ = cancel_all(&jobs, &again, refusals).await });
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

/// Returns for each request whether the store refused to cancel it.
async fn cancel_all(jobs: &Jobs, requests: &[ToCancel], refusals: Refusals) -> Vec<bool> {
    let cancel = async |request: &ToCancel| {
        let of = (request.key(), request.lasts());
        let cancelled =
            repeat(jobs, of, "cancelled", refusals, || request.send(&*jobs.store)).await;
        if cancelled == Ok(true) && matches!(request, ToCancel::Idle(_)) {
            jobs.shutdown.note_release();
        }
        cancelled == Err(Unfinished::Refused)
    };
    join_all(requests.iter().map(cancel)).await
}

/// What is done about a refusal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusals {
    /// The command is repeated: an operator may be changing permissions or passwords.
    AreRepeated,
    /// It is the end.
    End,
    /// There was one: the command is to be repeated, and it is told already.
    WereMet,
}

/// Why a command has no answer.
#[derive(Debug, PartialEq, Eq)]
enum Unfinished {
    Refused,
    /// The store has nothing more that the command could end.
    Over,
}

/// Sends a command until it is answered, or for as long as its request may last after the first
/// failure.
async fn repeat<T, F: Future<Output = Result<T, StoreError>>>(
    jobs: &Jobs,
    (key, ttl): (&LockKey, Duration),
    done: &str,
    refusals: Refusals,
    command: impl Fn() -> F,
) -> Result<T, Unfinished> {
    // An offer or a place in the queue lasts as long as a waiter may live.
    let lasts = ttl.max(LIVE_MOST);
    let (mut end, mut repeats) = (None, None);
    let mut was_refused = refusals == Refusals::WereMet;
    let mut why = was_refused.then_some(Why::Refused);
    let lock = key.log_label();
    loop {
        if let Some(why) = why {
            let repeats = repeats.get_or_insert_with(|| Repeats::new(&jobs.repeating));
            repeats.pause(why, ttl).await;
        }
        let answer = {
            // The semaphore is never closed.
            let _permit = jobs.commands.acquire().await;
            command().await
        };
        if answer.is_ok() && why == Some(Why::Refused) {
            // What it has refused of others, the server may take again, too.
            jobs.repeating.hurry();
        }
        let error = match answer {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        // In memory, a job runs on a caller's runtime, which may have no timers.
        let is_hopeless = error.is_shut_down || runtime_with_timers().is_none();
        let now = jobs.store.now();
        if is_hopeless || now >= *end.get_or_insert(now + lasts) {
            tracing::warn!(lock, error = %error.source, "a lease could not be {done}; its TTL ends it");
            return Err(Unfinished::Over);
        }
        if !error.is_passing && !std::mem::replace(&mut was_refused, true) {
            tracing::warn!(
                lock,
                error = %error.source,
                "a lease could not be {done} yet; retrying until its TTL ends it"
            );
        }
        why = Some(Why::of(&error));
        if why == Some(Why::Refused) && refusals == Refusals::End {
            return Err(Unfinished::Refused);
        }
    }
}
