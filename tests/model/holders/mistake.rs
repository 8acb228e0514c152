//! The design with one thing wrong.

/// What is wrong. Each has a test of its name, in which the checker must find
/// what it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    None,

    /// Permits that ended are counted.
    NeverPurges,
    /// Where two fit, one waiter is let in.
    OneAtATime,
    /// Whoever fits is let in, whoever waits.
    TriesFirst,
    /// A waiter who does not fit is skipped.
    SkipsHead,
    /// A message does not say which heartbeat its offer goes by.
    NoStamp,
    /// A waiter believes an offer for as long as its heartbeat lasts.
    GoesByHeartbeat,
    /// Who hands over to another task of its client releases as well.
    ReleasesToo,
    /// What is handed over is not looked at, and who has it next begins a window of its
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
    /// Who has it already, and asks for more, waits behind those who wait for him.
    OwnerWaits,
    /// Who is let in past the queue stays in it.
    StaysInQueue,
    /// An owner who comes again gets a new token.
    NewTokenOnReentry,
    /// A writer who reads already gets the last token.
    OldTokenOnUpgrade,
    /// What is taken by force leaves the last token in force.
    ForceKeepsToken,

    /// An adopter holds beside the one whose place it takes.
    AdopterIsAdded,
    /// An adopter gets a place whether or not the other still has it.
    AdoptsAnyway,
    /// An adopter gets a new token, though its owner has other holds.
    AdopterHasNewToken,

    /// A reader waits until he may write.
    WaitsToUpgrade,
    /// Who is refused, since he would wait for himself, keeps his place in the queue.
    RefusedWaits,
    /// A reader may write while others read.
    UpgradesBesideOthers,
    /// An owner who writes may write once more.
    SecondWrite,
    /// What ended, and was not forgotten yet, is its owner's still.
    CountsTheDead,
}
