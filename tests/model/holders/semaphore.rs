//! A semaphore of two permits.

use super::mistake::Mistake;
use super::properties::{LOST_TURN, OVERTAKEN, TOGETHER};
use super::rule::Role;
use super::{Faults, Protocol, State};
use crate::client::Client;
use crate::messages::{Command, Sent};

const THREE: Protocol = Protocol::new(&[Role::PERMIT; 3]);
const FOUR: Protocol = Protocol::new(&[Role::PERMIT; 4]);
const DEATHS: Faults = Faults { deaths: 2, ..Faults::NONE };

impl Protocol {
    pub(super) fn may_hand_over(&self, state: &State, client: &Client) -> bool {
        let looks = self.mistake != Mistake::NewWindowInTurn;
        state.left.turns > 0 && client.is_holder() && (state.believes(client) || !looks)
    }
}

impl State {
    /// Another task of the client takes over its permit.
    pub(super) fn hand_over(&mut self, at: usize, mistake: Mistake) {
        self.left.turns -= 1;
        let window = self.server.stamp(self.clients[at].id);
        let client = &mut self.clients[at];
        client.hand_over(client.token);
        if mistake == Mistake::NewWindowInTurn {
            client.stamp = Some(window);
        }
        if mistake == Mistake::ReleasesToo {
            let release = Sent { id: client.id, command: Command::Release, is_awaited: false };
            client.requests.push(release);
        }
    }
}

#[test]
fn the_design_holds_for_three_clients() {
    THREE.holds(Faults { losses: 1, pauses: 1, ..Faults::CANCEL });
    THREE.holds(Faults { deaths: 1, ..Faults::PAUSE });
    THREE.holds(Faults { pauses: 1, ..Faults::FORCE });
}

#[test]
fn the_design_holds_when_a_permit_is_adopted() {
    THREE.holds(Faults { pauses: 1, losses: 1, ..Faults::DETACH });
    THREE.holds(Faults { cancels: 1, deaths: 1, ..Faults::DETACH });
}

#[test]
fn the_design_holds_within_a_turn() {
    THREE.holds(Faults { pauses: 1, ..Faults::TURN });
    THREE.holds(Faults { losses: 1, cancels: 1, ..Faults::TURN });
    THREE.holds(Faults { detaches: 1, ..Faults::TURN });
}

#[test]
#[ignore = "takes a minute: for the night"]
fn the_design_holds_for_four_clients() {
    THREE.twice().holds(Faults::DETACH);
    FOUR.holds(Faults { pauses: 1, ..Faults::DETACH });
    FOUR.holds(Faults::PAUSE);
    FOUR.holds(DEATHS);
    FOUR.holds(Faults::FORCE);
    FOUR.holds(Faults { pauses: 1, ..Faults::TURN });
}

#[test]
fn never_purges() {
    THREE.breaks(LOST_TURN, Mistake::NeverPurges, Faults::DEATH);
}

#[test]
fn one_at_a_time() {
    FOUR.breaks(LOST_TURN, Mistake::OneAtATime, DEATHS);
}

#[test]
fn tries_first() {
    FOUR.breaks(OVERTAKEN, Mistake::TriesFirst, Faults::DEATH);
}

#[test]
fn renewal_creates() {
    FOUR.breaks(TOGETHER, Mistake::RenewalCreates, Faults::PAUSE);
}

#[test]
fn no_stamp() {
    FOUR.breaks(TOGETHER, Mistake::NoStamp, Faults::PAUSE);
}

#[test]
fn goes_by_heartbeat() {
    FOUR.breaks(TOGETHER, Mistake::GoesByHeartbeat, Faults::PAUSE);
}

#[test]
fn adopter_is_added() {
    THREE.breaks(TOGETHER, Mistake::AdopterIsAdded, Faults::DETACH);
}

#[test]
fn adopts_anyway() {
    FOUR.breaks(TOGETHER, Mistake::AdoptsAnyway, Faults::DETACH);
}

#[test]
fn releases_too() {
    THREE.breaks(TOGETHER, Mistake::ReleasesToo, Faults::TURN);
}

#[test]
fn new_window_in_turn() {
    THREE.breaks(TOGETHER, Mistake::NewWindowInTurn, Faults { pauses: 1, ..Faults::TURN });
}
