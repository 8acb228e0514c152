//! The design with one thing wrong.

/// The mistakes. The test of the same name checks that the checker finds the consequence of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    None,

    /// The resource takes every read and write.
    NoFence,
    /// The resource checks tokens only at writes.
    FenceOnWritesOnly,
    /// Tokens are counted, without the clock.
    CountedTokens,
    /// The clock of the new server is behind the last grant.
    ClockBehind,

    /// A release deletes the record of any holder.
    PlainDelete,
    /// A release or a cancel ends a lease, but not an offer.
    OfferIsNotEnded,
    /// A release that finds the lease gone leaves its request in the queue. A late poll had put it
    /// back there.
    ReleaseLeavesWaiter,
    /// A release is sent over another connection than the polls.
    ReleaseOvertakes,

    /// A repeated command has a new id.
    NewIdOnRetry,
    /// A connection is abandoned and not closed: its commands may still run.
    OldConnectionLives,
    /// An acquisition that is dropped is not cancelled.
    NoCancel,
    /// A cancel is sent over another connection than its acquire.
    CancelOvertakes,

    /// The subscription follows the first ask, and nobody polls.
    SubscribesLate,
    /// Nobody polls.
    NeverPolls,
    /// A hint that comes before the answer to an ask is dropped, and nobody polls.
    ForgetsEarlyHint,

    /// An offer does not end.
    OfferWithoutWindow,
    /// Without a record, nobody checks for a queue.
    AbsentIsFree,
    /// A hand-over says in the record that nobody waits.
    DroppedFlag,
    /// A hint does not say which heartbeat its offer goes by.
    NoStamp,
    /// A waiter believes an offer for as long as its heartbeat lasts.
    GoesByHeartbeat,
    /// A poll or a claim brings the end of a window forward. The TTL is shorter than the heartbeat,
    /// and a waiter that starts at a hint goes by the heartbeat.
    WindowShrinks,
    /// A claim is an acquire, and may be granted anew.
    ClaimAcquires,
    /// An adoption keeps the lease's id, which the former holder knows too.
    AdopterKeepsId,
    /// An adoption replaces any holder.
    AdoptsFromAnyHolder,
    /// An adopter keeps the former holder's token.
    AdopterKeepsToken,
    /// A ticket exists before the earlier commands of its lease are answered.
    DetachOvertakes,
    /// The same, and a ticket does not know the token of its lease.
    AdoptsAnew,
    /// A client detaches without a check that its lease has not ended.
    DetachesLostLease,
    /// A good answer to a claim opens a window that had ended.
    RenewalRevives,

    /// A grant reserves no tokens for the later holders of its turn.
    NoBlock,
    /// A turn goes on when its block is used up.
    OutrunsBlock,
    /// The next holder in a turn keeps the token of the one before.
    SameTokenInTurn,
    /// A hand-over does not check the lease, which may be lost.
    HandsOverLostLease,
    /// The same, and the next holder begins a window of its own.
    NewWindowInTurn,
    /// A holder that hands over releases as well.
    ReleasesToo,
    /// A hand-off is cancelled although a task has taken it up.
    CancelsTakenHandoff,
    /// A hand-off that no task takes up is not cancelled.
    HandoffIsNotCancelled,
}

impl Mistake {
    pub(super) const fn detaches_early(self) -> bool {
        matches!(self, Self::DetachOvertakes | Self::AdoptsAnew)
    }

    pub(super) const fn polls(self) -> bool {
        !matches!(self, Self::SubscribesLate | Self::NeverPolls | Self::ForgetsEarlyHint)
    }
}
