//! What stops work.

/// What stops work under a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopAt {
    Nothing,
    Loss,
    /// The lease is lost, or somebody else has released it.
    End,
}
