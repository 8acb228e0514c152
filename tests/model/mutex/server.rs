//! The server: the record, the queue, and the scripts, each of them one step.

use super::mistake::Mistake;
use crate::messages::{Answer, Command, Message, RequestId, Stamp};
use crate::queue::{Waiter, enqueue};

/// The tokens of a grant: for so many leases in a turn.
pub(super) const BLOCK: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lock {
    Absent,
    Free,
    Held(RequestId),
    /// Handed over, and not claimed yet.
    Offered(RequestId),
}

impl Lock {
    /// The request it is held by, or offered to.
    pub(super) const fn id(self) -> Option<RequestId> {
        match self {
            Self::Held(id) | Self::Offered(id) => Some(id),
            Self::Absent | Self::Free => None,
        }
    }
}

/// The data of the server, which a failover can set back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    pub(super) lock: Lock,
    /// The last token, 0 if there is no record.
    token: u8,
    /// The record's flag: somebody may wait.
    is_awaited: bool,
    /// The request that ended last.
    ended: Option<RequestId>,
    /// In the order of tickets.
    pub(super) queue: Vec<Waiter>,
}

impl Server {
    pub(super) const EMPTY: Self =
        Self { lock: Lock::Absent, token: 0, is_awaited: false, ended: None, queue: Vec::new() };

    fn run_out(&mut self, id: RequestId, mistake: Mistake) {
        if self.lock.id() == Some(id) {
            let queue = std::mem::take(&mut self.queue);
            // A counter is a key of its own, and stays.
            let token = if mistake == Mistake::CountedTokens { self.token } else { 0 };
            *self = Self { token, queue, ..Self::EMPTY };
        }
        for waiter in &mut self.queue {
            waiter.is_live &= waiter.id != id;
        }
    }
}

/// Flaws that no state may have, noted when they happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Flaw {
    StaleWrite,
    RepeatedToken,
    FreedAnothers,
    Overtaken,
}

/// The server with what stands outside of its memory: time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Store {
    pub(super) server: Server,
    /// A copy that lags behind, and takes over in a failover.
    pub(super) replica: Server,
    /// The greatest token ever granted. The clock is always past its block,
    /// since time passes between grants …
    pub(super) granted: u8,
    /// … unless this server's clock is behind.
    pub(super) behind: u8,
    /// The greatest token that anybody has had: within a turn they are counted up.
    pub(super) used: u8,
    /// The last ticket.
    ticket: u8,
    /// For each request.
    stamps: Vec<[Stamp; Self::SERIALS]>,
    pub(super) flaw: Option<Flaw>,
}

impl Store {
    const SERIALS: usize = 4;

    pub(super) fn new(clients: u8) -> Self {
        Self {
            server: Server::EMPTY,
            replica: Server::EMPTY,
            granted: 0,
            behind: 0,
            used: 0,
            ticket: 0,
            stamps: vec![[Stamp::default(); Self::SERIALS]; usize::from(clients)],
            flaw: None,
        }
    }

    pub(super) fn stamp(&self, id: RequestId) -> Stamp {
        self.stamps[usize::from(id.client)][usize::from(id.serial)]
    }

    /// Ends what the request has: its lease, its offer or its heartbeat.
    pub(super) fn run_out(&mut self, id: RequestId, mistake: Mistake) {
        let stamp = &mut self.stamps[usize::from(id.client)][usize::from(id.serial)];
        if self.server.lock != Lock::Offered(id) {
            stamp.heartbeat += 1;
        } else if mistake != Mistake::GoesByHeartbeat {
            stamp.offer += 1;
        }
        self.server.run_out(id, mistake);
        self.replica.run_out(id, mistake);
    }

    /// Runs a command's script.
    pub(super) fn run(
        &mut self,
        id: RequestId,
        command: Command,
        mistake: Mistake,
    ) -> (Answer, Option<Message>) {
        let before = self.server.lock;
        let outcome = match command {
            Command::Ask { ticket } => self.ask(id, ticket, mistake),
            Command::Adopt { from } => (self.adopt(id, from, mistake), None),
            Command::Renew => (self.renew(id), None),
            Command::Release => self.release(id, mistake),
            Command::Cancel => (Answer::Done, self.cancel(id, mistake)),
        };
        let is_given = |from| command == Command::Adopt { from };
        let is_anothers = before.id().is_some_and(|holder| holder != id && !is_given(holder));
        if is_anothers && self.server.lock.id() != before.id() {
            self.flaw = Some(Flaw::FreedAnothers);
        }
        outcome
    }

    fn ask(
        &mut self,
        id: RequestId,
        ticket: Option<u8>,
        mistake: Mistake,
    ) -> (Answer, Option<Message>) {
        let stamp = self.stamp(id);
        let server = &mut self.server;
        if server.lock.id() == Some(id) {
            server.lock = Lock::Held(id);
            return (Answer::Granted { token: server.token, stamp }, None);
        }
        if server.ended == Some(id) {
            return (Answer::Done, None);
        }
        let is_free = match server.lock {
            Lock::Absent => server.queue.is_empty() || mistake == Mistake::AbsentIsFree,
            Lock::Free => !server.is_awaited,
            Lock::Held(_) | Lock::Offered(_) => false,
        };
        if is_free {
            self.grant(Lock::Held(id), u8::MAX, mistake);
            self.server.is_awaited = false;
            return (Answer::Granted { token: self.server.token, stamp }, None);
        }
        let ticket = enqueue(&mut self.server.queue, &mut self.ticket, id, ticket);
        let message = match self.server.lock {
            Lock::Absent | Lock::Free => self.hand_over(Some(id), mistake),
            Lock::Held(_) | Lock::Offered(_) => {
                self.server.is_awaited = true;
                None
            }
        };
        if self.server.lock == Lock::Held(id) {
            (Answer::Granted { token: self.server.token, stamp }, None)
        } else {
            (Answer::Queued { ticket, stamp }, message)
        }
    }

    fn adopt(&mut self, id: RequestId, from: RequestId, mistake: Mistake) -> Answer {
        let holder = self.server.lock.id();
        let has_it = holder == Some(id);
        let is_there = holder == Some(from) && self.server.ended != Some(id);
        if !has_it && !is_there && (holder.is_none() || mistake != Mistake::AdoptsAnybodys) {
            return Answer::NotHeld;
        }
        if has_it || mistake == Mistake::AdopterKeepsToken {
            self.server.lock = Lock::Held(id);
        } else if mistake != Mistake::AdopterKeepsId {
            // It overtakes nobody: the place was never free.
            self.grant(Lock::Held(id), 0, mistake);
        }
        if !has_it {
            self.server.ended = Some(from);
        }
        Answer::Granted { token: self.server.token, stamp: self.stamp(id) }
    }

    fn renew(&mut self, id: RequestId) -> Answer {
        if self.server.lock.id() != Some(id) {
            return Answer::NotHeld;
        }
        self.server.lock = Lock::Held(id);
        Answer::Done
    }

    fn release(&mut self, id: RequestId, mistake: Mistake) -> (Answer, Option<Message>) {
        if self.ends(id, mistake) || mistake == Mistake::PlainDelete {
            return (Answer::Done, self.finish(id, mistake));
        }
        if mistake != Mistake::ReleaseLeavesWaiter {
            self.server.queue.retain(|waiter| waiter.id != id);
        }
        (Answer::Done, None)
    }

    fn cancel(&mut self, id: RequestId, mistake: Mistake) -> Option<Message> {
        if self.ends(id, mistake) {
            return self.finish(id, mistake);
        }
        self.server.queue.retain(|waiter| waiter.id != id);
        self.server.ended = Some(id);
        if self.server.lock != Lock::Absent {
            return None;
        }
        let message = self.hand_over(None, mistake);
        if self.server.lock == Lock::Absent {
            self.server.lock = Lock::Free;
        }
        message
    }

    /// A release or a cancel of this request frees the lock.
    fn ends(&self, id: RequestId, mistake: Mistake) -> bool {
        let is_offered = self.server.lock == Lock::Offered(id);
        self.server.lock == Lock::Held(id) || is_offered && mistake != Mistake::OfferIsNotEnded
    }

    /// Ends a lease or an offer: the next has it, or it is free.
    fn finish(&mut self, id: RequestId, mistake: Mistake) -> Option<Message> {
        let is_awaited = self.server.is_awaited;
        self.server.ended = Some(id);
        self.server.lock = Lock::Free;
        self.server.is_awaited = false;
        if is_awaited { self.hand_over(None, mistake) } else { None }
    }

    /// Gives the lock to the first live waiter: at once if it is the one that
    /// asks, else as an offer.
    fn hand_over(&mut self, asker: Option<RequestId>, mistake: Mistake) -> Option<Message> {
        while !self.server.queue.is_empty() {
            let head = self.server.queue.remove(0);
            if !head.is_live {
                continue;
            }
            let is_asker = asker == Some(head.id);
            let lock = if is_asker { Lock::Held(head.id) } else { Lock::Offered(head.id) };
            self.grant(lock, head.ticket, mistake);
            self.server.is_awaited =
                !self.server.queue.is_empty() && mistake != Mistake::DroppedFlag;
            let stamp = self.stamp(head.id);
            let message = Message { id: head.id, token: self.server.token, stamp };
            return (!is_asker).then_some(message);
        }
        None
    }

    fn grant(&mut self, lock: Lock, ticket: u8, mistake: Mistake) {
        let block = if mistake == Mistake::NoBlock { 1 } else { BLOCK };
        let counted = self.server.token + block;
        let now = (self.granted + block).saturating_sub(self.behind);
        let token = if mistake == Mistake::CountedTokens { counted } else { counted.max(now) };
        if token <= self.used {
            self.flaw = Some(Flaw::RepeatedToken);
        }
        if self.server.queue.iter().any(|waiter| waiter.is_live && waiter.ticket < ticket) {
            self.flaw = Some(Flaw::Overtaken);
        }
        self.granted = self.granted.max(token);
        self.used = self.used.max(token);
        self.server.token = token;
        self.server.lock = lock;
    }
}
