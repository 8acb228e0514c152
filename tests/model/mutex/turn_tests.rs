//! The design holds within turns, and each mistake in them is found.

use super::design::{Protocol, THREE, TWICE, TWO};
use super::mistake::Mistake;
use super::properties::{LEFT_BEHIND, REPEATED_TOKEN, STALE_WRITE, TWO_HOLDERS};
use super::server::BLOCK;
use crate::faults::Faults;

const TWO_TURNS: Faults = Faults { turns: 2, ..Faults::NONE };

#[test]
fn the_design_holds_within_a_turn() {
    TWO.holds(Faults { losses: 1, pauses: 1, hints: 1, ..Faults::TURN });
    TWO.holds(Faults { cancels: 1, deaths: 1, ..TWO_TURNS });
    TWO.holds(Faults { failovers: 1, pauses: 1, ..Faults::TURN });
    TWICE.holds(Faults::TURN);
    THREE.holds(Faults::TURN);
}

#[test]
#[ignore = "takes minutes: for the night"]
fn the_design_holds_within_a_turn_with_more_faults() {
    TWO.holds(Faults { losses: 1, cancels: 1, pauses: 1, hints: 1, ..TWO_TURNS });
    TWO.holds(Faults { deaths: 1, failovers: 1, pauses: 1, ..TWO_TURNS });
    TWO.holds(Faults { losses: 1, pauses: 1, detaches: 1, ..TWO_TURNS });
    TWICE.holds(Faults { pauses: 1, ..Faults::TURN });
    TWICE.holds(Faults { losses: 1, ..Faults::TURN });
    THREE.holds(Faults { pauses: 1, ..Faults::TURN });
}

/// An adopter has a greater token than all former holders.
#[test]
fn the_design_holds_when_a_handed_over_lease_is_detached() {
    TWO.holds(Faults { losses: 1, pauses: 1, detaches: 1, ..Faults::TURN });
}

/// A lost lease stays lost, because it keeps its window. The hand-over only costs time.
#[test]
fn a_lost_lease_does_no_harm_in_its_own_window() {
    let careless = Protocol { mistake: Mistake::HandsOverLostLease, ..TWO };
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

/// A write of the former holder comes after the next holder's read.
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
fn cancels_taken_handoff() {
    TWO.breaks(TWO_HOLDERS, Mistake::CancelsTakenHandoff, Faults::TURN);
}

#[test]
fn handoff_is_not_cancelled() {
    TWO.breaks(LEFT_BEHIND, Mistake::HandoffIsNotCancelled, Faults::TURN);
}
