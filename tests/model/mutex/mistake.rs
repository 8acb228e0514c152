//! The design with one thing wrong.

/// The mistakes. Each has a test of its name, in which the checker must find
/// what it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    None,

    /// The resource takes every read and write.
    NoFence,
    /// The resource looks at tokens only when it is written.
    FenceOnWritesOnly,
    /// Tokens are counted, without the clock.
    CountedTokens,
    /// The server that takes over has a clock behind the last grant.
    ClockBehind,

    /// A release deletes the record, whosever it is.
    PlainDelete,
    /// A release or a cancel ends what is held, and not what is offered.
    OfferIsNotEnded,
    /// A release that finds the lease gone leaves its request in the queue, to
    /// which a late poll brought it back.
    ReleaseLeavesWaiter,
    /// A release is sent over another connection than the polls.
    ReleaseOvertakes,

    /// A repeated command has a new id.
    NewIdOnRetry,
    /// A connection is given up and not ended: its commands may still run.
    OldConnectionLives,
    /// An acquisition that is dropped is left as it is.
    NoCancel,
    /// A cancel is sent over another connection than its acquire.
    CancelOvertakes,

    /// The subscription comes after the first ask, and nobody polls.
    SubscribesLate,
    /// Nobody polls.
    NeverPolls,
    /// A message that comes before the answer to an ask is dropped, and nobody
    /// polls.
    ForgetsEarlyMessage,

    /// An offer does not run out.
    OfferWithoutWindow,
    /// Where there is no record, nobody looks whether there is a queue.
    AbsentIsFree,
    /// A hand-over says in the record that nobody waits.
    DroppedFlag,
    /// A message does not say which heartbeat its offer goes by.
    NoStamp,
    /// A waiter believes an offer for as long as its heartbeat lasts.
    GoesByHeartbeat,
    /// A poll or a claim brings the end of a window forward: the TTL is shorter
    /// than the heartbeat, by which a waiter that starts on a message goes.
    WindowShrinks,
    /// A claim is an acquire, and may be granted anew.
    ClaimAcquires,
    /// An adoption keeps the lease's id, which the former holder knows too.
    AdopterKeepsId,
    /// An adoption takes the place of any holder.
    AdoptsAnybodys,
    /// An adopter goes on with the token of the one before.
    AdopterKeepsToken,
    /// There is a ticket before what was sent for its lease is answered.
    DetachOvertakes,
    /// A client detaches without checking whether its lease has run out.
    DetachesWhatIsLost,
    /// A good answer to a claim opens a window that had run out.
    RenewalRevives,

    /// A grant reserves no tokens for the later holders of its turn.
    NoBlock,
    /// A turn goes on when its block is used up.
    OutrunsBlock,
    /// The next in a turn goes on with the token of the one before.
    SameTokenInTurn,
    /// A hand-over does not check the lease: it may be lost.
    HandsOverWhatIsLost,
    /// The same, and the next holder begins a window of its own.
    NewWindowInTurn,
    /// A holder that hands over releases as well.
    ReleasesToo,
    /// A hand-off is cancelled though a task has taken it.
    TakesBack,
    /// A hand-off that no task took is left as it is.
    NotTakenBack,
}

impl Mistake {
    pub(super) const fn polls(self) -> bool {
        !matches!(self, Self::SubscribesLate | Self::NeverPolls | Self::ForgetsEarlyMessage)
    }
}
