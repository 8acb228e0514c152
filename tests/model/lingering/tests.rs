//! The design holds, and each mistake is found.

use super::design::{BOTH_TWICE, ONCE, THRICE, TWICE, WAITING};
use super::mistake::Mistake;
use super::properties::{
    FREED_ANOTHERS, IDLE_BESIDE_WAITERS, IDLE_THOUGH_RECALLED, LEFT_BEHIND, NOT_SERVED_BY_ENDS,
    NOT_SERVED_BY_RECALLS, REPEATED_TOKEN, TWO_HOLDERS,
};
use crate::faults::Faults;

const FORCE_AND_LOSS: Faults = Faults { hints: 1, ..Faults::FORCE };

#[test]
fn the_design_holds() {
    THRICE.holds(Faults::NONE);
    TWICE.holds(Faults { hints: 1, ..Faults::PAUSE });
    TWICE.holds(Faults { losses: 1, ..Faults::HINT });
    TWICE.holds(Faults { deaths: 1, ..Faults::HINT });
}

#[test]
#[ignore = "takes minutes: for the night"]
fn the_design_holds_with_more_faults() {
    BOTH_TWICE.holds(Faults::NONE);
    WAITING.holds(Faults { pauses: 1, ..FORCE_AND_LOSS });
    TWICE.holds(FORCE_AND_LOSS);
    TWICE.holds(Faults { hints: 2, ..Faults::PAUSE });
    THRICE.holds(Faults { pauses: 1, ..Faults::HINT });
    THRICE.holds(Faults { losses: 1, ..Faults::FORCE });
}

#[test]
fn tokens_beyond_block() {
    THRICE.breaks(REPEATED_TOKEN, Mistake::TokensBeyondBlock, Faults::NONE);
}

/// The process stood still while its lease was idle, and another client has the lock.
#[test]
fn takes_up_after_deadline() {
    TWICE.breaks(TWO_HOLDERS, Mistake::TakesUpAfterDeadline, Faults::NONE);
}

/// The process stood still in the middle of its work.
#[test]
fn lost_lease_lingers() {
    THRICE.breaks(TWO_HOLDERS, Mistake::LostLeaseLingers, Faults::PAUSE);
}

#[test]
fn marks_beside_waiters() {
    ONCE.breaks(IDLE_BESIDE_WAITERS, Mistake::MarksBesideWaiters, Faults::NONE);
}

#[test]
fn ignores_recall() {
    ONCE.breaks(NOT_SERVED_BY_RECALLS, Mistake::IgnoresRecall, Faults::NONE);
}

/// The waiter would have to ask again.
#[test]
fn forgets_early_recall() {
    ONCE.breaks(IDLE_THOUGH_RECALLED, Mistake::ForgetsEarlyRecall, Faults::NONE);
}

/// The message was lost.
#[test]
fn recalls_once() {
    ONCE.breaks(NOT_SERVED_BY_RECALLS, Mistake::RecallsOnce, Faults::HINT);
}

/// The lease ended before the linger ran, and another client has the lock.
#[test]
fn renews_anothers() {
    TWICE.breaks(FREED_ANOTHERS, Mistake::RenewsAnothers, Faults::PAUSE);
}

#[test]
fn force_not_told() {
    TWICE.breaks(TWO_HOLDERS, Mistake::ForceNotTold, Faults::FORCE);
}

/// The refill runs when a task has taken the lease up, and another client waits.
#[test]
fn refill_releases() {
    TWICE.breaks(TWO_HOLDERS, Mistake::RefillReleases, Faults::NONE);
}

/// The refill finds that the lease has ended, or that others wait.
#[test]
fn refills_ended_lease() {
    THRICE.breaks(REPEATED_TOKEN, Mistake::RefillsEndedLease, Faults::NONE);
}

#[test]
fn idle_for_ever() {
    ONCE.breaks(NOT_SERVED_BY_ENDS, Mistake::IdleForEver, Faults::HINT);
}

/// The answer was lost.
#[test]
fn no_release_after_linger() {
    ONCE.breaks(LEFT_BEHIND, Mistake::NoReleaseAfterLinger, Faults::LOSS);
}
