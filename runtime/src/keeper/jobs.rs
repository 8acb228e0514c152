//! What the keeper does: renew, release, cancel.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::time::{sleep, sleep_until};

use crate::store::{LIVE_MOST, Renewal, Request, Store, StoreError, StoreFuture};
use crate::term::Term;
use crate::{LossReason, telemetry};

/// Work that is done once.
pub(super) type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The pause after a failure: short beside the TTL, so that several tries fit
/// into what is left of a lease; and random, so that not all come back at once.
fn pause(ttl: Duration) -> Duration {
    let longest = (ttl / 20).clamp(Duration::from_millis(10), Duration::from_millis(500));
    longest.mul_f64(0.5 + 0.5 * fastrand::f64())
}

/// Renews a lease, and says when to do so again, if it is still held.
///
/// A store that does not answer is asked again soon, until the deadline:
/// *unknown* is not *lost*. That it is not held is final.
pub(super) async fn renew(store: &Arc<dyn Store>, term: &Term) -> Option<Instant> {
    if !term.is_held() {
        return None;
    }
    let sent = store.now();
    match store.renew(&term.request).await {
        Ok(Renewal::Renewed) => {
            telemetry::renewal("renewed");
            term.prolong(sent);
            Some(sent + term.request.ttl / 3)
        }
        Ok(Renewal::NotHeld(reason)) => {
            telemetry::renewal("not_held");
            // Without effect if the guard has begun its release meanwhile.
            if term.vanish(reason) {
                term.lose(why(store, &term.request, reason).await);
            }
            None
        }
        Err(StoreError { source, .. }) => {
            telemetry::renewal("failed");
            tracing::warn!(error = %source, "a lease could not be renewed; trying again");
            Some(store.now() + pause(term.request.ttl).min(term.remaining()))
        }
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

/// Renews one lease for as long as it is held.
pub(super) async fn renew_until_over(store: Arc<dyn Store>, term: Arc<Term>, first: Instant) {
    let mut next = Some(first);
    while let Some(when) = next {
        tokio::select! {
            () = term.over() => return,
            () = sleep_until(when.into()) => next = renew(&store, &term).await,
        }
    }
}

/// Releases a lease, and tries until time has ended it anyway.
pub(super) fn release(store: Arc<dyn Store>, request: Request, keep_until: Option<Instant>) -> Job {
    Box::pin(async move {
        let release = || {
            let keep = keep_until.map(|end| end.saturating_duration_since(store.now()));
            store.release(&request, keep.unwrap_or_default())
        };
        persist(&store, &request, "released", release).await;
    })
}

/// Takes acquisitions back: behind their own command, whose answer is awaited
/// first, and until time has ended them anyway.
pub(super) fn cancel<T: Send + 'static>(
    store: Arc<dyn Store>,
    requests: Vec<Request>,
    in_flight: Option<StoreFuture<T>>,
) -> Job {
    Box::pin(async move {
        if let Some(in_flight) = in_flight {
            // Granted or not, they are taken back.
            let _ = in_flight.await;
        }
        let cancel = async |request: &Request| {
            persist(&store, request, "cancelled", || store.cancel(request)).await;
        };
        join_all(requests.iter().map(cancel)).await;
    })
}

/// How often a store may refuse for good before it is believed: rights and
/// passwords may be in change.
const REFUSALS: u32 = 5;

async fn persist<T>(
    store: &Arc<dyn Store>,
    request: &Request,
    done: &str,
    command: impl Fn() -> StoreFuture<T>,
) {
    // An offer, and a place in the queue, last as long as a waiter may live.
    let end = store.now() + request.ttl.max(LIVE_MOST);
    let mut refusals = 0;
    while let Err(error) = command().await {
        refusals += u32::from(!error.is_passing);
        // Outside of a runtime, where a guest's job may begin, nothing can wait.
        let is_hopeless = error.is_shut_down || Handle::try_current().is_err();
        if is_hopeless || refusals >= REFUSALS || store.now() >= end {
            tracing::warn!(error = %error.source, "a lease could not be {done}; time ends it");
            return;
        }
        sleep(pause(request.ttl)).await;
    }
}
