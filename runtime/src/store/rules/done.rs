//! The mark of work that succeeded: the scripts `mutex/acquire_once`, `mutex/complete` and
//! `mutex/run_again`.

use std::time::Duration;

use super::context::Context;
use super::mutex;
use super::state::{Done, LockState, Status};
use super::time::Time;
use crate::core::error::LossReason;
use crate::store::once::millis;
use crate::store::{
    AskedAgain, AskedNote, Attempt, Ended, Hint, JobRuns, Kind, NOTES_KEPT, Note, Once, Request,
    RunAgain, Success, TickTimes, Waiting,
};

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
            if !is_held {
                note_run(lock, request, once, granted, context.now);
            }
            Attempt::GrantedTick { token, tick }
        }
        (answer, _) => answer,
    }
}

/// Notes a run that begins at this time, in milliseconds since the Unix epoch.
fn note_run(lock: &mut LockState, request: &Request, once: Once, began: u64, now: Time) {
    let last_success = lock.done.map_or(0, |done| done.granted);
    let before = lock.runs.map(|(runs, _)| runs).filter(|runs| runs.last > last_success);
    let runs = JobRuns {
        first: before.map_or(began, |runs| runs.first),
        last: began,
        tick: once.tick_lasts(),
        ends: before.map_or_else(|| once.tick_ends(began), |runs| runs.ends),
        id: request.id,
        count: before.map_or(0, |runs| runs.count) + 1,
    };
    lock.runs = Some((runs, now + once.remembered()));
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
    let record = lock.record.as_ref();
    let (is_gone, has_it) = (record.is_none(), record.is_some_and(|record| record.holds(id)));
    let is_of = |token| record.is_some_and(|record| record.token.number == token);
    if !has_it || token.is_some_and(|token| !is_of(token)) {
        // Its lease had ended. Nobody works under one that a late copy of its ask was granted.
        if has_it {
            let _ = mutex::release(lock, request, Duration::ZERO, context);
        } else {
            lock.queue.leave(id);
        }
        return match lock.done {
            Some(done) if done.id == id => Ended::Released,
            _ if is_gone => Ended::NotHeld(LossReason::Expired),
            _ => Ended::NotHeld(LossReason::Taken),
        };
    }
    let Kind::Once(once) = request.kind else { return Ended::NotHeld(LossReason::Taken) };
    let (Once::For(lasts) | Once::Per { period: lasts, .. }) = once;
    let now = context.now.millis();
    let until = tick.map_or(now, |tick| tick.began).saturating_add(millis(lasts));
    let counts = Duration::from_millis(until.saturating_sub(now));
    let stays = context.now + counts.max(once.remembered()).max(Duration::from_millis(1));
    let (tick, granted) = (tick.map(|tick| tick.began), tick.map_or(now, |tick| tick.granted));
    lock.done = Some(Done { until, completed: now, tick, granted, id, stays });
    lock.runs = None;
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

/// Forgets that work is done, and how often it was tried. A mutex that is kept without a holder
/// becomes free.
pub(in crate::store) fn run_again(
    lock: &mut LockState,
    by: &Note,
    why: Option<&Note>,
    context: &mut Context<'_>,
) -> RunAgain {
    let now = context.now;
    let status = lock.record.as_ref().map(|record| record.status.clone());
    let (done, runs) = (lock.done.take(), lock.runs.take());
    let of_done = done.and_then(|done| Some(done.until.saturating_sub(done.tick?)));
    let tick = of_done.or(runs.map(|(runs, _)| runs.tick)).unwrap_or(0);
    if done.is_some() || runs.is_some() || matches!(status, Some(Status::Kept { .. })) {
        let (at, asked) = (now.millis(), AskedAgain::new(now.millis(), by, why));
        lock.again = Some((AskedNote { asked, at, tick }, now + NOTES_KEPT));
    }
    let running = match status {
        Some(Status::One { id, is_offer: false, .. }) => Some(id),
        _ => None,
    };
    // The run that is under way stays, as the first.
    lock.runs = runs.filter(|(runs, _)| running == Some(runs.id));
    if let Some((runs, _)) = &mut lock.runs {
        (runs.first, runs.count) = (runs.last, 1);
        if runs.ends <= runs.last {
            runs.ends = runs.last + runs.tick;
        }
    }
    if let Some(Status::Kept { id }) = status {
        mutex::hand_over(lock, id, context);
    }
    RunAgain::new(done.map_or(0, |done| done.completed), running.is_some())
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
