//! Pages of the names of locks.

use crate::core::key::LockKey;
use crate::core::store_error::StoreError;

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOf {
    /// Locks that may be held, kept or waited for.
    Locks,
    /// Locks that are waited for.
    Waited,
    /// Work with ticks that has run, or that is to run again.
    Jobs,
    /// Not locks: the prefixes under which there are locks, as if they were names.
    Prefixes,
}

/// Where a listing goes on. The default is its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListCursor {
    /// The number of the server.
    pub(super) server: usize,
    /// Where it goes on there, by the server's own count.
    pub(super) at: u64,
}

/// A page of a listing.
#[derive(Debug, Default)]
pub struct ListPage {
    /// Their names.
    pub keys: Vec<LockKey>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<ListCursor>,
    /// Why one of several servers did not answer: what it has is not in the list.
    pub failed: Option<StoreError>,
}
