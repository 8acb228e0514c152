//! The design holds, and each mistake is found.

use super::design::{FROM_SUCCESS, Once, THREE, THREE_IN_TICKS, TICKS, WITH_PLAIN};
use super::mistake::Mistake;
use super::properties::{
    DENIED, MARKED_BY_ANOTHER, RUNS_THOUGH_DONE, TWO_SUCCESSES, UNSERVED, UNTOLD, WRONGLY_DONE,
};
use crate::faults::Faults;

const EACH: Faults = Faults { cancels: 0, failovers: 0, ..Faults::EACH };

#[test]
fn the_design_holds() {
    for design in [FROM_SUCCESS, TICKS] {
        design.holds(EACH);
    }
    for design in [THREE, THREE_IN_TICKS, WITH_PLAIN] {
        design.holds(Faults::PAUSE);
        design.holds(Faults::LOSS);
    }
}

/// One late ask does no harm where ticks don't count.
#[test]
fn a_late_ask_brings_no_second_success() {
    let late = Once { mistake: Mistake::OldConnectionLives, ..FROM_SUCCESS };
    late.holds(Faults { losses: 1, deaths: 1, ..Faults::PAUSE });
}

#[test]
#[ignore = "takes minutes: for the night"]
fn the_design_holds_with_more_faults() {
    for design in [FROM_SUCCESS, TICKS] {
        design.holds(Faults { losses: 2, ..Faults::PAUSE });
        Once { rounds: &[2, 2], ..design }.holds(Faults { losses: 1, ..Faults::PAUSE });
    }
    for design in [THREE, THREE_IN_TICKS, WITH_PLAIN] {
        design.holds(Faults { losses: 1, ..Faults::PAUSE });
        design.holds(Faults { hints: 1, deaths: 1, ..Faults::PAUSE });
    }
}

/// Its lease ended, and another client has succeeded since.
#[test]
fn completes_without_lease() {
    for design in [FROM_SUCCESS, TICKS] {
        design.breaks(TWO_SUCCESSES, Mistake::CompletesWithoutLease, Faults::PAUSE);
        design.breaks(MARKED_BY_ANOTHER, Mistake::CompletesWithoutLease, Faults::PAUSE);
    }
}

/// The late copy of a completion that had been repeated.
#[test]
fn renews_mark() {
    FROM_SUCCESS.breaks(WRONGLY_DONE, Mistake::RenewsMark, Faults::LOSS);
    FROM_SUCCESS.breaks(MARKED_BY_ANOTHER, Mistake::RenewsMark, Faults::LOSS);
}

/// The answer to the completion was lost.
#[test]
fn mark_without_name() {
    FROM_SUCCESS.breaks(DENIED, Mistake::MarkWithoutName, Faults::LOSS);
}

/// The run went on into the next tick, which then has no run of its own.
#[test]
fn marks_running_tick() {
    TICKS.breaks(WRONGLY_DONE, Mistake::MarksRunningTick, Faults::NONE);
}

#[test]
fn release_marks() {
    FROM_SUCCESS.breaks(WRONGLY_DONE, Mistake::ReleaseMarks, Faults::NONE);
}

#[test]
fn leaves_waiters() {
    FROM_SUCCESS.breaks(TWO_SUCCESSES, Mistake::LeavesWaiters, Faults::NONE);
    TICKS.breaks(TWO_SUCCESSES, Mistake::LeavesWaiters, Faults::NONE);
}

#[test]
fn ends_silently() {
    FROM_SUCCESS.breaks(UNTOLD, Mistake::EndsSilently, Faults::NONE);
}

#[test]
fn ends_first_waiter() {
    THREE.breaks(TWO_SUCCESSES, Mistake::EndsFirstWaiter, Faults::NONE);
}

/// A waiter is told that the work is done, and asks again.
#[test]
fn looks_only_at_first() {
    FROM_SUCCESS.breaks(TWO_SUCCESSES, Mistake::LooksOnlyAtFirst, Faults::NONE);
    FROM_SUCCESS.breaks(RUNS_THOUGH_DONE, Mistake::LooksOnlyAtFirst, Faults::NONE);
}

/// The lock is held for other work than what succeeds once, and is then offered.
#[test]
fn looks_only_if_free() {
    WITH_PLAIN.breaks(TWO_SUCCESSES, Mistake::LooksOnlyIfFree, Faults::NONE);
}

/// The waiter is offered the lock in the next tick, after a run that went on until then.
#[test]
fn tick_of_the_ask() {
    TICKS.breaks(TWO_SUCCESSES, Mistake::TickOfTheAsk, Faults::NONE);
}

/// The lease ends, and another client succeeds. In the next tick a late ask grants the lock anew to
/// the first request, whose client has not noticed and completes the tick before.
///
/// Without ticks that takes two late commands, and is no second success: an ask that runs when the
/// success no longer counts grants the lock to its request again, and the repeated completion finds
/// it there.
#[test]
fn old_connection_lives() {
    let faults = Faults { losses: 1, ..Faults::PAUSE };
    TICKS.breaks(TWO_SUCCESSES, Mistake::OldConnectionLives, faults);
    let faults = Faults { losses: 2, ..Faults::PAUSE };
    FROM_SUCCESS.breaks(WRONGLY_DONE, Mistake::OldConnectionLives, faults);
}

/// A hint is lost, or the holder dies.
#[test]
fn never_polls() {
    FROM_SUCCESS.breaks(UNSERVED, Mistake::NeverPolls, Faults::HINT);
    FROM_SUCCESS.breaks(UNSERVED, Mistake::NeverPolls, Faults::DEATH);
}
