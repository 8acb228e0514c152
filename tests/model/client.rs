//! A client: the phase of its acquisition, and its commands, answers and hints on the network.

use crate::messages::{Answer, Command, Hint, RequestId, Sent, Stamp};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Idle,
    /// Asked, and awaits the answer.
    Asking,
    /// Was told that it is queued, and gets no hints yet. Only a late subscription leads here.
    Unsubscribed,
    /// Queued. A hint or the next poll wakes it.
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
    /// The number of acquisitions that it has still to begin.
    pub(crate) rounds: u8,
    pub(crate) position: Option<u8>,
    /// The stamp of the last answer: as a waiter, of its heartbeat; as a
    /// holder, of its lease.
    pub(crate) stamp: Option<Stamp>,
    pub(crate) token: u8,
    /// The request whose lease it adopts.
    pub(crate) from: Option<RequestId>,
    /// Nobody has written since it read.
    pub(crate) is_fresh: bool,
    /// Its claim found that the offer had ended.
    pub(crate) is_lost: bool,
    /// It goes by a window longer than the server's. Only a mistake leads here.
    pub(crate) is_overlong: bool,
    /// The number of tasks that had the lease before, which the store does not know.
    pub(crate) turns: u8,

    /// The commands on its connection, which run in this order.
    pub(crate) requests: Vec<Sent>,
    pub(crate) answers: Vec<Answer>,
    /// Commands that run at any time. The keeper's renewal uses a connection of its own, and the
    /// bytes of an abandoned connection may be late.
    pub(crate) unordered: Vec<Sent>,
    pub(crate) hints: Vec<Hint>,
}

impl Client {
    pub(crate) const fn new(client: u8, rounds: u8) -> Self {
        Self {
            phase: Phase::Idle,
            id: RequestId { client, serial: 0 },
            rounds,
            position: None,
            stamp: None,
            token: 0,
            from: None,
            is_fresh: false,
            is_lost: false,
            is_overlong: false,
            turns: 0,
            requests: Vec::new(),
            answers: Vec::new(),
            unordered: Vec::new(),
            hints: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, command: Command) {
        self.requests.push(Sent { id: self.id, command, is_awaited: true });
    }

    /// Stops waiting for the answers to its commands.
    pub(crate) fn give_up_answers(&mut self) {
        self.answers.clear();
        for sent in &mut self.requests {
            sent.is_awaited = false;
        }
    }

    pub(crate) fn ask(&mut self) {
        self.phase = Phase::Asking;
        self.send(Command::Ask { position: self.position });
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

    /// Leaves its lease to an adopter, and holds nothing any more.
    pub(crate) fn detach(&mut self) {
        self.stop_waiting();
        self.finish();
    }

    /// Drops the answers and hints that are still to come.
    pub(crate) fn stop_waiting(&mut self) {
        self.give_up_answers();
        self.hints.clear();
    }

    pub(crate) fn release(&mut self) {
        self.stop_waiting();
        self.forget();
        self.phase = Phase::Releasing;
        self.send(Command::Release);
    }

    /// The cancel follows the earlier commands.
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
            (Phase::Asking, Answer::Queued { position, stamp }) => {
                self.position = Some(position);
                self.stamp = Some(stamp);
                self.phase = Phase::Asleep;
            }
            _ => self.finish(),
        }
    }

    /// Gets a hint, if it waits for one.
    pub(crate) fn notify(&mut self, hint: Hint) {
        let waits = matches!(self.phase, Phase::Asking | Phase::Asleep);
        if waits && hint.id == self.id {
            self.hints.push(hint);
        }
    }

    /// True if the offer was made after the last answer, or after a later ask.
    pub(crate) fn is_of_this_wait(&self, hint: Hint) -> bool {
        self.stamp.is_some_and(|stamp| hint.stamp >= stamp)
    }

    /// Sends the unanswered command again.
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

    /// Goes on as a new request.
    pub(crate) const fn renumber(&mut self) {
        self.forget();
        self.id.serial += 1;
    }

    /// Ends the acquisition. The next one follows, or none.
    pub(crate) const fn finish(&mut self) {
        self.renumber();
        self.phase = if self.rounds == 0 { Phase::Done } else { Phase::Idle };
    }

    const fn forget(&mut self) {
        self.position = None;
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

    /// True if nothing of this client is on the network.
    pub(crate) const fn is_quiet(&self) -> bool {
        self.requests.is_empty()
            && self.answers.is_empty()
            && self.unordered.is_empty()
            && self.hints.is_empty()
    }

    /// True if it works on this request.
    pub(crate) fn knows(&self, id: RequestId) -> bool {
        self.id == id && !matches!(self.phase, Phase::Idle | Phase::Done)
    }

    /// Another task takes over the lease.
    pub(crate) fn hand_over(&mut self, token: u8) {
        self.phase = Phase::Holding;
        self.token = token;
        self.is_fresh = false;
        self.turns += 1;
        let is_offer = self.unordered.iter().any(|sent| sent.is_awaited);
        for claim in &mut self.unordered {
            claim.is_awaited = false;
        }
        if is_offer {
            self.unordered.push(Sent { id: self.id, command: Command::Renew, is_awaited: true });
        }
    }
}
