//! A read-write lock: readers together, or one writer.

use super::mistake::Mistake;
use super::properties::{
    CUT_SHORT, LEFT_BEHIND, LOST_TURN, OVERTAKEN, REPEATED_TOKEN, REVIVED, STUCK, TOGETHER,
};
use super::rule::Role;
use super::{Faults, Protocol};

const READ: Role = Role::READ.owned_by('a');
const WRITE: Role = Role::WRITE.owned_by('a');

const THREE: Protocol = Protocol::new(&[Role::READ, Role::WRITE, Role::READ]);
const WRITERS: Protocol = Protocol::new(&[Role::WRITE, Role::WRITE, Role::READ]);
const FOUR: Protocol = Protocol::new(&[Role::READ, Role::READ, Role::WRITE, Role::READ]);
/// An owner reads once more, while another waits to write.
const AGAIN: Protocol = Protocol::new(&[READ, READ.within(0), Role::WRITE]);
/// From reading to writing and back.
const UPGRADE: Protocol = Protocol::new(&[READ, WRITE.trying().within(0), Role::READ]);
const UPGRADE_PAST: Protocol = Protocol::new(&[READ, WRITE.trying().within(0), Role::WRITE]);
/// From writing to reading.
const DOWNGRADE: Protocol = Protocol::new(&[WRITE, READ.beyond(0), Role::WRITE]);
/// A reader waits until it may write.
const IN_VAIN: Protocol = Protocol::new(&[READ, WRITE.within(0), Role::READ]);
/// A writer waits, and then its owner reads.
const MEANWHILE: Protocol = Protocol::new(&[READ, WRITE, Role::WRITE]);
/// Two independent requests of an owner.
const PEERS: Protocol = Protocol::new(&[READ, READ, Role::WRITE, Role::WRITE]);
const TRIES: Protocol = Protocol::new(&[READ, WRITE.trying(), Role::READ]);
const WRITES_TWICE: Protocol = Protocol::new(&[WRITE, WRITE.trying(), Role::READ]);

mod the_design_holds {
    use super::{
        AGAIN, DOWNGRADE, FOUR, Faults, IN_VAIN, MEANWHILE, PEERS, Protocol, THREE, TRIES, UPGRADE,
        UPGRADE_PAST, WRITERS, WRITES_TWICE,
    };

    fn hold(designs: &[Protocol]) {
        for design in designs {
            design.holds(Faults { cancels: 1, ..Faults::PAUSE });
            design.holds(Faults { losses: 1, ..Faults::DEATH });
            design.holds(Faults::FORCE);
        }
    }

    #[test]
    fn for_readers_and_writers() {
        hold(&[THREE]);
        WRITERS.holds(Faults::PAUSE);
        WRITERS.holds(Faults::FORCE);
    }

    #[test]
    fn when_a_lease_is_adopted() {
        for design in [THREE, WRITERS] {
            design.holds(Faults { pauses: 1, ..Faults::DETACH });
        }
        THREE.holds(Faults { losses: 1, cancels: 1, ..Faults::DETACH });
    }

    #[test]
    fn for_a_read_within_a_read() {
        hold(&[AGAIN]);
    }

    #[test]
    fn from_reading_to_writing() {
        hold(&[UPGRADE, UPGRADE_PAST, TRIES]);
    }

    #[test]
    fn from_writing_to_reading() {
        hold(&[DOWNGRADE]);
    }

    #[test]
    fn for_owners_that_would_wait_for_themselves() {
        hold(&[IN_VAIN, WRITES_TWICE, MEANWHILE]);
    }

    #[test]
    fn for_two_requests_of_an_owner() {
        PEERS.holds(Faults::NONE);
    }

    #[test]
    fn for_two_rounds() {
        UPGRADE.twice().holds(Faults::CANCEL);
        DOWNGRADE.twice().holds(Faults::NONE);
    }

    #[test]
    #[ignore = "takes minutes: for the night"]
    fn for_one_owner_with_more_faults() {
        for design in [AGAIN, UPGRADE, UPGRADE_PAST, DOWNGRADE, IN_VAIN] {
            design.holds(Faults { forces: 1, ..Faults::EACH });
        }
        UPGRADE_PAST.twice().holds(Faults { losses: 1, ..Faults::PAUSE });
        DOWNGRADE.twice().holds(Faults { losses: 1, ..Faults::PAUSE });
    }

    #[test]
    #[ignore = "takes minutes: for the night"]
    fn for_three_clients_with_more_faults() {
        for design in [THREE, WRITERS, TRIES, WRITES_TWICE, MEANWHILE] {
            design.holds(Faults { losses: 1, cancels: 1, ..Faults::PAUSE });
            design.holds(Faults { losses: 1, ..Faults::FORCE });
            design.holds(Faults { pauses: 1, forces: 1, ..Faults::DEATH });
        }
    }

    #[test]
    #[ignore = "takes minutes: for the night"]
    fn for_four_clients_with_more_faults() {
        FOUR.holds(Faults::PAUSE);
        FOUR.holds(Faults::DEATH);
        PEERS.holds(Faults::CANCEL);
    }
}

#[test]
fn tries_first() {
    THREE.breaks(OVERTAKEN, Mistake::TriesFirst, Faults::NONE);
}

#[test]
fn skips_head() {
    FOUR.breaks(OVERTAKEN, Mistake::SkipsHead, Faults::NONE);
}

#[test]
fn one_at_a_time() {
    THREE.breaks(LOST_TURN, Mistake::OneAtATime, Faults::NONE);
}

#[test]
fn renews_all() {
    THREE.breaks(REVIVED, Mistake::RenewsAll, Faults::DEATH);
}

#[test]
fn owner_waits() {
    AGAIN.breaks(STUCK, Mistake::OwnerWaits, Faults::NONE);
}

#[test]
fn stays_in_queue() {
    PEERS.breaks(LEFT_BEHIND, Mistake::StaysInQueue, Faults::NONE);
    PEERS.breaks(CUT_SHORT, Mistake::StaysInQueue, Faults::CANCEL);
}

/// The owner reads and writes. The release of the writer's lease also ends the reader's.
#[test]
fn ends_all() {
    DOWNGRADE.breaks(TOGETHER, Mistake::EndsAll, Faults::NONE);
}

#[test]
fn waits_to_upgrade() {
    IN_VAIN.breaks(STUCK, Mistake::WaitsToUpgrade, Faults::NONE);
}

#[test]
fn refused_waits() {
    MEANWHILE.breaks(LEFT_BEHIND, Mistake::RefusedWaits, Faults::NONE);
}

#[test]
fn upgrades_beside_others() {
    UPGRADE.breaks(TOGETHER, Mistake::UpgradesBesideOthers, Faults::NONE);
}

#[test]
fn second_write() {
    WRITES_TWICE.breaks(TOGETHER, Mistake::SecondWrite, Faults::NONE);
}

#[test]
fn counts_ended_leases() {
    TRIES.breaks(TOGETHER, Mistake::CountsEndedLeases, Faults::DEATH);
}

#[test]
fn old_token_on_upgrade() {
    UPGRADE.breaks(REPEATED_TOKEN, Mistake::OldTokenOnUpgrade, Faults::NONE);
}

#[test]
fn force_keeps_token() {
    WRITERS.breaks(REPEATED_TOKEN, Mistake::ForceKeepsToken, Faults::FORCE);
}

#[test]
fn adopter_is_added() {
    WRITERS.breaks(TOGETHER, Mistake::AdopterIsAdded, Faults::DETACH);
}

#[test]
fn adopts_anyway() {
    FOUR.breaks(TOGETHER, Mistake::AdoptsAnyway, Faults::DETACH);
}
