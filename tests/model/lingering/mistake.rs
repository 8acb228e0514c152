//! The design with one thing wrong.

/// The mistakes. The test of the same name checks that the checker finds the consequence of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    None,

    /// A client takes the next token when those that were reserved are used up.
    TokensBeyondBlock,
    /// An idle lease is taken up after its deadline, as if its window began anew.
    TakesUpAfterDeadline,
    /// A lease that was lost in use becomes idle, as if its window began anew.
    LostLeaseLingers,
    /// The server lets a lease linger although others wait.
    MarksBesideWaiters,
    /// A client drops a recall while its lease is idle.
    IgnoresRecall,
    /// A recall that comes before the answer to the linger is dropped.
    ForgetsEarlyRecall,
    /// The server recalls once, and does not repeat it when the waiter asks again.
    RecallsOnce,
    /// The server lets a lease linger that another request has.
    RenewsAnothers,
    /// The server does not tell a forced client, which takes the idle lease up without a look at
    /// its deadline.
    ForceNotTold,
    /// The refill of a lease in use does not say so.
    RefillReleases,
    /// More tokens are added although the lease was not there to reserve them.
    RefillsEndedLease,
    /// An idle lease does not end.
    IdleForEver,
    /// A linger without an answer is not followed by a release.
    NoReleaseAfterLinger,
}
