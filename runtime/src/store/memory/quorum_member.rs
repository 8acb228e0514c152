//! What a store in memory answers as one of several: the scripts `vote` and `repair`.

use std::time::{Duration, Instant};

use super::context::Shared;
use super::lock::{Demand, Lock, Record, State, busy};
use super::{mutex, rw};
use crate::store::{Attempt, ClientId, Kind, Repaired, Request};

/// The mark of a writer who was refused, and comes again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Intent {
    client: ClientId,
    pub(super) until: Instant,
}

pub(super) fn vote(
    lock: &mut Lock,
    request: &Request,
    again: Duration,
    shared: &mut Shared,
) -> Attempt {
    let (now, client) = (shared.now, request.id.client());
    let mark = lock.intent;
    match request.kind {
        Kind::Read => {
            if let Some(mark) = mark
                && !lock.holders.is_live(request.id, now)
                && !lock.holders.owns(request.owner.as_ref(), now)
            {
                return busy(mark.until - now);
            }
            rw::acquire(lock, request, None, shared)
        }
        Kind::Write => {
            let answer = rw::acquire(lock, request, None, shared);
            match answer {
                Attempt::Busy { .. } if !again.is_zero() => {
                    lock.intent = Some(Intent { client, until: now + again });
                }
                Attempt::Granted { .. } => {
                    lock.intent.take_if(|mark| mark.client == client);
                }
                _ => {}
            }
            answer
        }
        _ => mutex::acquire(lock, request, None, shared),
    }
}

pub(super) fn repair(
    lock: &mut Lock,
    request: &Request,
    token: u64,
    lasts: Duration,
    shared: &mut Shared,
) -> Repaired {
    let (id, how, now) = (request.id, Demand::of(request), shared.now);
    let kind = how.lock();
    let is_mutex = request.kind == Kind::Mutex;
    let holds = |lock: &Lock| {
        let has_record = lock.record.as_ref().is_some_and(|record| record.holds(id));
        if is_mutex { has_record } else { lock.holders.is_live(id, now) }
    };
    if let Some(record) = &lock.record
        && record.is_other(kind)
    {
        return Repaired::NotHeld;
    }
    if holds(lock) {
        let Some(record) = &mut lock.record else { return Repaired::NotHeld };
        match shared.raised(record.token, token, record.until - now) {
            Err(behind) => return Repaired::Behind(behind),
            Ok(own) => record.token = own,
        }
        return Repaired::Held { token: record.token.number };
    }
    let is_free = match &lock.record {
        Some(record) if is_mutex => matches!(record.state, State::Free),
        _ => lock.holders.fits(&how, now),
    };
    if lasts.is_zero() || lock.ended() == Some(id) || !is_free {
        return Repaired::NotHeld;
    }
    let token = match shared.raised(lock.token(), token, lasts) {
        Err(behind) => return Repaired::Behind(behind),
        Ok(token) => token,
    };
    let (mut until, mut state) = (now + lasts, State::Several);
    if is_mutex {
        state = State::One { id, how, is_offer: false };
    } else {
        until = lock.holders.put_in(id, how, until).max(shared.comes_to(token));
    }
    let (is_awaited, ended) = (!lock.queue.is_empty(), lock.ended());
    lock.record = Some(Record { kind, state, token, is_awaited, ended, until });
    Repaired::Held { token: token.number }
}
