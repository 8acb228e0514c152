//! The effects of a client's steps, and where each mistake makes a difference.

use super::design::Protocol;
use super::mistake::Mistake;
use super::server::Flaw;
use super::state::{LateWrite, State};
use crate::client::{Client, Phase};
use crate::messages::{Answer, Command, Hint, Sent};

impl Protocol {
    pub(super) fn run(&self, state: &mut State, sent: Sent) -> Answer {
        let most = match sent.command {
            Command::Adopt { from } => state.tickets.token(from),
            _ => None,
        };
        let (answer, hint) = state.store.run(sent.id, sent.command, most, self.mistake);
        if let (Command::Adopt { from }, Answer::Granted { .. }) = (sent.command, answer)
            && state.tickets.use_up(from, sent.id)
        {
            state.store.flaw = Some(Flaw::AdoptedTwice);
        }
        if let Some(hint) = hint {
            let waiter = &mut state.clients[usize::from(hint.id.client)];
            let is_subscribed =
                self.mistake != Mistake::SubscribesLate || waiter.phase == Phase::Asleep;
            if is_subscribed {
                waiter.notify(hint);
            }
        }
        answer
    }

    pub(super) fn receive(&self, state: &mut State, at: usize) {
        let client = &mut state.clients[at];
        client.receive();
        if client.phase == Phase::Asleep && self.mistake == Mistake::SubscribesLate {
            client.phase = Phase::Unsubscribed;
        }
    }

    /// A waiter starts at the hint, and claims the lock at once.
    pub(super) fn take_hint(&self, state: &mut State, at: usize, hint: Hint) {
        let accepts = self.accepts(state, &state.clients[at], hint);
        let client = &mut state.clients[at];
        if !accepts {
            if client.phase == Phase::Asleep {
                client.ask();
            }
            return;
        }
        // It goes by the window of its last answer, not by the hint's.
        let stamp = client.stamp.take().unwrap_or_default();
        client.hold(hint.token, stamp);
        client.is_overlong = self.mistake == Mistake::WindowShrinks;
        let command = if self.mistake == Mistake::ClaimAcquires {
            Command::Ask { position: client.position }
        } else {
            Command::Renew
        };
        client.unordered.push(Sent { id: client.id, command, is_awaited: true });
    }

    pub(super) fn renewed(&self, state: &mut State, at: usize, answer: Answer) {
        // A good answer makes the window longer, which changes nothing here. It must not open a
        // window that has ended.
        if answer == Answer::NotHeld {
            state.clients[at].is_lost = true;
        } else if self.mistake == Mistake::RenewalRevives {
            let stamp = state.store.stamp(state.clients[at].id);
            state.clients[at].stamp = Some(stamp);
        }
    }

    /// True if the waiter has been told that it is queued, its window has not ended, and the offer
    /// was made in that window or after a later ask.
    pub(super) fn accepts(&self, state: &State, client: &Client, hint: Hint) -> bool {
        let is_of_this_wait = self.mistake == Mistake::NoStamp || client.is_of_this_wait(hint);
        state.has_window(client) && is_of_this_wait
    }

    pub(super) fn read(&self, state: &mut State, at: usize) {
        let token = state.clients[at].token;
        if !matches!(self.mistake, Mistake::NoFence | Mistake::FenceOnWritesOnly) {
            if token < state.fence {
                self.release(&mut state.clients[at]);
                return;
            }
            state.fence = token;
        }
        state.clients[at].phase = Phase::HasRead;
        state.clients[at].is_fresh = true;
    }

    pub(super) fn write(&self, state: &mut State, at: usize) {
        let client = &state.clients[at];
        let write = LateWrite { token: client.token, is_fresh: client.is_fresh };
        self.reach(state, write);
        self.release(&mut state.clients[at]);
    }

    /// A write arrives at the resource.
    pub(super) fn reach(&self, state: &mut State, write: LateWrite) {
        if write.token < state.fence && self.mistake != Mistake::NoFence {
            return;
        }
        if !write.is_fresh {
            state.store.flaw = Some(Flaw::StaleWrite);
        }
        state.fence = write.token;
        for client in &mut state.clients {
            client.is_fresh = false;
        }
        for late in &mut state.late_writes {
            late.is_fresh = false;
        }
    }

    pub(super) fn release(&self, client: &mut Client) {
        client.release();
        if self.mistake == Mistake::ReleaseOvertakes {
            client.requests.rotate_right(1);
        }
    }

    pub(super) fn cancel(&self, state: &mut State, at: usize) {
        state.left.cancels -= 1;
        let client = &mut state.clients[at];
        if self.mistake == Mistake::NoCancel {
            client.stop_waiting();
            client.finish();
            return;
        }
        client.cancel();
        if self.mistake == Mistake::CancelOvertakes {
            client.requests.rotate_right(1);
        }
    }

    pub(super) fn send_again(&self, client: &mut Client, is_lost: bool) {
        client.give_up_answers();
        if is_lost {
            client.requests.clear();
        }
        if self.mistake == Mistake::OldConnectionLives {
            client.unordered.append(&mut client.requests);
        }
        if client.phase == Phase::Asking && self.mistake == Mistake::NewIdOnRetry {
            client.renumber();
        }
        client.send_again();
    }
}
