//! A client: its acquisition, the lease that stays with it, and its messages on the network.

use super::server::{Answer, Command, Sent};
use crate::messages::RequestId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// It has nothing.
    Resting,
    /// Asked, and awaits the answer.
    Asking,
    /// Its try was refused. It tries again, or gives up.
    Refused,
    /// Queued. It asks again.
    Asleep,
    Holding,
    /// Awaits the server's leave to keep the lease.
    Lingers,
    /// It keeps the lease, and no task uses it.
    Idle,
    /// Awaits the answer to its release.
    Releasing,
    Dead,
}

/// The turn of a lease that lingers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Turn {
    /// The server lets the lease stay.
    pub(super) may_stay: bool,
    pub(super) is_recalled: bool,
    pub(super) is_refilling: bool,
}

impl Turn {
    pub(super) const NONE: Self = Self { may_stay: false, is_recalled: false, is_refilling: false };
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) phase: Phase,
    pub(super) id: RequestId,
    /// The number of acquisitions that it has still to begin.
    pub(super) rounds: u8,
    pub(super) is_try: bool,
    pub(super) position: Option<u8>,
    /// The window in which its lease or its place in the queue began.
    pub(super) window: u8,
    pub(super) token: u8,
    /// The last token that it may use.
    pub(super) last_token: u8,
    pub(super) turn: Turn,

    /// The commands on its connection, which run in this order.
    pub(super) requests: Vec<Sent>,
    pub(super) answers: Vec<Answer>,
    /// Refills, which run at any time, and their answers.
    pub(super) refills: Vec<Sent>,
    pub(super) refilled: Vec<(RequestId, Answer)>,
    /// The number of recalls on their way. A recall says the lock, and not the request.
    pub(super) recalls: u8,
    /// The forced request that it is told of.
    pub(super) forced: Option<RequestId>,
}

impl Client {
    pub(super) const fn new(client: u8, rounds: u8) -> Self {
        Self {
            phase: Phase::Resting,
            id: RequestId { client, serial: 0 },
            rounds,
            is_try: false,
            position: None,
            window: 0,
            token: 0,
            last_token: 0,
            turn: Turn::NONE,
            requests: Vec::new(),
            answers: Vec::new(),
            refills: Vec::new(),
            refilled: Vec::new(),
            recalls: 0,
            forced: None,
        }
    }

    pub(super) fn send(&mut self, command: Command) {
        self.requests.push(Sent { id: self.id, command, is_awaited: true });
    }

    /// Sends a command whose answer nobody waits for.
    pub(super) fn tell(&mut self, command: Command) {
        self.requests.push(Sent { id: self.id, command, is_awaited: false });
    }

    pub(super) fn ask(&mut self) {
        self.phase = Phase::Asking;
        self.send(Command::Ask { is_try: self.is_try, position: self.position });
    }

    pub(super) fn release(&mut self) {
        self.phase = Phase::Releasing;
        self.send(Command::Release);
    }

    /// Releases an idle lease. The next acquisition need not wait for that.
    pub(super) fn end_idle(&mut self) {
        self.tell(Command::Release);
        self.finish();
    }

    /// Stops waiting for the answers to its commands.
    pub(super) fn give_up_answers(&mut self) {
        self.answers.clear();
        for sent in &mut self.requests {
            sent.is_awaited = false;
        }
    }

    pub(super) fn die(&mut self) {
        self.give_up_answers();
        self.refilled.clear();
        (self.recalls, self.forced) = (0, None);
        self.phase = Phase::Dead;
    }

    /// Goes on as a new request.
    pub(super) fn finish(&mut self) {
        self.id.serial += 1;
        self.phase = Phase::Resting;
        self.position = None;
        (self.window, self.token, self.last_token) = (0, 0, 0);
        self.turn = Turn::NONE;
    }

    pub(super) const fn awaits_answer(&self) -> bool {
        matches!(self.phase, Phase::Asking | Phase::Lingers | Phase::Releasing)
    }

    /// True if nothing of this client is on the network.
    pub(super) const fn is_quiet(&self) -> bool {
        self.requests.is_empty()
            && self.answers.is_empty()
            && self.refills.is_empty()
            && self.refilled.is_empty()
    }

    /// True if it works on this request.
    pub(super) fn knows(&self, id: RequestId) -> bool {
        self.id == id && self.phase != Phase::Resting
    }
}
