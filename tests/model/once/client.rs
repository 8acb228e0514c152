//! A client: its acquisition, and its messages on the network.

use super::server::{Answer, Command, Sent};
use crate::messages::RequestId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    /// Asked, and awaits the answer.
    Asking,
    /// Queued. A hint or the next poll wakes it.
    Asleep,
    Holding,
    /// Its work has succeeded. It awaits the answer to its completion.
    Completing,
    /// Its work has failed. It awaits the answer to its release.
    Releasing,
    /// It has ended its last acquisition.
    Over,
    Dead,
}

/// How an acquisition ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum End {
    /// The success was confirmed.
    Succeeded,
    /// The work succeeded, but the lease had been lost.
    Lost,
    /// The work failed.
    Failed,
    /// The work was done before.
    FoundDone,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) phase: Phase,
    pub(super) id: RequestId,
    /// The number of acquisitions that it has still to begin.
    pub(super) rounds: u8,
    pub(super) position: Option<u8>,
    /// The tick of its lease.
    pub(super) tick: u8,
    /// It was queued before it got its lease, or learned that the work is done.
    pub(super) has_waited: bool,
    /// The end of its last acquisition.
    pub(super) end: Option<End>,

    /// The command that was not run yet.
    pub(super) request: Option<Command>,
    pub(super) answer: Option<Answer>,
    /// Commands that were sent again. They may run at any time, or never.
    pub(super) late: Vec<Sent>,
    /// A hint is on its way.
    pub(super) is_told: bool,
}

impl Client {
    pub(super) const fn new(client: u8, rounds: u8) -> Self {
        Self {
            phase: Phase::Idle,
            id: RequestId { client, serial: 0 },
            rounds,
            position: None,
            tick: 0,
            has_waited: false,
            end: None,
            request: None,
            answer: None,
            late: Vec::new(),
            is_told: false,
        }
    }

    pub(super) const fn start(&mut self, now: u8) {
        self.rounds -= 1;
        self.has_waited = false;
        self.tick = now;
        self.ask();
    }

    pub(super) const fn ask(&mut self) {
        self.phase = Phase::Asking;
        self.request = Some(Command::Ask { position: self.position });
    }

    pub(super) const fn succeed(&mut self) {
        self.phase = Phase::Completing;
        self.request = Some(Command::Complete { tick: self.tick });
    }

    pub(super) const fn fail(&mut self) {
        self.phase = Phase::Releasing;
        self.request = Some(Command::Release);
    }

    /// Takes the answer.
    pub(super) fn receive(&mut self, keeps_tick: bool) {
        match (self.phase, self.answer.take()) {
            (Phase::Asking, Some(Answer::Granted { tick })) => {
                self.phase = Phase::Holding;
                self.is_told = false;
                if !keeps_tick {
                    self.tick = tick;
                }
            }
            (Phase::Asking, Some(Answer::Queued { position })) => {
                self.phase = Phase::Asleep;
                self.position = Some(position);
                self.has_waited = true;
            }
            (Phase::Asking, Some(Answer::Done)) => self.finish(Some(End::FoundDone)),
            (Phase::Completing, Some(Answer::Completed)) => self.finish(Some(End::Succeeded)),
            (Phase::Completing, _) => self.finish(Some(End::Lost)),
            (Phase::Releasing, _) => self.finish(Some(End::Failed)),
            _ => self.finish(None),
        }
    }

    /// Gets a hint, if it waits for one.
    pub(super) fn notify(&mut self, id: RequestId) {
        self.is_told |= self.id == id && matches!(self.phase, Phase::Asking | Phase::Asleep);
    }

    /// Sends the unanswered command again. The one before may be late, unless it is an ask whose
    /// connection was closed.
    pub(super) fn send_again(&mut self, closes: bool) {
        if self.phase == Phase::Asking && closes {
            self.request = None;
        }
        self.leave_request();
        match self.phase {
            Phase::Asking => self.ask(),
            Phase::Completing => self.succeed(),
            Phase::Releasing => self.fail(),
            _ => {}
        }
    }

    pub(super) fn die(&mut self) {
        self.leave_request();
        self.is_told = false;
        self.phase = Phase::Dead;
    }

    /// Waits for no answer any more.
    fn leave_request(&mut self) {
        self.answer = None;
        let id = self.id;
        self.late.extend(self.request.take().map(|command| Sent { id, command }));
    }

    /// Ends the acquisition. The next one follows, or none.
    const fn finish(&mut self, end: Option<End>) {
        self.end = end;
        self.position = None;
        self.tick = 0;
        self.is_told = false;
        self.id.serial += 1;
        self.phase = if self.rounds == 0 { Phase::Over } else { Phase::Idle };
    }

    /// True if it works on this request.
    pub(super) fn works_on(&self, id: RequestId) -> bool {
        self.id == id && !matches!(self.phase, Phase::Idle | Phase::Over | Phase::Dead)
    }

    pub(super) const fn awaits_answer(&self) -> bool {
        matches!(self.phase, Phase::Asking | Phase::Completing | Phase::Releasing)
    }
}
