//! A reentrant mutex: one owner at a time, which may take it again.

use super::mistake::Mistake;
use super::properties::{
    BEHIND, CUT_SHORT, LEFT_BEHIND, OVERTAKEN, REPEATED_TOKEN, STUCK, TOGETHER,
};
use super::rule::Role;
use super::{Faults, Protocol};

/// A call within a call, and another owner that waits.
const NESTED: Protocol =
    Protocol::new(&[Role::hold('a'), Role::hold('a').within(0), Role::hold('b')]);
/// Two independent requests of an owner.
const PEERS: Protocol = Protocol::new(&[Role::hold('a'), Role::hold('a'), Role::hold('b')]);
const FOUR: Protocol =
    Protocol::new(&[Role::hold('a'), Role::hold('a'), Role::hold('b'), Role::hold('c')]);

/// Three requests of an owner, and another owner's.
const MANY: Protocol =
    Protocol::new(&[Role::hold('a'), Role::hold('a'), Role::hold('a'), Role::hold('b')]);

mod the_design_holds {
    use super::{FOUR, Faults, MANY, NESTED, PEERS};

    #[test]
    fn for_a_call_within_a_call() {
        NESTED.holds(Faults { losses: 1, cancels: 1, ..Faults::PAUSE });
        NESTED.holds(Faults { losses: 1, ..Faults::DEATH });
        NESTED.holds(Faults { losses: 1, ..Faults::FORCE });
    }

    #[test]
    fn for_two_requests_of_an_owner() {
        PEERS.holds(Faults { cancels: 1, ..Faults::PAUSE });
        PEERS.holds(Faults { losses: 1, ..Faults::DEATH });
        PEERS.holds(Faults::FORCE);
    }

    #[test]
    fn for_three_owners() {
        FOUR.holds(Faults::NONE);
    }

    #[test]
    fn for_two_rounds() {
        NESTED.twice().holds(Faults::CANCEL);
    }

    #[test]
    fn when_a_hold_is_adopted() {
        PEERS.holds(Faults { pauses: 1, ..Faults::DETACH });
        PEERS.holds(Faults { cancels: 1, ..Faults::DETACH });
        MANY.holds(Faults::DETACH);
    }

    #[test]
    #[ignore = "takes minutes: for the night"]
    fn with_more_faults() {
        NESTED.holds(Faults { forces: 1, ..Faults::EACH });
        NESTED.twice().holds(Faults { losses: 1, ..Faults::PAUSE });
        PEERS.holds(Faults { losses: 1, cancels: 1, ..Faults::PAUSE });
        PEERS.holds(Faults { pauses: 1, forces: 1, ..Faults::DEATH });
        PEERS.holds(Faults { losses: 1, ..Faults::FORCE });
    }

    #[test]
    #[ignore = "takes minutes: for the night"]
    fn for_three_owners_with_more_faults() {
        FOUR.holds(Faults::PAUSE);
        FOUR.holds(Faults::CANCEL);
    }
}

/// The answer to the inner call is lost, so the call asks again.
#[test]
fn counts_holds() {
    NESTED.breaks(LEFT_BEHIND, Mistake::CountsHolds, Faults::LOSS);
}

/// The answer to a release is lost, so it is sent again.
#[test]
fn counts_holds_down() {
    PEERS.breaks(TOGETHER, Mistake::CountsHolds, Faults::LOSS);
}

#[test]
fn ends_all() {
    NESTED.breaks(TOGETHER, Mistake::EndsAll, Faults::NONE);
}

#[test]
fn owner_waits() {
    NESTED.breaks(STUCK, Mistake::OwnerWaits, Faults::NONE);
}

/// Two requests of an owner wait, with another owner's between them. The first gets the lock, so
/// the second is granted past the queue. Then the other owner's request goes.
#[test]
fn stays_in_queue() {
    FOUR.breaks(LEFT_BEHIND, Mistake::StaysInQueue, Faults::NONE);
    FOUR.breaks(CUT_SHORT, Mistake::StaysInQueue, Faults::CANCEL);
}

#[test]
fn new_token_on_reentry() {
    NESTED.breaks(BEHIND, Mistake::NewTokenOnReentry, Faults::NONE);
}

#[test]
fn tries_first() {
    PEERS.breaks(OVERTAKEN, Mistake::TriesFirst, Faults::DEATH);
}

#[test]
fn force_keeps_token() {
    PEERS.breaks(REPEATED_TOKEN, Mistake::ForceKeepsToken, Faults::FORCE);
}

#[test]
fn adopter_has_new_token() {
    MANY.breaks(BEHIND, Mistake::AdopterHasNewToken, Faults::DETACH);
}

#[test]
fn adopts_anyway() {
    PEERS.breaks(TOGETHER, Mistake::AdoptsAnyway, Faults::DETACH);
}
