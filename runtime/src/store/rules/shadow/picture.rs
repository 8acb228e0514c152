//! A lock's state in plain values. All times are since the Unix epoch.

use std::time::Duration;

use super::super::demand::Demand;
use super::super::mark::{ClientMark, Mark};
use super::super::queue::Waiter;
use super::super::state::{Done, Intent, LockState, Record, Status};
use super::super::time::Time;
use crate::store::{AskedNote, ClientId, JobRuns, Kind, LockKind, Note, Owner, RequestId};

/// What is known of a lock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture {
    /// The record.
    pub record: Option<Recorded>,
    /// The holders in the set, ended ones included, by deadline.
    pub holders: Vec<Holding>,
    /// When the set expires.
    pub holders_until: Option<Duration>,
    /// When the writer's lease ends.
    pub written_until: Option<Duration>,
    /// The clients that may keep a lease without using it, whether they were asked to release it,
    /// and until when.
    pub marks: Vec<(ClientId, bool, Duration)>,
    /// The waiters in their order.
    pub queue: Vec<Waits>,
    /// When the queue expires.
    pub queue_until: Option<Duration>,
    /// The leases that were taken by force.
    pub forced: Vec<(RequestId, Duration)>,
    /// The refused writer that comes back.
    pub intent: Option<(ClientId, Duration)>,
    /// The mark of work that succeeded.
    pub done: Option<DoneWork>,
    /// The runs since the last success, and until when they are remembered.
    pub runs: Option<(JobRuns, Duration)>,
    /// Who asked for another run, and until when that is remembered.
    pub again: Option<(AskedNote, Duration)>,
}

/// A record.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The kind of lock.
    pub kind: LockKind,
    /// Who holds it.
    pub standing: Standing,
    /// The last token.
    pub token: u64,
    /// Whether there may be waiters.
    pub may_have_waiters: bool,
    /// The request that ended last.
    pub ended: Option<RequestId>,
    /// When it expires.
    pub until: Duration,
}

/// Who holds a lock, as its record says.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// Nobody.
    Free,
    /// Nobody, and it is kept.
    Kept(RequestId),
    /// One request, or it has an offer.
    One {
        /// The request.
        id: RequestId,
        /// How.
        wish: Wish,
        /// It has an offer.
        is_offer: bool,
        /// Its client may keep it without using it; true if that was asked to release it.
        mark: Option<bool>,
    },
    /// The holders in the set.
    Many {
        /// The limit that the last permit was counted against.
        limit: Option<u32>,
    },
}

/// How a request holds a lock, or would.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    /// The kind of lease.
    pub kind: Kind,
    /// The owner.
    pub owner: Option<Owner>,
    /// The note.
    pub note: Option<Note>,
}

/// A holder.
#[derive(Clone, Debug, PartialEq)]
pub struct Holding {
    /// The request.
    pub id: RequestId,
    /// How it holds.
    pub wish: Wish,
    /// Since when.
    pub since: Duration,
    /// Until when.
    pub deadline: Duration,
}

/// A waiter.
#[derive(Clone, Debug, PartialEq)]
pub struct Waits {
    /// The request.
    pub id: RequestId,
    /// Its position.
    pub position: u64,
    /// How it would hold.
    pub wish: Wish,
    /// Until when it counts as alive.
    pub until: Duration,
}

/// The mark of work that succeeded; all but the last are milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct DoneWork {
    /// Until when it counts as done.
    pub until: u64,
    /// When it succeeded.
    pub completed: u64,
    /// When its tick began.
    pub tick: Option<u64>,
    /// When its run was granted the lock.
    pub granted: u64,
    /// The request that completed it.
    pub id: RequestId,
    /// Until when the mark stays.
    pub stays: Duration,
}

fn at(time: Duration) -> Time {
    Time::since_beginning(time)
}

fn since(time: Time) -> Duration {
    time - Time::since_beginning(Duration::ZERO)
}

impl From<Wish> for Demand {
    fn from(Wish { kind, owner, note }: Wish) -> Self {
        Self { kind, owner, note }
    }
}

impl From<&Demand> for Wish {
    fn from(demand: &Demand) -> Self {
        let Demand { kind, owner, note } = demand.clone();
        Self { kind, owner, note }
    }
}

fn mark(is_recalled: Option<bool>) -> Mark {
    match is_recalled {
        None => Mark::None,
        Some(false) => Mark::Lingers,
        Some(true) => Mark::Recalled,
    }
}

impl Recorded {
    fn into_record(self) -> Record {
        let Self { kind, standing, token, may_have_waiters, ended, until } = self;
        let status = match standing {
            Standing::Free => Status::Free,
            Standing::Kept(id) => Status::Kept { id },
            Standing::One { id, wish, is_offer, mark: is_recalled } => {
                Status::One { id, how: wish.into(), is_offer, mark: mark(is_recalled) }
            }
            Standing::Many { limit } => Status::Many { limit },
        };
        let token = super::super::counters::Token { number: token, since: None };
        Record { kind, status, token, may_have_waiters, ended, until: at(until) }
    }

    fn of(record: &Record) -> Self {
        let standing = match &record.status {
            Status::Free => Standing::Free,
            Status::Kept { id } => Standing::Kept(*id),
            Status::One { id, how, is_offer, mark } => Standing::One {
                id: *id,
                wish: how.into(),
                is_offer: *is_offer,
                mark: (*mark != Mark::None).then_some(*mark == Mark::Recalled),
            },
            Status::Many { limit } => Standing::Many { limit: *limit },
        };
        Self {
            kind: record.kind,
            standing,
            token: record.token.number,
            may_have_waiters: record.may_have_waiters,
            ended: record.ended,
            until: since(record.until),
        }
    }
}

impl Picture {
    pub(super) fn into_state(self) -> LockState {
        let mut lock = LockState {
            record: self.record.map(Recorded::into_record),
            intent: self.intent.map(|(client, until)| Intent { client, until: at(until) }),
            ..LockState::default()
        };
        for Holding { id, wish, since, deadline } in self.holders {
            // It came then.
            lock.holders.put_in(id, wish.into(), at(deadline), at(since));
        }
        lock.holders.until = self.holders_until.map(at);
        lock.holders.written_until = self.written_until.map(at);
        for (client, is_recalled, until) in self.marks {
            let mark = ClientMark { mark: mark(Some(is_recalled)), until: at(until) };
            lock.holders.marks.insert(client, mark);
        }
        for Waits { id, position, wish, until } in self.queue {
            lock.queue.order.insert((position, id));
            let waiter = Waiter { position, until: at(until), demand: wish.into() };
            lock.queue.waiters.insert(id, waiter);
        }
        lock.queue.until = self.queue_until.map(at);
        lock.forced.by_id = self.forced.into_iter().map(|(id, until)| (id, at(until))).collect();
        lock.forced.until = lock.forced.by_id.values().max().copied();
        lock.runs = self.runs.map(|(runs, stays)| (runs, at(stays)));
        lock.again = self.again.map(|(again, stays)| (again, at(stays)));
        lock.done = self.done.map(|done| {
            let DoneWork { until, completed, tick, granted, id, stays } = done;
            Done { until, completed, tick, granted, id, stays: at(stays) }
        });
        lock
    }

    pub(super) fn of(lock: &LockState) -> Self {
        let mut holders: Vec<_> = lock
            .holders
            .by_id
            .iter()
            .map(|(id, holder)| Holding {
                id: *id,
                wish: (&holder.how).into(),
                since: since(holder.since),
                deadline: since(holder.deadline),
            })
            .collect();
        holders.sort_by_key(|holder| (holder.deadline, holder.id));
        let marks = lock.holders.marks.iter();
        let marks = marks.map(|(client, it)| (*client, it.mark == Mark::Recalled, since(it.until)));
        let queue = lock.queue.waiters().map(|(id, waiter)| Waits {
            id,
            position: waiter.position,
            wish: (&waiter.demand).into(),
            until: since(waiter.until),
        });
        let mut forced: Vec<_> =
            lock.forced.by_id.iter().map(|(id, until)| (*id, since(*until))).collect();
        forced.sort_unstable();
        Self {
            record: lock.record.as_ref().map(Recorded::of),
            holders,
            holders_until: lock.holders.until.map(since),
            written_until: lock.holders.written_until.map(since),
            marks: marks.collect(),
            queue: queue.collect(),
            queue_until: lock.queue.until.map(since),
            forced,
            intent: lock.intent.map(|intent| (intent.client, since(intent.until))),
            runs: lock.runs.map(|(runs, stays)| (runs, since(stays))),
            again: lock.again.clone().map(|(again, stays)| (again, since(stays))),
            done: lock.done.map(|done| {
                let Done { until, completed, tick, granted, id, stays } = done;
                DoneWork { until, completed, tick, granted, id, stays: since(stays) }
            }),
        }
    }
}
