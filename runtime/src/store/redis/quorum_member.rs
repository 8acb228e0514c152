//! The commands of a member of a quorum beyond those of a store of its own.

use std::time::Duration;

use super::decode;
use super::store::RedisStore;
use crate::store::{Attempt, Kind, QuorumMember, Repaired, Request, Store, StoreFuture};

impl QuorumMember for RedisStore {
    fn vote(&self, request: &Request, again: Duration) -> StoreFuture<Attempt> {
        if !matches!(request.kind, Kind::Read | Kind::Write) {
            return self.acquire(request, None);
        }
        let command = self.encoder.vote(request, again);
        self.ask(command, request, Attempt::WrongKind, decode::attempt)
    }

    fn repair(&self, request: &Request, token: u64, lasts: Duration) -> StoreFuture<Repaired> {
        let command = self.encoder.repair(request, token, lasts);
        self.ask(command, request, Repaired::NotHeld, decode::repaired)
    }
}
