//! The commands that a store must have besides, to be a member of a quorum.

use std::time::Duration;

use super::answers::{Attempt, Repaired};
use super::contract::{Store, StoreFuture};
use super::request::Request;

/// A store as a member of a [`Quorum`](super::quorum::Quorum). It is asked for mutexes,
/// readers and writers alone.
pub trait QuorumMember: Store {
    /// Asks for the lock once, without a queue. A writer that is refused, and comes back
    /// within `again`, keeps new readers out meanwhile.
    fn vote(&self, request: &Request, again: Duration) -> StoreFuture<Attempt>;

    /// Repairs a lease that a majority grants. If this member has the lease, its token is
    /// raised to `token` at least. If it does not, and nobody else holds the lock here, the
    /// request gets the lock for `lasts`, unless that is zero.
    fn repair(&self, request: &Request, token: u64, lasts: Duration) -> StoreFuture<Repaired>;
}
