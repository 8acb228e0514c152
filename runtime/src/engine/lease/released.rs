//! What came of a release.

/// What a release did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The lease has ended, and the lock is free for others, or the next has it.
    Free,
    /// This hold has ended, and so many others of its owner are left: of a reentrant
    /// mutex alone.
    StillHeld(u32),
    /// It stays held, without a holder, for the rest of `hold_at_least`.
    Kept,
}
