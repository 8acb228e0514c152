//! Turns inside a process: a lease goes from one task of a client to the next, and the
//! store sees one request that holds.
//!
//! The next has a token of its own, from the block of the grant, and the window that the
//! one before had. What that one has written by then may come late. An offer that was not
//! confirmed goes on as one: the next claims it for itself, and the answer to the claim of
//! the one before tells it nothing.
//!
//! What is told to be the next and gone before it takes that up has it taken back, by a
//! cancel. How long turns last is left out; and that hand-overs pass those who wait
//! elsewhere is what a turn is.

use super::client::{Client, Phase, Sent};
use super::mistake::Mistake;
use super::properties::{LEFT_BEHIND, REPEATED_TOKEN, STALE_WRITE, TWO_HOLDERS};
use super::server::{Command, Flaw, Store};
use super::steps::State;
use super::{Faults, Protocol, THREE, TWICE, TWO};

/// The tokens of a grant: for so many leases in a turn.
pub(super) const BLOCK: u8 = 3;

impl Store {
    /// The token of who comes after this one in a turn.
    fn next_in_turn(&mut self, token: u8) -> u8 {
        let next = token + 1;
        if next == self.used {
            self.flaw = Some(Flaw::RepeatedToken);
        }
        self.used = self.used.max(next);
        next
    }
}

impl Client {
    /// Another task goes on with what it has.
    pub(super) fn hand_over(&mut self, token: u8) {
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

impl Protocol {
    /// It has what it knows not to be lost, and there is a token for the next. It does not
    /// matter whether all that was sent for its request is answered.
    pub(super) fn may_hand_over(&self, state: &State, client: &Client) -> bool {
        let has_it = state.has_window(client) && !client.is_lost;
        let looks =
            !matches!(self.mistake, Mistake::HandsOverWhatIsLost | Mistake::NewWindowInTurn);
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
            Mistake::TakesBack => Some(Command::Cancel),
            _ => None,
        };
        let sent = |command| Sent { id: client.id, command, is_awaited: false };
        client.requests.extend(also.map(sent));
    }

    /// Nobody takes up what was handed over.
    pub(super) fn take_back(&self, client: &mut Client) {
        if self.mistake == Mistake::NotTakenBack {
            client.stop_waiting();
            client.finish();
        } else {
            client.cancel();
        }
    }
}

const TWO_TURNS: Faults = Faults { turns: 2, ..Faults::NONE };

#[test]
fn the_design_holds_within_a_turn() {
    TWO.holds(Faults { losses: 1, pauses: 1, messages: 1, ..Faults::TURN });
    TWO.holds(Faults { cancels: 1, deaths: 1, ..TWO_TURNS });
    TWO.holds(Faults { failovers: 1, pauses: 1, ..Faults::TURN });
    TWICE.holds(Faults::TURN);
    THREE.holds(Faults::TURN);
}

#[test]
#[ignore = "takes minutes: for the night"]
fn the_design_holds_whatever_happens_within_a_turn() {
    TWO.holds(Faults { losses: 1, cancels: 1, pauses: 1, messages: 1, ..TWO_TURNS });
    TWO.holds(Faults { deaths: 1, failovers: 1, pauses: 1, ..TWO_TURNS });
    TWO.holds(Faults { losses: 1, pauses: 1, detaches: 1, ..TWO_TURNS });
    TWICE.holds(Faults { pauses: 1, ..Faults::TURN });
    TWICE.holds(Faults { losses: 1, ..Faults::TURN });
    THREE.holds(Faults { pauses: 1, ..Faults::TURN });
}

/// Who adopts it has a greater token than all who had it before.
#[test]
fn the_design_holds_when_what_was_handed_over_is_detached() {
    TWO.holds(Faults { losses: 1, pauses: 1, detaches: 1, ..Faults::TURN });
}

/// What was lost stays so, since the window goes with it: time is lost, and no more.
#[test]
fn what_is_lost_does_no_harm_in_its_own_window() {
    let careless = Protocol { mistake: Mistake::HandsOverWhatIsLost, ..TWO };
    careless.holds(Faults { pauses: 1, losses: 1, ..Faults::TURN });
}

#[test]
fn no_block() {
    TWO.breaks(REPEATED_TOKEN, Mistake::NoBlock, Faults::TURN);
}

#[test]
fn outruns_block() {
    let turns = Faults { turns: BLOCK, ..Faults::NONE };
    TWO.breaks(REPEATED_TOKEN, Mistake::OutrunsBlock, turns);
}

/// A write of the one before comes after the next has read.
#[test]
fn same_token_in_turn() {
    TWO.breaks(STALE_WRITE, Mistake::SameTokenInTurn, Faults::TURN);
}

#[test]
fn new_window_in_turn() {
    TWO.breaks(TWO_HOLDERS, Mistake::NewWindowInTurn, Faults { pauses: 1, ..Faults::TURN });
}

#[test]
fn releases_too() {
    TWO.breaks(TWO_HOLDERS, Mistake::ReleasesToo, Faults::TURN);
}

#[test]
fn takes_back() {
    TWO.breaks(TWO_HOLDERS, Mistake::TakesBack, Faults::TURN);
}

#[test]
fn not_taken_back() {
    TWO.breaks(LEFT_BEHIND, Mistake::NotTakenBack, Faults::TURN);
}
