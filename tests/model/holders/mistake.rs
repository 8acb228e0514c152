//! The design with one thing wrong.

/// The mistakes. The test of the same name checks that the checker finds the consequence of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    None,

    /// Permits that ended are counted.
    NeverPurges,
    /// Where two waiters fit, one is granted.
    OneAtATime,
    /// A request that fits is granted past the waiters.
    TriesFirst,
    /// A waiter that does not fit is skipped.
    SkipsHead,
    /// A hint does not say which heartbeat its offer goes by.
    NoStamp,
    /// A waiter believes an offer for as long as its heartbeat lasts.
    GoesByHeartbeat,
    /// A task that hands over to another one of its client releases as well.
    ReleasesToo,
    /// A hand-off does not check the lease, and the next holder begins a window of its
    /// own.
    NewWindowInTurn,
    /// A renewal brings back a lease that ended.
    RenewalCreates,
    /// All holders share a deadline, which each renewal moves.
    RenewsAll,

    /// Holds are counted, and not told apart.
    CountsHolds,
    /// A release ends all leases of its owner.
    EndsAll,
    /// An owner that re-enters waits behind its own waiters.
    OwnerWaits,
    /// A waiter granted past the queue stays in it.
    StaysInQueue,
    /// An owner that re-enters gets a new token.
    NewTokenOnReentry,
    /// A writer that reads already gets the last token.
    OldTokenOnUpgrade,
    /// A force leaves the last token valid.
    ForceKeepsToken,

    /// An adopter holds the lock beside the former holder.
    AdopterIsAdded,
    /// An adopter gets the lease even if the former holder has lost it.
    AdoptsAnyway,
    /// An adopter gets a new token, though its owner has other holds.
    AdopterHasNewToken,

    /// A reader waits until it may write.
    WaitsToUpgrade,
    /// A request refused because it would wait for itself keeps its place in the queue.
    RefusedWaits,
    /// A reader may write while others read.
    UpgradesBesideOthers,
    /// An owner that writes may write a second time.
    SecondWrite,
    /// An ended lease counts as its owner's until it is purged.
    CountsEndedLeases,
}
