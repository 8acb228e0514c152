//! One acquisition: wait for a turn in this process, ask the store, wait in its queue, give up,
//! clean up.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::Instrument;

use super::check::check;
use super::local::{Entered, enter, take_up, try_enter, wait_for_admission};
use super::schedule::AskSchedule;
use super::ticks::Ticks;
use super::time_limit::within;
use crate::client::not_granted::NotGranted;
use crate::client::pending::PendingRequest;
use crate::core::error::{LockError, Step};
use crate::core::log_rate::seldom;
use crate::core::options::{Options, Wait, WaitsAs};
use crate::engine::lease::{Lease, LeaseHandle, OwnLock};
use crate::engine::shared::Shared;
use crate::local_queue::Admission;
use crate::state::lease::Grant;
use crate::state::telemetry::{MeasuredAttempt, queued};
use crate::store::{Kind, Once, RequestSpec, StoreError};

/// Acquires one lock, within the wait of the options.
///
/// # Cancel safety
///
/// Dropping it at any point leaves nothing held. From its first command on, a request that is
/// dropped goes to the next waiter of this process, or the keeper cancels it.
#[expect(clippy::manual_async_fn, reason = "its future would have the arguments twice")]
pub(crate) fn acquire(
    shared: &Arc<Shared>,
    spec: RequestSpec,
    options: Options,
) -> impl Future<Output = Result<Lease, LockError>> {
    async move {
        check(shared, &spec, &options)?;
        let client = &shared.client;
        let begun = client.store.now();
        let mut attempt = MeasuredAttempt::new(spec.kind, &spec.key);
        if options.waits_as == WaitsAs::Caller {
            attempt.may_wait(begun);
        }
        let (span, is_of_semaphore) = (attempt.span(), matches!(spec.kind, Kind::Semaphore { .. }));
        let (own_lock, closed) = match client.limits.spec(&spec) {
            Ok(spec) => (LeaseHandle::own_lock(client.id, &spec), None),
            Err(closed) => (OwnLock::No, Some(closed)),
        };
        let mut result = match own_lock {
            _ if let Some(closed) = closed => Err(*closed),
            OwnLock::Never => {
                Err(AskSchedule::new(begun, options.wait).refused(spec.key, options.ttl))
            }
            _ if matches!(spec.kind, Kind::Once(Once::Per { .. })) => {
                // Boxed: other acquisitions have no room for two asks and the pause between them.
                let acquired =
                    Box::pin(acquire_in_a_tick(begun, shared, spec, options, &mut attempt));
                acquired.instrument(span).await
            }
            OwnLock::No | OwnLock::Waits => {
                let acquired = acquire_since((begun, begun), shared, spec, &options, &mut attempt);
                acquired.instrument(span).await
            }
        };
        if let Err(
            LockError::TimedOut { key, held_by_caller, is_semaphore, .. }
            | LockError::Busy { key, held_by_caller, is_semaphore, .. },
        ) = &mut result
        {
            *is_semaphore = is_of_semaphore;
            *held_by_caller =
                own_lock != OwnLock::No && LeaseHandle::around(client.id, key).is_some();
        }
        if let Err(LockError::TimedOut { key, held_by_client, .. }) = &mut result {
            *held_by_client = client.keeper.has_lease_of(key);
        }
        attempt.end(|| client.elapsed(begun), &result);
        result.map(Lease::begin_hold)
    }
}

/// Acquires work that is to succeed once in each tick.
async fn acquire_in_a_tick(
    begun: Instant,
    shared: &Arc<Shared>,
    mut spec: RequestSpec,
    options: Options,
    attempt: &mut MeasuredAttempt,
) -> Result<Lease, LockError> {
    let mut ticks = Ticks::new(begun, options);
    loop {
        let now = shared.client.store.now();
        let result = acquire_since((begun, now), shared, spec.clone(), &options, attempt).await;
        // Until the next tick begins it waits for no holder.
        attempt.waits_no_more();
        if let Some(result) = ticks.judge(shared, &mut spec, result).await {
            return result;
        }
    }
}

/// Acquires a lock for a caller that has waited since `begun`, and comes to the local queue `now`.
#[expect(clippy::manual_async_fn, reason = "its future would have the arguments twice")]
fn acquire_since(
    (begun, now): (Instant, Instant),
    shared: &Arc<Shared>,
    spec: RequestSpec,
    options: &Options,
    attempt: &mut MeasuredAttempt,
) -> impl Future<Output = Result<Lease, LockError>> {
    async move {
        let client = &shared.client;
        let mut schedule = AskSchedule::of(&*client.store, begun, options.wait);
        schedule.earlier = client.keeper.releases.earlier();
        let ttl = options.first_ttl();
        let mut acquisition = if schedule.is_try() {
            let soon = match try_enter(shared, &spec, ttl, options, now)? {
                Entered::Leased(lease) => return Ok(lease),
                Entered::Waits(waiter) => Some(waiter),
                Entered::Asks(()) => None,
            };
            // The store decides whether a lease lingers, and the answer is on its way.
            if let Some(waiter) = soon {
                let wait = Wait::For(SOON);
                let admission = wait_for_admission(&client.keeper.shutdown, waiter, wait, attempt);
                if let Some(mut admission) = Box::pin(admission).await?
                    && let Some(lease) = take_up(shared, &mut admission, &spec.key, options)
                {
                    return Ok(lease);
                }
                schedule.earlier = client.keeper.releases.earlier();
            }
            Acquisition {
                shared,
                pending: Some(PendingRequest::new(client, spec, ttl)),
                admission: None,
                attempt,
            }
        } else {
            let entered = match enter(shared, &spec, ttl, options, now) {
                Entered::Leased(lease) => return Ok(lease),
                Entered::Asks(admission) => Ok(admission),
                Entered::Waits(waiter) => Err(waiter),
            };
            let mut admission = match entered {
                Ok(admission) => admission,
                Err(waiter) => {
                    // Boxed, like the later wait for hints: each would enlarge the future of an
                    // acquisition that does not wait.
                    let wait = schedule.wait_left(client.store.now());
                    let admission =
                        wait_for_admission(&client.keeper.shutdown, waiter, wait, attempt);
                    let Some(admission) = Box::pin(admission).await? else {
                        return Box::pin(wait_is_over(begun, shared, spec, options, attempt)).await;
                    };
                    if let Some(done) = admission.done() {
                        return Err(schedule.error(NotGranted::Done(done), spec.key));
                    }
                    admission
                }
            };
            if let Some(lease) = take_up(shared, &mut admission, &spec.key, options) {
                return Ok(lease);
            }
            let pending = match admission.inherit().filter(|pending| pending.can_use_ttl(ttl)) {
                Some(pending) => pending.continued(&spec.key, ttl),
                None => PendingRequest::waiting(client, spec, ttl),
            };
            Acquisition { shared, pending: Some(pending), admission: Some(admission), attempt }
        };
        acquisition.ask_in_time(&mut schedule, options).await
    }
}

/// The end of a wait behind other tasks of this process. If the store has not answered the one that
/// asks, nobody knows whether others hold the lock: then it is asked once more, as by a try.
async fn wait_is_over(
    begun: Instant,
    shared: &Arc<Shared>,
    spec: RequestSpec,
    options: &Options,
    attempt: &mut MeasuredAttempt,
) -> Result<Lease, LockError> {
    let client = &shared.client;
    let mut schedule = AskSchedule::of(&*client.store, begun, options.wait);
    schedule.note_waited(client.store.now());
    let timed_out = schedule.timed_out(spec.key.clone());
    if shared.queues.is_answered(&spec) {
        return Err(timed_out);
    }
    let mut schedule = AskSchedule::of(&*client.store, begun, Wait::For(Duration::ZERO));
    let pending = Some(PendingRequest::new(client, spec, options.first_ttl()));
    let mut acquisition = Acquisition { shared, pending, admission: None, attempt };
    match acquisition.ask_in_time(&mut schedule, options).await {
        Err(LockError::Busy { .. }) => Err(timed_out),
        result => result,
    }
}

/// How long a try waits to hear whether a lease that was just released stays in this process.
const SOON: Duration = Duration::from_secs(1);

/// An acquisition under way. Dropping it leaves the request to another task, or to the keeper.
struct Acquisition<'a> {
    shared: &'a Arc<Shared>,
    /// Present until the end.
    pending: Option<PendingRequest>,
    /// `None` for a try, which stands in no local queue.
    admission: Option<Admission>,
    attempt: &'a mut MeasuredAttempt,
}

impl Acquisition<'_> {
    /// Asks within the time that the caller may wait. All of it by reference: the future of each
    /// acquisition contains what it is given.
    async fn ask_in_time(
        &mut self,
        schedule: &mut AskSchedule,
        options: &Options,
    ) -> Result<Lease, LockError> {
        let limit = schedule.time_limit(&*self.shared.client.store, options.first_ttl());
        let asked = within(limit, pin!(self.ask_until_granted(schedule, options))).await;
        asked.unwrap_or_else(|no_answer| Err(self.error(no_answer)))
    }

    fn error(&self, error: StoreError) -> LockError {
        let Some(pending) = &self.pending else { return LockError::ShutDown };
        LockError::store(Step::Acquire, pending.key(), error)
    }

    async fn ask_until_granted(
        &mut self,
        schedule: &mut AskSchedule,
        options: &Options,
    ) -> Result<Lease, LockError> {
        let Self { shared, pending: Some(pending), admission, attempt } = self else {
            return Err(LockError::ShutDown);
        };
        let (mut is_logged, mut is_queued, mut give_backs) = (false, admission.is_none(), 3);
        loop {
            if pending.is_shut_down() {
                return Err(LockError::ShutDown);
            }
            // A try needs no clock for that.
            let left =
                if schedule.is_try() { Duration::ZERO } else { schedule.left(pending.now()) };
            let asked = admission.as_ref().and_then(Admission::number);
            let refusal = match pending.ask(left).await {
                Ok(grant) => match lease(shared, pending, admission, grant, options) {
                    Some(lease) => return Ok(lease),
                    // The answer came after the lease had ended: this process or the network
                    // stood still.
                    None => NotGranted::TooLate,
                },
                Err(refusal) => refusal,
            };
            if let Some(admission) = admission {
                admission.note_answer(!matches!(refusal, NotGranted::Fault(_)));
                if let (NotGranted::Done(done), Some(asked)) = (&refusal, asked) {
                    admission.tell_done(asked, *done);
                }
            }
            // Its own idle leases need no message to go. Others here may keep new ones, and a message may
            // have let one go a moment ago.
            let gives_back = give_backs > 0
                && (refusal.is_refusal() || matches!(refusal, NotGranted::Recalled { .. }))
                && (shared.queues.give_back_idle(pending.key())
                    || give_backs < 3 && matches!(refusal, NotGranted::WrongKind));
            if gives_back {
                give_backs -= 1;
                schedule.earlier = shared.client.keeper.releases.earlier();
            }
            // If this client has releases under way, it asks again after their answers.
            if gives_back || refusal.is_refusal() && schedule.earlier.is_some() {
                if let Some(earlier) = schedule.earlier.take() {
                    Box::pin(shared.client.keeper.releases.answered(pending.key(), earlier)).await;
                }
                continue;
            }
            if matches!(refusal, NotGranted::TooLate) {
                // It asks as another request, and the cancelled one may still hold the lock.
                schedule.earlier = shared.client.keeper.releases.earlier();
            }
            // A caller that waits for ever gets no error, so the log says it.
            if let NotGranted::Fault(error) = &refusal
                && error.is_passing
                && options.wait == Wait::Forever
                && !std::mem::replace(&mut is_logged, true)
            {
                let (lock, error) = (pending.key().log_label(), &error.source);
                if let Some(left_out) = seldom("retrying", lock) {
                    tracing::warn!(lock, left_out, %error, "the lock store failed; retrying until it answers");
                }
            }
            is_logged &= matches!(refusal, NotGranted::Fault(_));
            if !std::mem::replace(&mut is_queued, true) {
                queued();
                attempt.waits(|| pending.now());
            }
            let hears = !schedule.is_try() && pending.hears_hints();
            let Some(pause) = schedule.next(pending.now(), &refusal, hears) else {
                return Err(schedule.error(refusal, pending.key().clone()));
            };
            // After a failure, missed hints do not shorten the pause.
            let is_faulty = matches!(refusal, NotGranted::Fault(_));
            if let Some(grant) = Box::pin(pending.wait_for_offer(pause, is_faulty)).await
                && let Some(lease) = lease(shared, pending, admission, grant, options)
            {
                return Ok(lease);
            }
            if let Some(admission) = admission {
                admission.note_activity();
            }
        }
    }
}

/// The lease of a grant, which goes to waiters of this process next, for a turn. If the grant
/// is over, it is cancelled and a new request asks.
fn lease(
    shared: &Arc<Shared>,
    pending: &mut PendingRequest,
    admission: &mut Option<Admission>,
    grant: Grant,
    options: &Options,
) -> Option<Lease> {
    let Some(mut lease) = Lease::unless_over(shared, grant, pending.now(), None, options) else {
        pending.start_anew();
        return None;
    };
    lease.turn = admission.take().and_then(|admission| admission.granted(options.first_ttl()));
    Some(lease)
}

impl Drop for Acquisition<'_> {
    fn drop(&mut self) {
        // Another task in the local queue may go on with the request.
        if let Some(admission) = self.admission.take()
            && let Some(pending) = self.pending.take()
            && pending.is_begun()
        {
            admission.leave_behind(pending);
        }
    }
}
