//! The design with one thing wrong.

/// The mistakes. Each has a test of its name, in which the checker must find
/// what it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    None,

    /// Permits that ended are counted.
    NeverPurges,
    /// Where two fit, one waiter is let in.
    OneAtATime,
    /// A request that fits is granted past the waiters.
    TriesFirst,
    /// A waiter that does not fit is skipped.
    SkipsHead,
    /// A message does not say which heartbeat its offer goes by.
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
    /// All have one deadline, which each renewal moves.
    RenewsAll,

    /// Holds are counted, and not told apart.
    Counts,
    /// A release ends all that its owner has.
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

    /// An adopter holds beside the one whose place it takes.
    AdopterIsAdded,
    /// An adopter gets a place whether or not the other still has it.
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
    /// An ended lease counts as its owner's until it is forgotten.
    CountsTheDead,
}
