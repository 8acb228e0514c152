//! One lock: its record, its holders and its queue.

use std::time::{Duration, Instant};

use super::context::{Shared, Token};
use super::forced::Forced;
use super::holders::Holders;
use super::queue::{Queue, Waiter};
use super::quorum_member::Intent;
use crate::store::{Attempt, Hint, Kind, LockKind, Owner, Request, RequestId, Waiting};

/// How much one command goes through at most: dead waiters, holders who ended, those
/// it serves.
pub(super) const AT_ONCE: usize = 64;

/// By how much later the first of each next client asks whether a lock is free.
const SPREAD: Duration = Duration::from_millis(100);

/// How long a free record is remembered.
pub(super) const GRACE: Duration = Duration::from_secs(60);

/// What the keys of a lock hold on a server. Each part ends by itself, and nobody deletes
/// one: where there are holders, there is a record.
#[derive(Debug, Default)]
pub(super) struct Lock {
    pub(super) record: Option<Record>,
    pub(super) holders: Holders,
    pub(super) queue: Queue,
    pub(super) forced: Forced,
    pub(super) intent: Option<Intent>,
}

#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) kind: LockKind,
    pub(super) state: State,
    /// The last that was given.
    pub(super) token: Token,
    /// Whether somebody may be in the queue. If not, it is empty.
    pub(super) is_awaited: bool,
    /// The request that ended last: a late repeat of it is refused.
    pub(super) ended: Option<RequestId>,
    /// When the record ends.
    pub(super) until: Instant,
}

#[derive(Clone, Debug)]
pub(super) enum State {
    Free,
    /// Held for the rest of this one's least time, by nobody.
    Kept {
        id: RequestId,
    },
    /// A mutex: held by this request, or offered to it.
    One {
        id: RequestId,
        how: Demand,
        is_offer: bool,
    },
    /// Any other lock: held by those who are among the holders.
    Several,
}

/// What a request asks for, and how it holds what it was granted.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    pub(super) kind: Kind,
    pub(super) owner: Option<Owner>,
}

impl Demand {
    pub(super) fn of(request: &Request) -> Self {
        Self { kind: request.kind, owner: request.owner.clone() }
    }

    /// Of which kind of lock.
    pub(super) fn lock(&self) -> LockKind {
        match self.kind {
            Kind::Mutex => LockKind::Mutex,
            Kind::Reentrant => LockKind::ReentrantMutex,
            Kind::Semaphore { .. } => LockKind::Semaphore,
            Kind::Read | Kind::Write => LockKind::RwLock,
        }
    }

    pub(super) fn weight(&self) -> u32 {
        match self.kind {
            Kind::Semaphore { weight, .. } => weight,
            _ => 1,
        }
    }

    pub(super) fn is_writer(&self) -> bool {
        self.kind == Kind::Write
    }

    /// Whether another of the same lock takes what this one does, for the same owner.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (self.weight(), self.is_writer(), &self.owner)
            == (other.weight(), other.is_writer(), &other.owner)
    }
}

impl Record {
    /// Whether the name is held as another kind of lock. What is free may change its
    /// kind, unless somebody waits for it: the queue says so.
    pub(super) fn is_other(&self, kind: LockKind) -> bool {
        self.kind != kind && !matches!(self.state, State::Free)
    }

    /// Whether a request has the mutex, or was offered it.
    pub(super) fn holds(&self, request: RequestId) -> bool {
        matches!(self.state, State::One { id, .. } if id == request)
    }
}

impl Lock {
    /// Drops the parts that ended.
    pub(super) fn expire(&mut self, now: Instant) {
        self.record.take_if(|record| record.until <= now);
        self.holders.expire(now);
        self.queue.expire(now);
        self.forced.expire(now);
        self.intent.take_if(|mark| mark.until <= now);
    }

    /// Drops what is held, as when its time is over: the queue stays, and its first has
    /// the lock when it asks. Whether there was any.
    pub(super) fn run_out(&mut self) -> bool {
        let held = self.record.take_if(|record| !matches!(record.state, State::Free));
        if held.is_some() {
            self.holders = Holders::default();
        }
        held.is_some()
    }

    /// Whether there is nothing to remember.
    pub(super) fn is_blank(&self) -> bool {
        let is_unheld = self.record.is_none() && self.holders.is_empty();
        let is_unmarked = self.forced.is_empty() && self.intent.is_none();
        is_unheld && is_unmarked && self.queue.is_empty()
    }

    /// After an expiry the record is gone, with its flag, and the queue is not.
    pub(super) fn nobody_waits(&self) -> bool {
        self.record.as_ref().map_or_else(|| self.queue.is_empty(), |record| !record.is_awaited)
    }

    pub(super) fn ended(&self) -> Option<RequestId> {
        self.record.as_ref().and_then(|record| record.ended)
    }

    pub(super) fn token(&self) -> Token {
        self.record.as_ref().map(|record| record.token).unwrap_or_default()
    }

    /// For how long the record lasts, unless something happens.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.record.as_ref().map_or(Duration::ZERO, |record| record.until - now)
    }

    /// Tells a waiter that was offered the lock until then. Where its client hears
    /// nothing, it may be dead: its others are doubted, and the first client that hears it
    /// is told to ask.
    pub(super) fn tell(
        &mut self,
        (id, waiter): (RequestId, &Waiter),
        token: u64,
        shared: &mut Shared,
    ) {
        let ends = waiter.offer_ends(shared.now);
        let (until, early) = (shared.stamp(waiter.until), waiter.until - ends);
        if shared.tell(id.client(), Hint::Offered { id, token, until, early }) {
            return;
        }
        self.queue.doubt(id.client(), ends);
        let (mut deaf, mut asked) = (vec![id.client()], 0);
        for other in self.queue.ids() {
            let client = other.client();
            if !deaf.contains(&client) {
                deaf.push(client);
                asked += 1;
                if asked > 8 || shared.tell(client, Hint::Free { id: other }) {
                    return;
                }
            }
        }
    }

    /// The answer to one who is in the queue: the first asks again when the lock may be
    /// free, and the first of each other client a little later, one after another: those
    /// before it may be dead. All others ask to say that they live.
    pub(super) fn queued(
        &self,
        id: RequestId,
        (position, waiting): (u64, Waiting),
        left: Duration,
        shared: &Shared,
    ) -> Attempt {
        let mut ask_again = waiting.live / 3;
        if left < ask_again
            && let Some(before) = self.queue.clients_before(id)
        {
            ask_again = ask_again.min(left + SPREAD * before);
        }
        Attempt::Queued { position, until: shared.stamp(shared.now + waiting.live), ask_again }
    }
}

/// The answer to one who is not in the queue.
pub(super) fn busy(retry_after: Duration) -> Attempt {
    Attempt::Busy { retry_after, expiry_added: false, kept: false }
}
