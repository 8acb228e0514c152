//! The commands on a lock of any kind: each function is the script of the same name in
//! `lock/`.

use super::context::Context;
use super::demand::Demand;
use super::limits::BATCH;
use super::mark::Mark;
use super::state::{Done, LockState, Record, Status};
use super::time::Time;
use crate::core::fence::Fence;
use crate::store::inspection::MOST;
use crate::store::job_info::{DoneTick, JobNotes};
use crate::store::{
    ClientInfo, Force, Forced, ForcedBy, Hint, Holder, LIVE_MOST, LastSuccess, LockInfo, LockKind,
    NOTES_KEPT, Owner, Request, RequestId, Stamp, Waiter,
};

/// Takes a lock from its holders, and tells the first waiter to ask. Notes who did it.
pub(in crate::store) fn force_release(
    lock: &mut LockState,
    force: &Force,
    context: &mut Context<'_>,
) -> Forced {
    let only = force.only.iter().filter_map(|it| RequestId::read(it.as_bytes().get(..34)?));
    let forced = if force.only.is_empty() {
        force_all(lock, context)
    } else {
        force_some(lock, &only.collect::<Vec<_>>(), context)
    };
    if let Forced::Released { held, .. } = forced {
        let now = context.now;
        let freed = ForcedBy::new(now.millis(), held, &force.by, force.why.as_ref());
        lock.freed = Some((freed, now + NOTES_KEPT));
    }
    forced
}

/// Takes it from some holders. The owner of a reentrant mutex loses all its holds.
fn force_some(lock: &mut LockState, only: &[RequestId], context: &mut Context<'_>) -> Forced {
    let now = context.now;
    let Some(Record { kind, status, .. }) = &lock.record else { return Forced::NotHeld };
    let (is_whole, status) = (*kind == LockKind::ReentrantMutex, status.clone());
    let named: Vec<_> = match status {
        Status::Free => return Forced::NotHeld,
        Status::One { id, .. } | Status::Kept { id } => {
            let is_named = only.contains(&id);
            return if is_named { force_all(lock, context) } else { Forced::NotHeld };
        }
        Status::Many { .. } => {
            let live = lock.holders.live(now).filter(|(id, _)| only.contains(id));
            live.map(|(id, holder)| (id, holder.deadline)).collect()
        }
    };
    if named.is_empty() {
        return Forced::NotHeld;
    }
    if is_whole || lock.holders.live(now).count() == named.len() {
        return force_all(lock, context);
    }
    let first = lock.queue.first(now);
    lock.forced.note(named.iter().copied(), now);
    let mut told = 0;
    for (id, _) in &named {
        lock.holders.take_out(*id);
        told += u64::from(context.tell(id.client(), Hint::Forced { id: *id }));
    }
    let mut token = lock.token();
    // A writer that stays has it.
    if !lock.holders.is_written(now) {
        token = context.next_token(token);
        if let Some(record) = &mut lock.record {
            record.token = token;
        }
    }
    if let Some((first, _)) = first {
        context.tell(first.client(), Hint::Free { id: first });
    }
    Forced::Released { held: count(named.iter()), told, fence: Fence::new(token.number) }
}

fn force_all(lock: &mut LockState, context: &mut Context<'_>) -> Forced {
    let now = context.now;
    let Some(Record { kind, status, ended, until, .. }) = lock.record.clone() else {
        return Forced::NotHeld;
    };
    let mut tell = |id: RequestId| u64::from(context.tell(id.client(), Hint::Forced { id }));
    let (held, told) = match status {
        Status::Free => return Forced::NotHeld,
        Status::One { id, .. } | Status::Kept { id } => {
            lock.forced.note([(id, until)].into_iter(), now);
            (1, tell(id))
        }
        Status::Many { .. } => {
            let holders = std::mem::take(&mut lock.holders);
            lock.forced.note(holders.live(now).map(|(id, holder)| (id, holder.deadline)), now);
            let told = holders.live(now).map(|(id, _)| tell(id)).sum();
            (count(holders.live(now)), told)
        }
    };
    let (first, token) = (lock.queue.first(now), context.next_token(lock.token()));
    let (status, may_have_waiters) = (Status::Free, !lock.queue.is_empty());
    let until = context.free_until(token);
    lock.record = Some(Record { kind, status, token, may_have_waiters, ended, until });
    if let Some((first, _)) = first {
        context.tell(first.client(), Hint::Free { id: first });
    }
    match held {
        0 => Forced::NotHeld,
        held => Forced::Released { held, told, fence: Fence::new(token.number) },
    }
}

/// Returns true if a request's lease was taken by force.
pub(in crate::store) fn was_forced(lock: &LockState, request: &Request) -> bool {
    lock.forced.has(request.id)
}

/// Lets an offer last until its waiter's heartbeat ends.
pub(in crate::store) fn keep_offer(
    lock: &mut LockState,
    request: &Request,
    until: Stamp,
    now: Time,
) {
    let (id, until) = (request.id, Time::of(until));
    // A heartbeat further ahead than any waiter may claim is not believed.
    if until <= now || until - now > LIVE_MOST {
        return;
    }
    let Some(record) = &mut lock.record else { return };
    let is_offer = matches!(record.status, Status::One { id: it, is_offer: true, .. } if it == id);
    if is_offer || lock.holders.keep(id, until, now) {
        record.until = record.until.max(until);
    }
}

/// The holders and the waiters of a lock, and its work. `client` says which process a request belongs
/// to.
pub(in crate::store) fn inspect(
    lock: &LockState,
    now: Time,
    client: impl Fn(RequestId) -> Option<ClientInfo>,
) -> LockInfo {
    let info = holders_and_waiters(lock, now, client);
    let done = lock.done.map(|Done { until, completed, tick, granted, .. }| DoneTick {
        began: tick.unwrap_or(0),
        ends: until,
        completed,
        granted,
    });
    let notes = JobNotes {
        now: now.millis(),
        done,
        runs: lock.runs.map(|(runs, _)| runs),
        asked_again: lock.again.as_ref().map(|(again, _)| again.clone()),
    };
    let holder = lock.record.as_ref().and_then(|record| match record.status {
        Status::One { id, is_offer: false, .. } => Some(id),
        _ => None,
    });
    LockInfo { job: notes.info(holder.zip(info.holders.first())), ..info }
}

fn holders_and_waiters(
    lock: &LockState,
    now: Time,
    client: impl Fn(RequestId) -> Option<ClientInfo>,
) -> LockInfo {
    let waiters = lock.queue.waiters().map(|(id, waiter)| Waiter {
        client: client(id),
        owner: name(&waiter.demand),
        note: note(&waiter.demand),
        is_writer: waiter.demand.is_writer(),
        weight: waiter.demand.weight(),
        limit: waiter.demand.limit(),
        waiting_for: now - Time::of(waiter.position),
    });
    // Its caller knows the name.
    let known = LockInfo {
        waiters: waiters.take(MOST).collect(),
        waiting: count(lock.queue.waiters()),
        last_forced: lock.freed.as_ref().map(|(freed, _)| Box::new(freed.clone())),
        last_success: lock.done.map(|done| {
            LastSuccess::new(done.until, done.completed, done.tick.unwrap_or(0), now.millis())
        }),
        ..LockInfo::default()
    };
    let Some(record) = &lock.record else { return known };
    let is_marked = |id: RequestId| match &record.status {
        Status::One { mark, .. } => *mark != Mark::None,
        _ => lock.holders.mark(id.client(), now).is_some(),
    };
    let holder = |id: RequestId, how: &Demand, until: Time, since: Option<Time>| {
        let token = how.kind.is_fenced().then_some(record.token);
        Holder {
            client: client(id),
            owner: name(how),
            note: note(how),
            is_writer: how.is_writer(),
            weight: how.weight(),
            fence: token.map(|token| Fence::new(token.number)),
            held_for: match token {
                Some(token) => token.since,
                None => since,
            }
            .map(|since| now - since),
            heard: None,
            id: format!("{id:?}"),
            member: format!("{id:?}"),
            remaining: until - now,
            may_be_idle: is_marked(id),
        }
    };
    let (holders, held) = match &record.status {
        Status::One { id, how, .. } => (vec![holder(*id, how, record.until, None)], 1),
        Status::Many { .. } => {
            let holders = lock
                .holders
                .live(now)
                .map(|(id, is)| holder(id, &is.how, is.deadline, Some(is.since)));
            (holders.take(MOST).collect(), count(lock.holders.live(now)))
        }
        Status::Free | Status::Kept { .. } => (Vec::new(), 0),
    };
    let kept = matches!(record.status, Status::Kept { .. }).then(|| record.until - now);
    LockInfo { kind: Some(record.kind), holders, held, kept, last_limit: lock.limit(), ..known }
}

/// Returns true if an owner holds the lock. Removes expired holders.
pub(in crate::store) fn is_held_by(lock: &mut LockState, owner: &Owner, now: Time) -> bool {
    let Some(record) = &lock.record else { return false };
    if record.kind == LockKind::Mutex {
        let holder = |how: &Demand| how.owner.as_ref() == Some(owner);
        return matches!(&record.status, Status::One { how, .. } if holder(how));
    }
    while lock.holders.purge(now) == BATCH {}
    lock.holders.count_of(Some(owner)) > 0
}

fn name(demand: &Demand) -> Option<String> {
    demand.owner.as_ref().map(|owner| owner.name().to_owned())
}

fn note(demand: &Demand) -> Option<String> {
    demand.note.as_ref().map(|note| note.text().to_owned())
}

fn count(of: impl Iterator) -> u64 {
    u64::try_from(of.count()).unwrap_or(u64::MAX)
}
