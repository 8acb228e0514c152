//! A server that is one of several.

use std::time::Duration;

use super::encode::by;
use super::{RedisStore, script};
use crate::store::{Attempt, Kind, QuorumMember, Repaired, Request, Store, StoreFuture};

impl QuorumMember for RedisStore {
    fn vote(&self, request: &Request, again: Duration) -> StoreFuture<Attempt> {
        if !matches!(request.kind, Kind::Read | Kind::Write) {
            return self.acquire(request, None);
        }
        let command = self.of(request, &[&script::RW_VOTE; 4]);
        let command = command.millis(request.ttl).millis(again);
        self.ask(command, request, Attempt::WrongKind, super::attempt)
    }

    fn repair(&self, request: &Request, token: u64, lasts: Duration) -> StoreFuture<Repaired> {
        let is_mutex = request.kind == Kind::Mutex;
        let script = if is_mutex { &script::MUTEX_MEND } else { &script::RW_MEND };
        let mut command = self.of(request, &[script; 4]).number(token).millis(lasts);
        if is_mutex {
            command = command.arg(by(request.owner.as_ref()));
        }
        self.ask(command, request, Repaired::NotHeld, |answer| {
            Some(match *answer {
                [1, token] => Repaired::Held { token },
                [0] => Repaired::NotHeld,
                [2, millis] => Repaired::Behind(Duration::from_millis(millis)),
                _ => return None,
            })
        })
    }
}
