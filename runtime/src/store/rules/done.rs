//! The mark of work that succeeded: the scripts `mutex/acquire_once` and `mutex/complete`.

use std::time::Duration;

use super::context::Context;
use super::mutex;
use super::state::{Done, LockState};
use crate::core::error::LossReason;
use crate::store::once::millis;
use crate::store::{Attempt, Ended, Hint, Kind, Once, Request, Success, TickTimes, Waiting};

pub(super) fn acquire(
    lock: &mut LockState,
    request: &Request,
    once: Once,
    waiting: Option<Waiting>,
    context: &mut Context<'_>,
) -> Attempt {
    let now = context.now.millis();
    let until = lock.done.as_ref().map_or(0, |done| counts_until(done, once));
    let is_held = lock.record.as_ref().is_some_and(|it| it.holds(request.id) && !it.is_offered());
    if let Some(done) = &mut lock.done
        && until > now
        && !is_held
    {
        let (completed, left) = (done.completed, Duration::from_millis(until - now));
        done.stays = done.stays.max(context.now + left);
        lock.queue.leave(request.id);
        // An offer of work that is done goes to the next waiter.
        if lock.record.as_ref().is_some_and(|record| record.holds(request.id)) {
            let _ = mutex::release(lock, request, Duration::ZERO, context);
        }
        return Attempt::Done { completed, until, left };
    }
    match (mutex::acquire(lock, request, waiting, context), once) {
        (Attempt::Granted { token }, Once::Per { .. }) => {
            let last = lock.done.map(|done| done.granted);
            // If the work counts as done, the lease was granted in a later tick than the last
            // success: the clock went back since.
            let granted = now.max(until);
            let tick = TickTimes { began: once.tick_at(granted), last, granted };
            Attempt::GrantedTick { token, tick }
        }
        (answer, _) => answer,
    }
}

/// Until when the last success counts for a request, however its own request counted.
fn counts_until(done: &Done, once: Once) -> u64 {
    match once {
        Once::For(lasts) => done.completed.saturating_add(millis(lasts)),
        Once::Per { period, .. } => once.tick_at(done.granted).saturating_add(millis(period)),
    }
}

pub(super) fn complete(
    lock: &mut LockState,
    request: &Request,
    Success { tick, token }: Success,
    context: &mut Context<'_>,
) -> Ended {
    let id = request.id;
    if !lock.record.as_ref().is_some_and(|record| record.holds(id)) {
        lock.queue.leave(id);
        if lock.done.is_some_and(|done| done.id == id) {
            return Ended::Released;
        }
        let is_gone = lock.record.is_none();
        return Ended::NotHeld(if is_gone { LossReason::Expired } else { LossReason::Taken });
    }
    if token
        .is_some_and(|token| lock.record.as_ref().is_none_or(|record| record.token.number != token))
    {
        // A late copy of its ask was granted, and nobody works under it.
        let _ = mutex::release(lock, request, Duration::ZERO, context);
        return Ended::NotHeld(LossReason::Taken);
    }
    let Kind::Once(once) = request.kind else { return Ended::NotHeld(LossReason::Taken) };
    let (Once::For(lasts) | Once::Per { period: lasts, .. }) = once;
    let now = context.now.millis();
    let until = tick.map_or(now, |tick| tick.began).saturating_add(millis(lasts));
    let counts = Duration::from_millis(until.saturating_sub(now));
    let stays = context.now + counts.max(once.remembered()).max(Duration::from_millis(1));
    let (tick, granted) = (tick.map(|tick| tick.began), tick.map_or(now, |tick| tick.granted));
    lock.done = Some(Done { until, completed: now, tick, granted, id, stays });
    if until > now {
        let is_told = |kind: Kind| matches!(kind, Kind::Once(_));
        let waiters = lock.queue.waiters().filter(|(_, waiter)| is_told(waiter.demand.kind));
        let waiters: Vec<_> = waiters.map(|(id, _)| id).collect();
        for id in waiters {
            lock.queue.leave(id);
            context.tell(id.client(), Hint::Free { id });
        }
    }
    mutex::release(lock, request, Duration::ZERO, context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_success_counts_as_the_request_counts() {
        let (secs, id) = (Duration::from_secs, crate::store::RequestId::read(&[b'a'; 34]).unwrap());
        // A run that outlasted its tick of ten seconds.
        let done = Done {
            until: 20_000,
            completed: 21_500,
            tick: Some(10_000),
            granted: 19_500,
            id,
            stays: crate::store::rules::Time::since_beginning(secs(99)),
        };
        for (once, until) in [
            (Once::per(secs(10), Duration::ZERO), 20_000),
            (Once::per(secs(1), Duration::ZERO), 20_000),
            (Once::per(secs(60), Duration::ZERO), 60_000),
            (Once::per(secs(10), secs(9)), 29_000),
            (Once::For(secs(1)), 22_500),
            (Once::For(secs(60)), 81_500),
        ] {
            assert_eq!(counts_until(&done, once), until, "{once:?}");
        }
    }
}
