//! The commands about the limits that operators set.

use super::note::Note;
pub use crate::core::limit_override::{LimitOf, LimitOverride};

/// A command about the limits that operators set. Each answers with those that are set afterwards.
#[derive(Clone, Debug)]
pub enum LimitCommand {
    /// Reads them.
    Read,
    /// Sets one, and tells all clients. Refuses a new one beyond [`MOST_LIMITS`].
    Set {
        /// Which semaphores it is for.
        of: LimitOf,
        /// How many permits there are.
        limit: u32,
        /// Who sets it.
        by: Note,
        /// Why.
        why: Option<Note>,
    },
    /// Takes one back, and tells all clients.
    Unset(LimitOf),
}

/// How many limits operators may set. Each client reads all of them.
pub const MOST_LIMITS: usize = 1_000;
