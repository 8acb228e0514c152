//! What the keeper does: renew, release, cancel.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::consume_budget;
use tokio::time::{sleep, sleep_until, timeout};

use crate::core::error::{LossReason, Outcome};
use crate::state::lease::LocalLease;
use crate::state::shutdown::{ActivityGuard, Shutdown};
use crate::state::telemetry;
use crate::store::{Ended, LIVE_MOST, Renewal, Request, Store, StoreError, StoreFuture};

/// Work that is done once.
pub(super) type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How many commands of jobs are under way at a time. All at once would take the server
/// longer than a command may take, and fail together. Who waits to try again has no turn.
pub(super) type Gate = Arc<Semaphore>;

/// For how long at least the bytes of a command that had no answer may still arrive: as
/// long as its connection may be silent before it is given up.
const LATE: Duration = Duration::from_millis(500);

/// The pause after a failure: short beside the TTL, so that several tries fit
/// into what is left of a lease; and random, so that not all come back at once.
fn pause(ttl: Duration) -> Duration {
    let longest = (ttl / 20).clamp(Duration::from_millis(10), Duration::from_millis(500));
    longest.mul_f64(0.5 + 0.5 * fastrand::f64())
}

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

#[cfg(test)]
mod tests;
