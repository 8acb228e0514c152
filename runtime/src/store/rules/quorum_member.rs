//! The commands of a member of a quorum: the scripts `rw/vote`, `mutex/repair` and `rw/repair`.

use std::time::Duration;

use super::context::Context;
use super::demand::Demand;
use super::mark::Mark;
use super::multi_holder;
use super::state::{Intent, LockState, Record, Status, busy};
use crate::store::{Attempt, Kind, Repaired, Request};

/// Votes on a reader or a writer. A writer that is refused leaves its mark for `again`, and
/// readers are refused as long as it lasts: or they would keep the writer out for ever.
pub(super) fn vote(
    lock: &mut LockState,
    request: &Request,
    again: Duration,
    context: &mut Context<'_>,
) -> Attempt {
    let (now, client) = (context.now, request.id.client());
    if request.kind == Kind::Read
        && let Some(mark) = lock.intent
        && !lock.holders.is_live(request.id, now)
        && !lock.holders.owns(request.owner.as_ref(), now)
    {
        return busy(mark.until - now);
    }
    let answer = multi_holder::acquire(lock, request, None, context);
    if request.kind == Kind::Write {
        match answer {
            Attempt::Busy { .. } if !again.is_zero() => {
                lock.intent = Some(Intent { client, until: now + again });
            }
            Attempt::Granted { .. } => {
                lock.intent.take_if(|mark| mark.client == client);
            }
            _ => {}
        }
    }
    answer
}

/// Raises the token of a lease, or gives back a lease that this member lost.
pub(in crate::store) fn repair(
    lock: &mut LockState,
    request: &Request,
    token: u64,
    lasts: Duration,
    context: &mut Context<'_>,
) -> Repaired {
    let (id, how, now) = (request.id, Demand::of(request), context.now);
    let kind = how.lock();
    let is_mutex = request.kind.is_mutex();
    if let Some(record) = &mut lock.record {
        if record.is_other(kind) {
            return Repaired::NotHeld;
        }
        let is_held = if is_mutex { record.holds(id) } else { lock.holders.is_live(id, now) };
        if is_held {
            let left = record.until - now;
            return match context.counters.raise_token(record.token, token, left, now) {
                Err(behind) => Repaired::Behind(behind),
                Ok(own) => {
                    record.token = own;
                    Repaired::Held { token: own.number }
                }
            };
        }
    }
    let is_free = match &lock.record {
        Some(record) if is_mutex => matches!(record.status, Status::Free),
        _ => lock.holders.fits(&how, now),
    };
    if lasts.is_zero() || lock.ended() == Some(id) || !is_free {
        return Repaired::NotHeld;
    }
    let token = match context.counters.raise_token(lock.token(), token, lasts, now) {
        Err(behind) => return Repaired::Behind(behind),
        Ok(token) => token,
    };
    let (mut until, mut status) = (now + lasts, Status::Many { limit: None });
    if is_mutex {
        status = Status::One { id, how, is_offer: false, mark: Mark::None };
    } else {
        until = lock.holders.put_in(id, how, until, now).max(context.clock_reaches(token));
    }
    let (may_have_waiters, ended) = (!lock.queue.is_empty(), lock.ended());
    lock.record = Some(Record { kind, status, token, may_have_waiters, ended, until });
    Repaired::Held { token: token.number }
}
