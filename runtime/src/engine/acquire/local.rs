//! What an acquisition finds in this process: an idle lease, other tasks that wait, or nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::schedule::AskSchedule;
use crate::core::error::LockError;
#[cfg(feature = "tower")]
use crate::core::error::Step;
use crate::core::key::LockKey;
use crate::core::options::{Options, Wait};
use crate::engine::lease::Lease;
use crate::engine::shared::Shared;
use crate::local_queue::{Admission, Entry, TakenUp, TryEntry, Waiter};
use crate::state::shutdown::Shutdown;
use crate::state::telemetry::{self, MeasuredAttempt, queued};
#[cfg(feature = "tower")]
use crate::store::Kind;
use crate::store::RequestSpec;

/// Takes up a lease without an owner that is idle in this process. `None` if there is none, or if
/// the acquisition is to be refused: then [`acquire`](super::acquire) says why. It never waits, so
/// its caller must give other tasks their time.
#[cfg(feature = "tower")]
pub(crate) fn take_idle(
    shared: &Arc<Shared>,
    key: &LockKey,
    kind: Kind,
    options: &Options,
) -> Option<Lease> {
    let client = &shared.client;
    if options.linger.is_zero() || options.check(kind.is_mutex()).is_err() {
        return None;
    }
    client.check_not_forked(Step::Acquire, key).ok()?;
    client.limits.in_force(key, kind).ok()?;
    let begun = client.store.now();
    let idle = shared.queues.take_idle(key, kind, lasting(options, options.first_ttl()), begun)?;
    let lease = lease_of(shared, idle, key, options)?;
    MeasuredAttempt::new(kind, key).end(|| client.elapsed(begun), &Ok(()));
    Some(lease.begin_hold())
}

/// How long a lease must last at least, and whether that is from now on: if nobody renews it.
fn lasting(options: &Options, ttl: Duration) -> (Duration, bool) {
    (ttl, !options.auto_renew)
}

/// How an acquisition begins in this process.
pub(super) enum Entered<A> {
    /// It has an idle lease.
    Leased(Lease),
    /// It asks the store.
    Asks(A),
    Waits(Waiter),
}

/// Enters the local queue. Without awaits: an acquisition has no room for what it may find there.
pub(super) fn enter(
    shared: &Arc<Shared>,
    spec: &RequestSpec,
    ttl: Duration,
    options: &Options,
    now: Instant,
) -> Entered<Admission> {
    loop {
        match shared.queues.enter(spec, lasting(options, ttl), now) {
            Entry::Idle(idle) => {
                if let Some(lease) = lease_of(shared, idle, &spec.key, options) {
                    return Entered::Leased(lease);
                }
            }
            Entry::Admitted(admission) => return Entered::Asks(admission),
            Entry::Waiter(waiter) => return Entered::Waits(waiter),
        }
    }
}

/// Looks into the local queue, for an acquisition that does not wait.
pub(super) fn try_enter(
    shared: &Arc<Shared>,
    spec: &RequestSpec,
    ttl: Duration,
    options: &Options,
    now: Instant,
) -> Result<Entered<()>, LockError> {
    // An owner that holds the lock may enter it again past all waiters; the store decides that.
    if spec.may_reenter() {
        return Ok(Entered::Asks(()));
    }
    match shared.queues.try_enter(spec, lasting(options, ttl), now) {
        TryEntry::Ask => Ok(Entered::Asks(())),
        TryEntry::Idle(idle) => {
            let lease = lease_of(shared, idle, &spec.key, options);
            Ok(lease.map_or(Entered::Asks(()), Entered::Leased))
        }
        TryEntry::Soon(waiter) => Ok(Entered::Waits(waiter)),
        // The time until a release is unknown, but a lease of this TTL would end by then.
        TryEntry::Busy => {
            Err(AskSchedule::new(now, options.wait).refused(spec.key.clone(), options.ttl))
        }
    }
}

/// Waits behind other tasks of this process. `None` if the wait is over first, or the queue is gone.
pub(super) async fn wait_for_admission(
    shutdown: &Shutdown,
    mut waiter: Waiter,
    wait: Wait,
    attempt: &mut MeasuredAttempt,
) -> Result<Option<Admission>, LockError> {
    queued();
    let admission = async {
        match wait {
            Wait::Forever => waiter.admission(attempt).await,
            Wait::For(wait) => timeout(wait, waiter.admission(attempt)).await.ok().flatten(),
        }
    };
    tokio::select! {
        biased;
        () = shutdown.begun() => Err(LockError::ShutDown),
        admission = admission => Ok(admission),
    }
}

/// The lease that was handed over in this process, or was idle. If there is none, the admission
/// is one to ask the store.
pub(super) fn take_up(
    shared: &Arc<Shared>,
    admission: &mut Admission,
    key: &LockKey,
    options: &Options,
) -> Option<Lease> {
    let lease = lease_of(shared, admission.take_up()?, key, options);
    if lease.is_none() {
        admission.ask_instead();
    }
    lease
}

/// The lease of a grant that this process had before, perhaps under another label. `None` if it is over.
fn lease_of(
    shared: &Arc<Shared>,
    taken: TakenUp,
    key: &LockKey,
    options: &Options,
) -> Option<Lease> {
    let TakenUp { mut grant, turn, activity: _activity } = taken;
    grant.request.key.label_as(key);
    // It was taken up just now.
    let now = grant.times.sent;
    let lease = Lease::unless_over(shared, grant, now, Some(turn), options)?;
    telemetry::granted_locally(&lease.local().request);
    Some(lease)
}
