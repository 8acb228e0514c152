//! What a store answers beyond its own, to be one of several.

use std::time::Duration;

use super::{Attempt, Request, Store, StoreFuture};

/// The answer to a mend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mended {
    /// The request holds the lock here.
    Held {
        /// The lock's token here; 0 for a mutex or a writer that never had one.
        token: u64,
    },
    /// It does not, and was not given the lock: another has it, or it ended here.
    NotHeld,
    /// The token was not raised: the clock here is further behind it than it may be, and
    /// would grant smaller ones when the lease, and with it the token, is forgotten.
    Behind(Duration),
}

/// A store that is one of several: see [`Quorum`](super::quorum::Quorum). It is asked for
/// mutexes, readers and writers alone.
pub trait Node: Store {
    /// Asks for the lock, once, and not to be queued. A writer who is refused, and comes
    /// again within `again`, keeps out those who would read meanwhile.
    fn vote(&self, request: &Request, again: Duration) -> StoreFuture<Attempt>;

    /// Where a majority says that the request holds the lock: raises its token to
    /// `token` at least; or, if it does not hold it here and nobody else does, gives it
    /// the lock for `lasts`, unless that is zero.
    fn mend(&self, request: &Request, token: u64, lasts: Duration) -> StoreFuture<Mended>;
}
