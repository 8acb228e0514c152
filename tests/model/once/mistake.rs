//! The design with one thing wrong.

/// The mistakes. The test of the same name checks that the checker finds the consequence of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    None,

    /// A completion marks the work as done, whoever has the lock.
    CompletesWithoutLease,
    /// A repeated completion renews the mark of its request.
    RenewsMark,
    /// The mark does not say which request completed it.
    MarkWithoutName,
    /// The mark is for the tick that runs at the completion.
    MarksRunningTick,
    /// A release marks the work as done, too.
    ReleaseMarks,

    /// A completion leaves its waiters in the queue, and offers the lock to the first one.
    LeavesWaiters,
    /// A completion takes its waiters out of the queue, and tells none of them.
    EndsSilently,
    /// Only the first waiter is taken out of the queue, and told.
    EndsFirstWaiter,
    /// An acquire looks for the mark before it waits, and not when it asks again.
    LooksOnlyAtFirst,
    /// An acquire looks for the mark only while nobody has the lock.
    LooksOnlyIfFree,
    /// A grant belongs to the tick in which its request first asked.
    TickOfTheAsk,
    /// The connection of an ask that was given up is not closed: the ask may still run.
    OldConnectionLives,
    /// Nobody polls.
    NeverPolls,
}
