//! Turns inside a process: a lease goes from one task of a client to the next, and the store sees
//! one request that holds the lock.
//!
//! The next holder has a token of its own, from the block of the grant, and the window of the
//! holder before. Writes of that holder may come late. An unconfirmed offer stays an offer: the
//! next holder claims it for itself, and ignores the answer to the former holder's claim.
//!
//! If the next task is gone before it takes up the lease, a cancel ends the hand-off. The length
//! of turns is left out. Hand-overs pass waiters of other clients, which is the purpose of a
//! turn.

use super::design::Protocol;
use super::mistake::Mistake;
use super::server::{BLOCK, Flaw, Store};
use super::state::State;
use crate::client::Client;
use crate::messages::{Command, Sent};

impl Store {
    /// The token of the next holder in a turn.
    fn next_in_turn(&mut self, token: u8) -> u8 {
        let next = token + 1;
        if next == self.used {
            self.flaw = Some(Flaw::RepeatedToken);
        }
        self.used = self.used.max(next);
        next
    }
}

impl Protocol {
    /// True if the client does not know that its lease is lost, and there is a token for the next
    /// holder. Commands of the request may still be unanswered.
    pub(super) fn may_hand_over(&self, state: &State, client: &Client) -> bool {
        let has_it = state.has_window(client) && !client.is_lost;
        let looks = !matches!(self.mistake, Mistake::HandsOverLostLease | Mistake::NewWindowInTurn);
        let has_token = !(client.token + 1).is_multiple_of(BLOCK);
        let counts = !matches!(self.mistake, Mistake::NoBlock | Mistake::OutrunsBlock);
        client.is_holder() && (has_it || !looks) && (has_token || !counts)
    }

    pub(super) fn hand_over(&self, state: &mut State, at: usize) {
        state.left.turns -= 1;
        state.leave_write(at);
        let before = state.clients[at].token;
        let token = match self.mistake {
            Mistake::SameTokenInTurn => before,
            _ => state.store.next_in_turn(before),
        };
        let window = state.store.stamp(state.clients[at].id);
        let client = &mut state.clients[at];
        client.hand_over(token);
        let also = match self.mistake {
            Mistake::NewWindowInTurn => {
                client.stamp = Some(window);
                client.is_lost = false;
                None
            }
            Mistake::ReleasesToo => Some(Command::Release),
            Mistake::CancelsTakenHandoff => Some(Command::Cancel),
            _ => None,
        };
        let sent = |command| Sent { id: client.id, command, is_awaited: false };
        client.requests.extend(also.map(sent));
    }

    /// Nobody takes the lease up.
    pub(super) fn cancel_handoff(&self, client: &mut Client) {
        if self.mistake == Mistake::HandoffIsNotCancelled {
            client.stop_waiting();
            client.finish();
        } else {
            client.cancel();
        }
    }
}
