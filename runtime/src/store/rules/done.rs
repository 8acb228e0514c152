//! The mark of work that succeeded: the scripts `mutex/acquire_once` and `mutex/complete`.

use std::time::Duration;

use super::context::Context;
use super::mutex;
use super::state::{Done, LockState};
use crate::core::error::LossReason;
use crate::store::{Attempt, Ended, Hint, Kind, Once, Request, Success, TickTimes, Waiting};

pub(super) fn acquire(
    lock: &mut LockState,
    request: &Request,
    once: Once,
    waiting: Option<Waiting>,
    context: &mut Context<'_>,
) -> Attempt {
    let now = context.now.millis();
    let is_held = lock.record.as_ref().is_some_and(|record| record.holds(request.id));
    if let Some(Done { until, completed, .. }) = lock.done
        && until > now
        && !is_held
    {
        lock.queue.leave(request.id);
        return Attempt::Done { completed, until, left: Duration::from_millis(until - now) };
    }
    match (mutex::acquire(lock, request, waiting, context), once) {
        (Attempt::Granted { token }, Once::Per { period, offset }) => {
            let began = tick(now, millis(period), millis(offset));
            let last = lock.done.and_then(|done| done.tick);
            Attempt::GrantedTick { token, tick: TickTimes { began, last } }
        }
        (answer, _) => answer,
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
    let until = tick.unwrap_or(now).saturating_add(millis(lasts));
    let counts = Duration::from_millis(until.saturating_sub(now));
    let stays = context.now + counts.max(once.remembered()).max(Duration::from_millis(1));
    lock.done = Some(Done { until, completed: now, tick, id, stays });
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

/// When the tick began that runs now.
fn tick(now: u64, period: u64, offset: u64) -> u64 {
    if now >= offset {
        now - (now - offset) % period
    } else {
        // Ticks also begin before the offset.
        (offset - (offset - now).div_ceil(period) * period).min(now)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_aligned_to_the_offset() {
        assert_eq!(tick(1_999, 1_000, 0), 1_000);
        assert_eq!(tick(2_000, 1_000, 0), 2_000);
        assert_eq!(tick(2_000, 1_000, 1), 1_001);
        assert_eq!(tick(2_000, 1_000, 2_500), 1_500);
        assert_eq!(tick(1_500, 1_000, 3_500), 1_500);
    }
}
