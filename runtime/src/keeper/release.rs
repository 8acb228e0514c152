//! Giving back: releases, and cancels of acquisitions that nobody waits for any more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use super::jobs::{Gate, Job, pause};
use crate::core::error::Outcome;
use crate::state::lease::LocalLease;
use crate::state::shutdown::ActivityGuard;
use crate::store::{Ended, LIVE_MOST, Request, Store, StoreError, StoreFuture};

/// For how long at least the bytes of a command that had no answer may still arrive: as
/// long as its connection may be silent before it is given up.
const LATE: Duration = Duration::from_millis(500);

/// Releases a lease, and tries until time has ended it anyway. What was held is kept for
/// the rest of its least time.
pub(super) fn release(
    store: Arc<dyn Store>,
    gate: Gate,
    local: Arc<LocalLease>,
    was_held: bool,
    activity: ActivityGuard,
) -> Job {
    Box::pin(async move {
        let keep = || if was_held { local.keep() } else { Duration::ZERO };
        let release = || store.release(&local.request, keep());
        if let Some(answer) = persist(&store, &gate, &local.request, "released", release).await {
            local.settle(!matches!(answer, Ended::NotHeld(_)));
        }
        end_doubt(store, gate, local, activity).await;
    })
}

/// Takes a lease that has ended back once more, if its acquisition was in doubt: late bytes
/// of it may have granted it anew, to nobody. No other lease has its request by now.
pub(super) fn end_doubt(
    store: Arc<dyn Store>,
    gate: Gate,
    local: Arc<LocalLease>,
    activity: ActivityGuard,
) -> Job {
    Box::pin(async move {
        let _activity = activity;
        // Outside of a runtime, where a guest's job may begin, nothing can wait.
        if let Some(since) = local.in_doubt().filter(|_| Handle::try_current().is_ok()) {
            sleep(late(&store, since)).await;
            cancel_all(&store, &gate, std::slice::from_ref(&local.request)).await;
        }
    })
}

/// When no late bytes are to be expected any more of a command that was sent then: what was
/// lost on the way is sent again after twice the time, and twice that.
fn late(store: &Arc<dyn Store>, sent: Instant) -> Duration {
    store.now().saturating_duration_since(sent).clamp(LATE, LIVE_MOST)
}

/// What may be on its way yet of an acquisition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doubt {
    /// An ask had no answer.
    is_certain: bool,
    /// When the first ask was sent that had none, or has none yet.
    since: Instant,
}

impl Doubt {
    /// Of an acquisition whose first ask without an answer, if there was one, was sent at
    /// `unanswered`, and whose last ask at `sent`.
    pub(crate) fn new(unanswered: Option<Instant>, sent: Instant) -> Self {
        Self { is_certain: unanswered.is_some(), since: unanswered.unwrap_or(sent) }
    }
}

/// Takes acquisitions back: behind their own command, whose answer is awaited
/// first, and until time has ended them anyway.
///
/// Those in doubt are taken back once more, by a job that is given to `later`: when no
/// late bytes of their commands are to be expected any more. A server that lets us end a
/// connection which was given up has none, but not all do.
pub(super) fn cancel<T: Send + 'static>(
    store: Arc<dyn Store>,
    gate: Gate,
    requests: Vec<Request>,
    in_flight: Option<StoreFuture<T>>,
    mut doubt: Doubt,
    activity: ActivityGuard,
    later: impl FnOnce(Job, Duration) + Send + 'static,
) -> Job {
    Box::pin(async move {
        if let Some(in_flight) = in_flight {
            // Granted or not, they are taken back.
            let is_unknown = |error: StoreError| error.outcome == Outcome::Unknown;
            doubt.is_certain |= match answered(in_flight).await {
                Some(answer) => answer.is_err_and(is_unknown),
                None => true,
            };
        }
        cancel_all(&store, &gate, &requests).await;
        if doubt.is_certain {
            let late = late(&store, doubt.since);
            let again = async move {
                cancel_all(&store, &gate, &requests).await;
                drop(activity);
            };
            later(Box::pin(again), late);
        }
    })
}

/// The answer of a command, unless it is never to come.
async fn answered<T>(command: StoreFuture<T>) -> Option<Result<T, StoreError>> {
    // Outside of a runtime, where a guest's job may begin, there are no timers.
    if Handle::try_current().is_err() {
        return Some(command.await);
    }
    timeout(LIVE_MOST, command).await.ok()
}

async fn cancel_all(store: &Arc<dyn Store>, gate: &Gate, requests: &[Request]) {
    let cancel = async |request: &Request| {
        persist(store, gate, request, "cancelled", || store.cancel(request)).await;
    };
    join_all(requests.iter().map(cancel)).await;
}

/// How often a store may refuse for good before it is believed: rights and
/// passwords may be in change.
const REFUSALS: u32 = 5;

/// Sends a command until it is answered, or its request has ended anyway; its answer, if
/// there was one.
async fn persist<T>(
    store: &Arc<dyn Store>,
    gate: &Gate,
    request: &Request,
    done: &str,
    command: impl Fn() -> StoreFuture<T>,
) -> Option<T> {
    // An offer, and a place in the queue, last as long as a waiter may live.
    let lasts = request.ttl.max(LIVE_MOST);
    let (mut end, mut refusals) = (None, 0);
    loop {
        let answer = {
            // It is never closed.
            let _turn = gate.acquire().await;
            command().await
        };
        let error = match answer {
            Ok(answer) => return Some(answer),
            Err(error) => error,
        };
        refusals += u32::from(!error.is_passing);
        // Outside of a runtime, where a guest's job may begin, nothing can wait.
        let is_hopeless = error.is_shut_down || Handle::try_current().is_err();
        let now = store.now();
        if is_hopeless || refusals >= REFUSALS || now >= *end.get_or_insert(now + lasts) {
            tracing::warn!(error = %error.source, "a lease could not be {done}; time ends it");
            return None;
        }
        sleep(pause(request.ttl)).await;
    }
}
