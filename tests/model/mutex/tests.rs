//! The design holds, and each mistake is found.

use super::design::{THREE, TWICE, TWO};
use super::mistake::Mistake;
use super::properties::{
    ADOPTED_TWICE, BEHIND, FREED_ANOTHERS, LEFT_BEHIND, LOST_WAKE_UP, OVERTAKEN, REPEATED_TOKEN,
    STALE_WRITE, TWO_HOLDERS,
};
use crate::faults::Faults;

mod the_design_holds {
    use super::super::design::{Protocol, THREE, TWICE, TWO};
    use super::super::mistake::Mistake;
    use crate::faults::Faults;

    #[test]
    fn for_two_clients_with_every_fault() {
        TWO.holds(Faults { failovers: 0, ..Faults::EACH });
        TWO.holds(Faults { deaths: 0, hints: 0, ..Faults::EACH });
    }

    #[test]
    fn for_two_clients_twice() {
        TWICE.holds(Faults { losses: 1, hints: 1, ..Faults::PAUSE });
        TWICE.holds(Faults { deaths: 1, ..Faults::CANCEL });
        TWICE.holds(Faults::FAILOVER);
    }

    #[test]
    fn for_three_clients() {
        THREE.holds(Faults::PAUSE);
        THREE.holds(Faults { losses: 1, ..Faults::CANCEL });
    }

    /// The other client, the same client, or both adopt the lease. The former holder's commands may
    /// be late, and its write to the resource, too.
    #[test]
    fn when_a_lease_is_adopted() {
        TWICE.holds(Faults { losses: 1, ..Faults::DETACH });
        TWICE.holds(Faults { cancels: 1, ..Faults::DETACH });
        TWO.holds(Faults { failovers: 1, pauses: 1, deaths: 1, ..Faults::DETACH });
    }

    #[test]
    #[ignore = "takes minutes: for the night"]
    fn when_a_lease_is_adopted_with_more_faults() {
        TWICE.holds(Faults { pauses: 1, cancels: 1, ..Faults::DETACH });
        TWICE.holds(Faults { deaths: 1, hints: 1, ..Faults::DETACH });
        THREE.holds(Faults { pauses: 1, ..Faults::DETACH });
    }

    #[test]
    #[ignore = "takes minutes: for the night"]
    fn for_two_clients_twice_with_every_fault() {
        TWO.holds(Faults::EACH);
        TWICE.holds(Faults { failovers: 0, ..Faults::EACH });
        TWICE.holds(Faults { failovers: 1, ..Faults::PAUSE });
    }

    #[test]
    #[ignore = "takes minutes: for the night"]
    fn for_three_clients_with_every_fault() {
        THREE.holds(Faults { failovers: 0, ..Faults::EACH });
    }

    /// Only a failover makes tokens need the clock.
    #[test]
    fn with_counted_tokens_without_failover() {
        Protocol { mistake: Mistake::CountedTokens, ..TWICE }.holds(Faults::PAUSE);
    }

    /// Only losses make polls necessary.
    #[test]
    fn without_polls_while_nothing_is_lost() {
        Protocol { mistake: Mistake::NeverPolls, ..TWICE }.holds(Faults::CANCEL);
        Protocol { mistake: Mistake::NeverPolls, ..THREE }.holds(Faults::CANCEL);
    }
}

#[test]
fn no_fence() {
    TWO.breaks(STALE_WRITE, Mistake::NoFence, Faults::PAUSE);
}

#[test]
fn fence_on_writes_only() {
    TWO.breaks(STALE_WRITE, Mistake::FenceOnWritesOnly, Faults::PAUSE);
}

#[test]
fn counted_tokens() {
    TWO.breaks(REPEATED_TOKEN, Mistake::CountedTokens, Faults::FAILOVER);
}

#[test]
fn clock_behind() {
    TWO.breaks(REPEATED_TOKEN, Mistake::ClockBehind, Faults::FAILOVER);
}

#[test]
fn plain_delete() {
    TWO.breaks(FREED_ANOTHERS, Mistake::PlainDelete, Faults::PAUSE);
}

#[test]
fn offer_is_not_ended() {
    TWO.breaks(LEFT_BEHIND, Mistake::OfferIsNotEnded, Faults::NONE);
}

/// A waiter polls and starts at the hint, and its lease ends. Then the poll runs and queues the
/// request, which the release does not find.
#[test]
fn release_leaves_waiter() {
    TWICE.breaks(LEFT_BEHIND, Mistake::ReleaseLeavesWaiter, Faults::PAUSE);
}

/// A waiter polls, starts at the hint and releases. Others come and go. Then the poll of the
/// forgotten request runs.
#[test]
fn release_overtakes() {
    TWICE.breaks(LEFT_BEHIND, Mistake::ReleaseOvertakes, Faults::NONE);
}

#[test]
fn new_id_on_retry() {
    TWO.breaks(LEFT_BEHIND, Mistake::NewIdOnRetry, Faults::LOSS);
}

#[test]
fn old_connection_lives() {
    TWO.breaks(LEFT_BEHIND, Mistake::OldConnectionLives, Faults::LOSS);
}

#[test]
fn no_cancel() {
    TWO.breaks(LEFT_BEHIND, Mistake::NoCancel, Faults::CANCEL);
}

#[test]
fn cancel_overtakes() {
    TWO.breaks(LEFT_BEHIND, Mistake::CancelOvertakes, Faults::CANCEL);
}

#[test]
fn subscribes_late() {
    TWO.breaks(LOST_WAKE_UP, Mistake::SubscribesLate, Faults::NONE);
}

#[test]
fn never_polls() {
    TWO.breaks(LOST_WAKE_UP, Mistake::NeverPolls, Faults::HINT);
    TWO.breaks(LOST_WAKE_UP, Mistake::NeverPolls, Faults::DEATH);
}

#[test]
fn forgets_early_hint() {
    TWO.breaks(LOST_WAKE_UP, Mistake::ForgetsEarlyHint, Faults::NONE);
}

#[test]
fn offer_without_window() {
    THREE.breaks(LOST_WAKE_UP, Mistake::OfferWithoutWindow, Faults::DEATH);
}

#[test]
fn absent_is_free() {
    TWO.breaks(OVERTAKEN, Mistake::AbsentIsFree, Faults::PAUSE);
}

#[test]
fn dropped_flag() {
    THREE.breaks(OVERTAKEN, Mistake::DroppedFlag, Faults::NONE);
}

/// The hint of an ended offer comes when the waiter is queued again.
#[test]
fn no_stamp() {
    TWICE.breaks(TWO_HOLDERS, Mistake::NoStamp, Faults::PAUSE);
}

/// The hint of an ended offer comes while the waiter still counts as alive.
#[test]
fn goes_by_heartbeat() {
    TWICE.breaks(TWO_HOLDERS, Mistake::GoesByHeartbeat, Faults::PAUSE);
}

/// A waiter starts at the hint. The lease that its claim began ends before the heartbeat would
/// have.
#[test]
fn window_shrinks() {
    TWICE.breaks(TWO_HOLDERS, Mistake::WindowShrinks, Faults::PAUSE);
}

/// The claim runs after the release, and after the next holder's release.
#[test]
fn claim_acquires() {
    TWICE.breaks(LEFT_BEHIND, Mistake::ClaimAcquires, Faults::NONE);
}

/// A waiter starts at the hint, and its lease ends. Its own late poll is granted anew, and the
/// claim finds that lease.
#[test]
fn renewal_revives() {
    TWICE.breaks(BEHIND, Mistake::RenewalRevives, Faults::PAUSE);
}

/// Everybody with a copy of the position would hold the lock.
#[test]
fn adopter_keeps_id() {
    THREE.breaks(TWO_HOLDERS, Mistake::AdopterKeepsId, Faults::DETACH);
}

/// The lease ended, and another client acquired the lock.
#[test]
fn adopts_from_any_holder() {
    THREE.breaks(FREED_ANOTHERS, Mistake::AdoptsFromAnyHolder, Faults::DETACH);
}

/// A write of the former holder comes after the adopter's read.
#[test]
fn adopter_keeps_token() {
    TWO.breaks(STALE_WRITE, Mistake::AdopterKeepsToken, Faults::DETACH);
}

/// A waiter polls, starts at the hint and detaches. The adopter comes and goes. Then the poll of
/// the forgotten request runs.
#[test]
fn detach_overtakes() {
    THREE.breaks(LEFT_BEHIND, Mistake::DetachOvertakes, Faults::DETACH);
}

/// The poll is granted anew, for nobody, when the adopter has gone, and the message with the ticket
/// comes again. The ticket's token tells the new lease from the old one.
#[test]
fn adopts_anew() {
    TWICE.keeps(ADOPTED_TWICE, Mistake::DetachOvertakes, Faults::DETACH);
    TWICE.breaks(ADOPTED_TWICE, Mistake::AdoptsAnew, Faults::DETACH);
}

/// The same poll runs when the lease has ended, before its client has seen that. A release would
/// remove it from the queue.
#[test]
fn detaches_lost_lease() {
    let paused = Faults { pauses: 1, ..Faults::DETACH };
    TWICE.breaks(LEFT_BEHIND, Mistake::DetachesLostLease, paused);
}
