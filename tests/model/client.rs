//! A client: where it is in its acquisition, and what is under way for it.

use crate::messages::{Answer, Command, Message, RequestId, Sent, Stamp};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
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

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    pub(crate) id: RequestId,
    /// Acquisitions it has still to begin.
    pub(crate) rounds: u8,
    pub(crate) ticket: Option<u8>,
    /// The stamp of the last answer: as a waiter, of its heartbeat; as a
    /// holder, of its lease.
    pub(crate) stamp: Option<Stamp>,
    pub(crate) token: u8,
    /// The request whose place it adopts.
    pub(crate) from: Option<RequestId>,
    /// Nobody has written since it read.
    pub(crate) is_fresh: bool,
    /// Its claim found that the offer had run out.
    pub(crate) is_lost: bool,
    /// It goes by a window longer than the server's, which is a mistake.
    pub(crate) is_overlong: bool,
    /// How many tasks had it before, of which the store does not know.
    pub(crate) turns: u8,

    /// The connection: commands run in this order.
    pub(crate) requests: Vec<Sent>,
    pub(crate) answers: Vec<Answer>,
    /// Commands that run at any time: the keeper's renewal is sent over a connection
    /// of its own, and bytes of a connection given up may be late.
    pub(crate) loose: Vec<Sent>,
    pub(crate) messages: Vec<Message>,
}

impl Client {
    pub(crate) const fn new(client: u8, rounds: u8) -> Self {
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

    pub(crate) fn send(&mut self, command: Command) {
        self.requests.push(Sent { id: self.id, command, is_awaited: true });
    }

    /// No longer waits for the answers to what it sent.
    pub(crate) fn give_up_answers(&mut self) {
        self.answers.clear();
        for sent in &mut self.requests {
            sent.is_awaited = false;
        }
    }

    pub(crate) fn ask(&mut self) {
        self.phase = Phase::Asking;
        self.send(Command::Ask { ticket: self.ticket });
    }

    pub(crate) fn adopt(&mut self, from: RequestId) {
        self.phase = Phase::Adopting;
        self.from = Some(from);
        self.send(Command::Adopt { from });
    }

    /// Sends its adoption again.
    pub(crate) fn adopt_again(&mut self) {
        if let Some(from) = self.from {
            self.adopt(from);
        }
    }

    /// It leaves its lease to an adopter, and holds nothing any more.
    pub(crate) fn detach(&mut self) {
        self.stop_waiting();
        self.finish();
    }

    /// Neither an answer nor a message to what it sent matters any more.
    pub(crate) fn stop_waiting(&mut self) {
        self.give_up_answers();
        self.messages.clear();
    }

    pub(crate) fn release(&mut self) {
        self.stop_waiting();
        self.forget();
        self.phase = Phase::Releasing;
        self.send(Command::Release);
    }

    /// The cancel goes behind what was sent before.
    pub(crate) fn cancel(&mut self) {
        self.stop_waiting();
        self.forget();
        self.phase = Phase::Cancelling;
        self.send(Command::Cancel);
    }

    pub(crate) fn die(&mut self) {
        self.stop_waiting();
        self.forget();
        self.phase = Phase::Dead;
    }

    /// Takes the next answer.
    pub(crate) fn receive(&mut self) {
        let answer = self.answers.remove(0);
        match (self.phase, answer) {
            (Phase::Asking | Phase::Adopting, Answer::Granted { token, stamp }) => {
                self.hold(token, stamp);
            }
            (Phase::Asking, Answer::Queued { ticket, stamp }) => {
                self.ticket = Some(ticket);
                self.stamp = Some(stamp);
                self.phase = Phase::Asleep;
            }
            // A refused request has no place in the queue either.
            _ => self.finish(),
        }
    }

    /// Is sent a message, if it waits for one.
    pub(crate) fn notify(&mut self, message: Message) {
        let waits = matches!(self.phase, Phase::Asking | Phase::Asleep);
        if waits && message.id == self.id {
            self.messages.push(message);
        }
    }

    /// The offer was made upon the last answer, or a later ask.
    pub(crate) fn is_of_this_wait(&self, message: Message) -> bool {
        self.stamp.is_some_and(|stamp| message.stamp >= stamp)
    }

    /// Sends the command again that was not answered.
    pub(crate) fn send_again(&mut self) {
        match self.phase {
            Phase::Asking => self.ask(),
            Phase::Adopting => self.adopt_again(),
            Phase::Releasing => self.send(Command::Release),
            Phase::Cancelling => self.send(Command::Cancel),
            _ => {}
        }
    }

    /// Holds, with a lease or an offer that began under this stamp.
    pub(crate) fn hold(&mut self, token: u8, stamp: Stamp) {
        self.stop_waiting();
        self.phase = Phase::Holding;
        self.token = token;
        self.stamp = Some(stamp);
    }

    /// Goes on as another request.
    pub(crate) const fn renumber(&mut self) {
        self.forget();
        self.id.serial += 1;
    }

    /// The acquisition is over: the next one, or none.
    pub(crate) const fn finish(&mut self) {
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

    pub(crate) const fn is_holder(&self) -> bool {
        matches!(self.phase, Phase::Holding | Phase::HasRead)
    }

    pub(crate) const fn awaits_answer(&self) -> bool {
        matches!(self.phase, Phase::Asking | Phase::Adopting | Phase::Releasing | Phase::Cancelling)
    }

    /// Nothing of its is on the network.
    pub(crate) const fn is_quiet(&self) -> bool {
        self.requests.is_empty()
            && self.answers.is_empty()
            && self.loose.is_empty()
            && self.messages.is_empty()
    }

    /// It is at work on this request.
    pub(crate) fn knows(&self, id: RequestId) -> bool {
        self.id == id && !matches!(self.phase, Phase::Idle | Phase::Done)
    }

    /// Another task goes on with what it has.
    pub(crate) fn hand_over(&mut self, token: u8) {
        self.phase = Phase::Holding;
        self.token = token;
        self.is_fresh = false;
        self.turns += 1;
        let is_offer = self.loose.iter().any(|sent| sent.is_awaited);
        for claim in &mut self.loose {
            claim.is_awaited = false;
        }
        if is_offer {
            self.loose.push(Sent { id: self.id, command: Command::Renew, is_awaited: true });
        }
    }
}
