//! The server: the record, the queue, and the scripts, each of them one step.

use super::mistake::Mistake;
use crate::messages::{Answer, Command, Hint, RequestId, Stamp};
use crate::queue::{Waiter, enqueue};

/// The tokens of a grant, for this many leases in a turn.
pub(super) const BLOCK: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lock {
    Absent,
    Free,
    Held(RequestId),
    /// Offered to a waiter, and not confirmed yet.
    Offered(RequestId),
}

impl Lock {
    /// The request that holds it, or has the offer.
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
    /// The record's flag: there may be waiters.
    is_awaited: bool,
    /// The request that ended last.
    ended: Option<RequestId>,
    /// In the order of positions.
    pub(super) queue: Vec<Waiter>,
}

impl Server {
    pub(super) const EMPTY: Self =
        Self { lock: Lock::Absent, token: 0, is_awaited: false, ended: None, queue: Vec::new() };

    fn expire(&mut self, id: RequestId, mistake: Mistake) {
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
    AdoptedTwice,
}

/// The server and the time, which is outside of its memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Store {
    pub(super) server: Server,
    /// A copy that is behind, and takes over in a failover.
    pub(super) replica: Server,
    /// The greatest token ever granted. The clock is always past its block, since time passes
    /// between grants …
    pub(super) granted: u8,
    /// … unless this server's clock is behind.
    pub(super) behind: u8,
    /// The greatest token of any holder. Within a turn tokens are counted up.
    pub(super) used: u8,
    /// The last position that was given.
    last_position: u8,
    /// The stamps of each client's requests.
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
            last_position: 0,
            stamps: vec![[Stamp::default(); Self::SERIALS]; usize::from(clients)],
            flaw: None,
        }
    }

    pub(super) fn stamp(&self, id: RequestId) -> Stamp {
        self.stamps[usize::from(id.client)][usize::from(id.serial)]
    }

    /// Ends the request's lease, offer or heartbeat.
    pub(super) fn expire(&mut self, id: RequestId, mistake: Mistake) {
        let stamp = &mut self.stamps[usize::from(id.client)][usize::from(id.serial)];
        if self.server.lock != Lock::Offered(id) {
            stamp.heartbeat += 1;
        } else if mistake != Mistake::GoesByHeartbeat {
            stamp.offer += 1;
        }
        self.server.expire(id, mistake);
        self.replica.expire(id, mistake);
    }

    /// Runs a command's script. `most` is the token in the ticket of an adoption.
    pub(super) fn run(
        &mut self,
        id: RequestId,
        command: Command,
        most: Option<u8>,
        mistake: Mistake,
    ) -> (Answer, Option<Hint>) {
        let before = self.server.lock;
        let outcome = match command {
            Command::Ask { position } => self.ask(id, position, mistake),
            Command::Adopt { from } => (self.adopt(id, from, most, mistake), None),
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
        position: Option<u8>,
        mistake: Mistake,
    ) -> (Answer, Option<Hint>) {
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
        let position = enqueue(&mut self.server.queue, &mut self.last_position, id, position);
        let hint = match self.server.lock {
            Lock::Absent | Lock::Free => self.hand_over(Some(id), mistake),
            Lock::Held(_) | Lock::Offered(_) => {
                self.server.is_awaited = true;
                None
            }
        };
        if self.server.lock == Lock::Held(id) {
            (Answer::Granted { token: self.server.token, stamp }, None)
        } else {
            (Answer::Queued { position, stamp }, hint)
        }
    }

    fn adopt(
        &mut self,
        id: RequestId,
        from: RequestId,
        most: Option<u8>,
        mistake: Mistake,
    ) -> Answer {
        let holder = self.server.lock.id();
        let has_it = holder == Some(id);
        // Within a turn the holders count up from the record's token.
        let is_new = most.is_some_and(|most| self.server.token > most);
        let is_there = holder == Some(from)
            && self.server.ended != Some(id)
            && (!is_new || mistake == Mistake::AdoptsAnew);
        if !has_it && !is_there && (holder.is_none() || mistake != Mistake::AdoptsFromAnyHolder) {
            return Answer::NotHeld;
        }
        if has_it || mistake == Mistake::AdopterKeepsToken {
            self.server.lock = Lock::Held(id);
        } else if mistake != Mistake::AdopterKeepsId {
            // It overtakes nobody: the lock was never free.
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

    fn release(&mut self, id: RequestId, mistake: Mistake) -> (Answer, Option<Hint>) {
        if self.ends(id, mistake) || mistake == Mistake::PlainDelete {
            return (Answer::Done, self.finish(id, mistake));
        }
        if mistake != Mistake::ReleaseLeavesWaiter {
            self.server.queue.retain(|waiter| waiter.id != id);
        }
        (Answer::Done, None)
    }

    fn cancel(&mut self, id: RequestId, mistake: Mistake) -> Option<Hint> {
        if self.ends(id, mistake) {
            return self.finish(id, mistake);
        }
        self.server.queue.retain(|waiter| waiter.id != id);
        self.server.ended = Some(id);
        if self.server.lock != Lock::Absent {
            return None;
        }
        let hint = self.hand_over(None, mistake);
        if self.server.lock == Lock::Absent {
            self.server.lock = Lock::Free;
        }
        hint
    }

    /// True if a release or a cancel of this request frees the lock.
    fn ends(&self, id: RequestId, mistake: Mistake) -> bool {
        let is_offered = self.server.lock == Lock::Offered(id);
        self.server.lock == Lock::Held(id) || is_offered && mistake != Mistake::OfferIsNotEnded
    }

    /// Ends a lease or an offer. The next waiter gets the lock, or it is free.
    fn finish(&mut self, id: RequestId, mistake: Mistake) -> Option<Hint> {
        let is_awaited = self.server.is_awaited;
        self.server.ended = Some(id);
        self.server.lock = Lock::Free;
        self.server.is_awaited = false;
        if is_awaited { self.hand_over(None, mistake) } else { None }
    }

    /// Gives the lock to the first live waiter: at once if that one asks, else as an offer.
    fn hand_over(&mut self, asker: Option<RequestId>, mistake: Mistake) -> Option<Hint> {
        while !self.server.queue.is_empty() {
            let head = self.server.queue.remove(0);
            if !head.is_live {
                continue;
            }
            let is_asker = asker == Some(head.id);
            let lock = if is_asker { Lock::Held(head.id) } else { Lock::Offered(head.id) };
            self.grant(lock, head.position, mistake);
            self.server.is_awaited =
                !self.server.queue.is_empty() && mistake != Mistake::DroppedFlag;
            let stamp = self.stamp(head.id);
            let hint = Hint { id: head.id, token: self.server.token, stamp };
            return (!is_asker).then_some(hint);
        }
        None
    }

    fn grant(&mut self, lock: Lock, position: u8, mistake: Mistake) {
        let block = if mistake == Mistake::NoBlock { 1 } else { BLOCK };
        let counted = self.server.token + block;
        let now = (self.granted + block).saturating_sub(self.behind);
        let token = if mistake == Mistake::CountedTokens { counted } else { counted.max(now) };
        if token <= self.used {
            self.flaw = Some(Flaw::RepeatedToken);
        }
        if self.server.queue.iter().any(|waiter| waiter.is_live && waiter.position < position) {
            self.flaw = Some(Flaw::Overtaken);
        }
        self.granted = self.granted.max(token);
        self.used = self.used.max(token);
        self.server.token = token;
        self.server.lock = lock;
    }
}
