//! One lock: its record, its permits and its queue.

use std::time::{Duration, Instant};

use super::super::{Attempt, RequestId, Waiting};
use super::permits::Permits;
use super::queue::Queue;
use super::table::Shared;

/// How much one command goes through at most: dead waiters, ended permits, those
/// it serves.
pub(super) const AT_ONCE: usize = 64;

/// How long a free record is remembered.
pub(super) const GRACE: Duration = Duration::from_secs(60);

/// What the keys of a lock hold on a server. Each part ends by itself.
#[derive(Debug, Default)]
pub(super) struct Lock {
    pub(super) record: Option<Record>,
    pub(super) permits: Permits,
    pub(super) queue: Queue,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) sort: Sort,
    pub(super) state: State,
    /// Whether somebody may be in the queue. If not, it is empty.
    pub(super) is_awaited: bool,
    /// The request that ended last: a late repeat of it is refused.
    pub(super) ended: Option<RequestId>,
    /// When the record ends.
    pub(super) until: Instant,
}

/// Which kind of lock it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Mutex,
    Semaphore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    /// Held for the rest of its least time, by nobody.
    Kept,
    Held {
        id: RequestId,
        token: u64,
    },
    /// Held by a waiter that may have died, until its first renewal.
    Offered {
        id: RequestId,
        token: u64,
    },
    /// Permits are out.
    Out,
}

impl Record {
    /// Whether the name is in use by another kind of lock. What is free, and
    /// nobody waits for, may change its kind.
    pub(super) fn is_other(&self, sort: Sort) -> bool {
        self.sort != sort && (self.state != State::Free || self.is_awaited)
    }

    /// The token, if the request has the mutex or was offered it.
    pub(super) fn token_of(&self, request: RequestId) -> Option<u64> {
        match self.state {
            State::Held { id, token } | State::Offered { id, token } => {
                (id == request).then_some(token)
            }
            _ => None,
        }
    }
}

impl Lock {
    /// Drops the parts that ended.
    pub(super) fn expire(&mut self, now: Instant) {
        self.record = self.record.filter(|record| record.until > now);
        self.permits.expire(now);
        self.queue.expire(now);
    }

    /// Whether there is nothing to remember.
    pub(super) fn is_blank(&self) -> bool {
        self.record.is_none() && self.permits.is_empty() && self.queue.is_empty()
    }

    /// After an expiry the record is gone, with its flag, and the queue is not.
    pub(super) fn nobody_waits(&self) -> bool {
        self.record.map_or_else(|| self.queue.is_empty(), |record| !record.is_awaited)
    }

    pub(super) fn ended(&self) -> Option<RequestId> {
        self.record.and_then(|record| record.ended)
    }

    /// For how long the record lasts, unless something happens.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.record.map_or(Duration::ZERO, |record| record.until - now)
    }

    /// The answer to one who is in the queue: the first asks again when the lock
    /// may be free, all others to say that they live.
    pub(super) fn queued(
        &self,
        id: RequestId,
        (ticket, waiting): (u64, Waiting),
        left: Duration,
        shared: &Shared,
    ) -> Attempt {
        let mut ask_again = waiting.live / 3;
        if self.queue.is_first(id) {
            ask_again = ask_again.min(left);
        }
        Attempt::Queued { ticket, until: shared.stamp(shared.now + waiting.live), ask_again }
    }
}
