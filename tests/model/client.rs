//! A client: where it is in its acquisition, and what is under way for it.

use super::server::{Answer, Command, Message, RequestId, Stamp};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    /// Asked, and awaits the answer.
    Asking,
    /// Was told that it is queued, and does not hear messages yet: only where
    /// the subscription comes after the ask.
    Deaf,
    /// Queued; a message or the next poll wakes it.
    Asleep,
    Holding,
    /// Awaits the answer to its adoption.
    Adopting,
    /// Holding, and has read from the resource.
    HasRead,
    /// Awaits the answer to its release.
    Releasing,
    /// Awaits the answer to its cancel.
    Cancelling,
    Done,
    Dead,
}

/// A command on its way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sent {
    pub(super) id: RequestId,
    pub(super) command: Command,
    /// The client has not given up on the answer.
    pub(super) is_awaited: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) phase: Phase,
    pub(super) id: RequestId,
    /// Acquisitions it has still to begin.
    pub(super) rounds: u8,
    pub(super) ticket: Option<u8>,
    /// The stamp of the last answer: as a waiter, of its heartbeat; as a
    /// holder, of its lease.
    pub(super) stamp: Option<Stamp>,
    pub(super) token: u8,
    /// Whose place it adopts.
    pub(super) from: Option<RequestId>,
    /// Nobody has written since it read.
    pub(super) is_fresh: bool,
    /// Its claim found that the offer had run out.
    pub(super) is_lost: bool,
    /// It goes by a window longer than the server's, which is a mistake.
    pub(super) is_overlong: bool,
    /// How many tasks had it before, of which the store does not know.
    pub(super) turns: u8,

    /// The connection: commands run in this order.
    pub(super) requests: Vec<Sent>,
    pub(super) answers: Vec<Answer>,
    /// What runs at any time: the keeper's renewal is sent over a connection
    /// of its own, and bytes of a connection given up may be late.
    pub(super) loose: Vec<Sent>,
    pub(super) messages: Vec<Message>,
}

impl Client {
    pub(super) const fn new(client: u8, rounds: u8) -> Self {
        Self {
            phase: Phase::Idle,
            id: RequestId { client, serial: 0 },
            rounds,
            ticket: None,
            stamp: None,
            token: 0,
            from: None,
            is_fresh: false,
            is_lost: false,
            is_overlong: false,
            turns: 0,
            requests: Vec::new(),
            answers: Vec::new(),
            loose: Vec::new(),
            messages: Vec::new(),
        }
    }

    pub(super) fn send(&mut self, command: Command) {
        self.requests.push(Sent { id: self.id, command, is_awaited: true });
    }

    /// No longer waits for the answers to what it sent.
    pub(super) fn give_up_answers(&mut self) {
        self.answers.clear();
        for sent in &mut self.requests {
            sent.is_awaited = false;
        }
    }

    pub(super) fn ask(&mut self) {
        self.phase = Phase::Asking;
        self.send(Command::Ask { ticket: self.ticket });
    }

    pub(super) fn adopt(&mut self, from: RequestId) {
        self.phase = Phase::Adopting;
        self.from = Some(from);
        self.send(Command::Adopt { from });
    }

    /// Sends its adoption again.
    pub(super) fn adopt_again(&mut self) {
        if let Some(from) = self.from {
            self.adopt(from);
        }
    }

    /// Its lease is left to whoever comes for it, and it holds nothing any more.
    pub(super) fn detach(&mut self) {
        self.stop_waiting();
        self.finish();
    }

    /// Neither an answer nor a message to what it sent matters any more.
    pub(super) fn stop_waiting(&mut self) {
        self.give_up_answers();
        self.messages.clear();
    }

    pub(super) fn release(&mut self) {
        self.stop_waiting();
        self.forget();
        self.phase = Phase::Releasing;
        self.send(Command::Release);
    }

    /// The cancel goes behind what was sent before.
    pub(super) fn cancel(&mut self) {
        self.stop_waiting();
        self.forget();
        self.phase = Phase::Cancelling;
        self.send(Command::Cancel);
    }

    pub(super) fn die(&mut self) {
        self.stop_waiting();
        self.forget();
        self.phase = Phase::Dead;
    }

    /// Holds, with a lease or an offer that began under this stamp.
    pub(super) fn hold(&mut self, token: u8, stamp: Stamp) {
        self.stop_waiting();
        self.phase = Phase::Holding;
        self.token = token;
        self.stamp = Some(stamp);
    }

    /// Goes on as another request.
    pub(super) const fn renumber(&mut self) {
        self.forget();
        self.id.serial += 1;
    }

    /// The acquisition is over: the next one, or none.
    pub(super) const fn finish(&mut self) {
        self.renumber();
        self.phase = if self.rounds == 0 { Phase::Done } else { Phase::Idle };
    }

    const fn forget(&mut self) {
        self.ticket = None;
        self.stamp = None;
        self.token = 0;
        self.from = None;
        self.is_fresh = false;
        self.is_lost = false;
        self.is_overlong = false;
        self.turns = 0;
    }

    pub(super) const fn is_holder(&self) -> bool {
        matches!(self.phase, Phase::Holding | Phase::HasRead)
    }

    pub(super) const fn awaits_answer(&self) -> bool {
        matches!(self.phase, Phase::Asking | Phase::Adopting | Phase::Releasing | Phase::Cancelling)
    }

    /// Nothing of its is on the network.
    pub(super) const fn is_quiet(&self) -> bool {
        self.requests.is_empty()
            && self.answers.is_empty()
            && self.loose.is_empty()
            && self.messages.is_empty()
    }

    /// It is at work on this request.
    pub(super) fn knows(&self, id: RequestId) -> bool {
        self.id == id && !matches!(self.phase, Phase::Idle | Phase::Done)
    }
}
