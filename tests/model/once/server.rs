//! The server: the lock, its queue, and the mark of the last success.

use super::design::Counts;
use super::mistake::Mistake;
use crate::messages::RequestId;
use crate::queue::{Waiter, enqueue};

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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Command {
    Ask { position: Option<u8> },
    Complete { tick: u8 },
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    Granted {
        tick: u8,
    },
    Queued {
        position: u8,
    },
    /// The work counts as done.
    Done,
    /// The request had ended before.
    Ended,
    Completed,
    NotHeld,
    Released,
}

/// A command on its way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sent {
    pub(super) id: RequestId,
    pub(super) command: Command,
}

/// A success, and until when it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mark {
    pub(super) id: RequestId,
    pub(super) until: u8,
}

/// Flaws that no state may have, noted when they happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Flaw {
    TwoSuccesses,
    MarkedByAnother,
    Denied,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    pub(super) lock: Lock,
    /// The record's flag: there may be waiters.
    is_awaited: bool,
    /// The request that ended last.
    ended: Option<RequestId>,
    /// In the order of positions.
    pub(super) queue: Vec<Waiter>,
    /// The last position that was given.
    last_position: u8,
    pub(super) mark: Option<Mark>,
    /// The time, and the tick that runs.
    pub(super) now: u8,
    /// The first success of each request that a completion was answered with. The server does
    /// not know this.
    successes: Vec<Mark>,
    pub(super) flaw: Option<Flaw>,
}

/// What the server does not remember: how the design marks, and what is wrong with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) counts: Counts,
    pub(super) plain: Option<u8>,
    pub(super) mistake: Mistake,
}

impl Rules {
    fn is_once(self, id: RequestId) -> bool {
        self.plain != Some(id.client)
    }
}

impl Server {
    pub(super) const EMPTY: Self = Self {
        lock: Lock::Absent,
        is_awaited: false,
        ended: None,
        queue: Vec::new(),
        last_position: 0,
        mark: None,
        now: 0,
        successes: Vec::new(),
        flaw: None,
    };

    pub(super) fn is_done(&self) -> bool {
        self.mark.is_some_and(|mark| mark.until > self.now)
    }

    /// True if the work counts as done, and has not succeeded, or counts for longer.
    pub(super) fn is_wrongly_done(&self) -> bool {
        self.is_done() && !self.mark.is_some_and(|mark| self.successes.contains(&mark))
    }

    /// The clock goes on. A mark that counts from its completion has its time as its expiry; that
    /// of a tick is remembered.
    pub(super) fn go_on(&mut self, counts: Counts) {
        self.now += 1;
        if counts == Counts::FromSuccess && !self.is_done() {
            self.mark = None;
        }
    }

    /// Ends the request's lease, offer or heartbeat.
    pub(super) fn expire(&mut self, id: RequestId) {
        if self.lock.id() == Some(id) {
            self.lock = Lock::Absent;
            self.is_awaited = false;
            self.ended = None;
        }
        for waiter in &mut self.queue {
            waiter.is_live &= waiter.id != id;
        }
    }

    /// Runs a command's script. Adds the waiters that are told something.
    pub(super) fn run(&mut self, sent: Sent, rules: Rules, told: &mut Vec<RequestId>) -> Answer {
        let Sent { id, command } = sent;
        let (holder, mark) = (self.lock.id(), self.mark);
        let answer = match command {
            Command::Ask { position } => self.ask(id, position, rules, told),
            Command::Complete { tick } => self.complete(id, tick, rules, told),
            Command::Release => self.release(id, rules, told),
        };
        if self.mark != mark && holder != Some(id) {
            self.flaw = Some(Flaw::MarkedByAnother);
        }
        match (command, answer) {
            (Command::Complete { tick }, Answer::Completed) => self.note_success(id, tick, rules),
            (Command::Complete { .. }, _) => self.note_refusal(id),
            _ => {}
        }
        answer
    }

    /// A repeat is no other success.
    fn note_success(&mut self, id: RequestId, tick: u8, rules: Rules) {
        if self.successes.iter().any(|success| success.id == id) {
            return;
        }
        let (since, until) = match rules.counts {
            Counts::FromSuccess => (self.now, self.now + 2),
            Counts::ForTick => (tick, tick + 1),
        };
        if self.successes.iter().any(|success| success.until > since) {
            self.flaw = Some(Flaw::TwoSuccesses);
        }
        self.successes.push(Mark { id, until });
    }

    fn note_refusal(&mut self, id: RequestId) {
        let counts = |success: &Mark| success.id == id && success.until > self.now;
        if self.successes.last().is_some_and(counts) {
            self.flaw = Some(Flaw::Denied);
        }
    }

    fn ask(
        &mut self,
        id: RequestId,
        position: Option<u8>,
        rules: Rules,
        told: &mut Vec<RequestId>,
    ) -> Answer {
        let granted = Answer::Granted { tick: self.now };
        let looks = match rules.mistake {
            Mistake::LooksOnlyAtFirst => position.is_none(),
            Mistake::LooksOnlyIfFree => self.lock.id().is_none(),
            _ => true,
        };
        if rules.is_once(id) && self.is_done() && looks && self.lock.id() != Some(id) {
            self.leave(id);
            return Answer::Done;
        }
        if self.ended == Some(id) {
            return Answer::Ended;
        }
        if self.lock.id() == Some(id) {
            self.lock = Lock::Held(id);
            return granted;
        }
        let is_free = match self.lock {
            Lock::Absent => self.queue.is_empty(),
            Lock::Free => !self.is_awaited,
            Lock::Held(_) | Lock::Offered(_) => false,
        };
        if is_free {
            self.lock = Lock::Held(id);
            self.is_awaited = false;
            return granted;
        }
        let position = enqueue(&mut self.queue, &mut self.last_position, id, position);
        match self.lock {
            Lock::Absent | Lock::Free => self.hand_over(Some(id), told),
            Lock::Held(_) | Lock::Offered(_) => self.is_awaited = true,
        }
        if self.lock == Lock::Held(id) { granted } else { Answer::Queued { position } }
    }

    fn complete(
        &mut self,
        id: RequestId,
        tick: u8,
        rules: Rules,
        told: &mut Vec<RequestId>,
    ) -> Answer {
        let until = match rules.counts {
            Counts::FromSuccess => self.now + 2,
            Counts::ForTick if rules.mistake == Mistake::MarksRunningTick => self.now + 1,
            Counts::ForTick => tick + 1,
        };
        let mark = Some(Mark { id, until });
        if self.lock.id() != Some(id) {
            self.leave(id);
            if rules.mistake == Mistake::CompletesWithoutLease {
                self.mark = mark;
                return Answer::Completed;
            }
            let is_own = self.mark.is_some_and(|mark| mark.id == id);
            if !is_own || rules.mistake == Mistake::MarkWithoutName {
                return Answer::NotHeld;
            }
            if rules.mistake == Mistake::RenewsMark {
                self.mark = mark;
            }
            return Answer::Completed;
        }
        self.mark = mark;
        if self.is_done() && self.is_awaited {
            self.end_waiters(rules, told);
        }
        self.finish(id, told);
        Answer::Completed
    }

    /// Ends all waiters that ask for the work to succeed once.
    fn end_waiters(&mut self, rules: Rules, told: &mut Vec<RequestId>) {
        let is_once = |waiter: &&Waiter| rules.is_once(waiter.id);
        let waiters = self.queue.iter().filter(is_once).map(|waiter| waiter.id);
        let ended: Vec<_> = match rules.mistake {
            Mistake::LeavesWaiters => Vec::new(),
            Mistake::EndsFirstWaiter => waiters.take(1).collect(),
            _ => waiters.collect(),
        };
        self.queue.retain(|waiter| !ended.contains(&waiter.id));
        if rules.mistake != Mistake::EndsSilently {
            told.extend(ended);
        }
    }

    fn release(&mut self, id: RequestId, rules: Rules, told: &mut Vec<RequestId>) -> Answer {
        if self.lock.id() != Some(id) {
            self.leave(id);
            return Answer::Released;
        }
        if rules.mistake == Mistake::ReleaseMarks && rules.is_once(id) {
            self.mark = Some(Mark { id, until: self.now + 1 });
        }
        self.finish(id, told);
        Answer::Released
    }

    fn leave(&mut self, id: RequestId) {
        self.queue.retain(|waiter| waiter.id != id);
    }

    /// Ends a lease or an offer. The next waiter gets the lock, or it is free.
    fn finish(&mut self, id: RequestId, told: &mut Vec<RequestId>) {
        let is_awaited = self.is_awaited;
        self.ended = Some(id);
        self.lock = Lock::Free;
        self.is_awaited = false;
        if is_awaited {
            self.hand_over(None, told);
        }
    }

    /// Gives the lock to the first live waiter: at once if that one asks, else as an offer.
    fn hand_over(&mut self, asker: Option<RequestId>, told: &mut Vec<RequestId>) {
        while !self.queue.is_empty() {
            let head = self.queue.remove(0);
            if !head.is_live {
                continue;
            }
            self.is_awaited = !self.queue.is_empty();
            if asker == Some(head.id) {
                self.lock = Lock::Held(head.id);
            } else {
                self.lock = Lock::Offered(head.id);
                told.push(head.id);
            }
            return;
        }
    }
}
