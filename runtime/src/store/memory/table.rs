//! All locks of a store, and what they share.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::clients::Clients;
use crate::core::key::LockKey;
use crate::core::name_pattern::NamePattern;
use crate::store::rules::{self, Context, Counters, LockState, Time, Tokens};
use crate::store::{
    Adoption, All, Attempt, ClientId, ClientInfo, Detached, Ended, Forced, Hint, Lingering,
    Listener, LockInfo, Owner, Renewal, Repaired, Request, Stamp, Success, Usage, Waiting,
};

/// All locks, the counters and the clients. A command never finds what expired before it.
#[derive(Debug, Default)]
pub(super) struct Table {
    locks: HashMap<LockKey, LockState>,
    counters: Counters,
    clients: Clients,
    /// The hints of the last command.
    hints: Vec<(ClientId, Hint)>,
    /// How many locks there may be before the expired ones are removed.
    sweep_above: usize,
}

impl Table {
    pub(super) fn new(tokens: Tokens) -> Self {
        Self { counters: Counters::new(tokens), ..Self::default() }
    }

    pub(super) fn acquire(
        &mut self,
        request: &Request,
        waiting: Option<Waiting>,
        now: Time,
    ) -> Attempt {
        self.with(&request.key, now, |lock, context| {
            rules::acquire(lock, request, waiting, context)
        })
    }

    pub(super) fn acquire_all(&mut self, requests: &[Request], now: Time) -> All {
        for (index, request) in requests.iter().enumerate() {
            if !self.with(&request.key, now, |lock, _| rules::is_available(lock, request, now)) {
                return Err(Some(index));
            }
        }
        let take = |request: &Request| {
            self.with(&request.key, now, |lock, context| rules::take(lock, request, context))
        };
        Ok(requests.iter().map(take).collect())
    }

    pub(super) fn vote(&mut self, request: &Request, again: Duration, now: Time) -> Attempt {
        self.with(&request.key, now, |lock, context| rules::vote(lock, request, again, context))
    }

    pub(super) fn repair(
        &mut self,
        request: &Request,
        token: u64,
        lasts: Duration,
        now: Time,
    ) -> Repaired {
        self.with(&request.key, now, |lock, context| {
            rules::repair(lock, request, token, lasts, context)
        })
    }

    pub(super) fn renew(&mut self, request: &Request, now: Time) -> Renewal {
        self.with(&request.key, now, |lock, _| rules::renew(lock, request, now))
    }

    pub(super) fn keep_offer(&mut self, request: &Request, until: Stamp, now: Time) {
        self.with(&request.key, now, |lock, _| rules::keep_offer(lock, request, until, now));
    }

    pub(super) fn adopt(&mut self, from: Detached, request: &Request, now: Time) -> Adoption {
        self.with(&request.key, now, |lock, context| rules::adopt(lock, from, request, context))
    }

    pub(super) fn release(&mut self, request: &Request, keep: Duration, now: Time) -> Ended {
        self.with(&request.key, now, |lock, context| rules::release(lock, request, keep, context))
    }

    pub(super) fn release_and_forget(&mut self, request: &Request, now: Time) -> Ended {
        let ended = self.with(&request.key, now, |lock, context| {
            rules::release_and_forget(lock, request, context)
        });
        if self.locks.get(&request.key).is_some_and(LockState::is_blank) {
            self.locks.remove(&request.key);
        }
        ended
    }

    pub(super) fn complete(&mut self, request: &Request, success: Success, now: Time) -> Ended {
        self.with(&request.key, now, |lock, context| {
            rules::complete(lock, request, success, context)
        })
    }

    pub(super) fn linger(&mut self, request: &Request, usage: Usage, now: Time) -> Lingering {
        self.with(&request.key, now, |lock, context| rules::linger(lock, request, usage, context))
    }

    pub(super) fn cancel(&mut self, request: &Request, now: Time) -> bool {
        self.with(&request.key, now, |lock, context| rules::cancel(lock, request, context))
    }

    pub(super) fn inspect(&mut self, key: &LockKey, now: Time) -> LockInfo {
        let Some(lock) = self.locks.get_mut(key) else { return LockInfo::default() };
        lock.expire(now);
        rules::inspect(lock, now, |id| self.clients.info(id, now))
    }

    pub(super) fn list(&mut self, names: &NamePattern, now: Time) -> Vec<LockKey> {
        let matching = self.locks.iter_mut().filter(|(key, _)| names.matches(key.name()));
        let busy = matching.filter_map(|(key, lock)| {
            lock.expire(now);
            lock.is_busy().then(|| key.clone())
        });
        busy.collect()
    }

    pub(super) fn is_held_by(&mut self, key: &LockKey, owner: &Owner, now: Time) -> bool {
        self.with(key, now, |lock, _| rules::is_held_by(lock, owner, now))
    }

    pub(super) fn force_release(&mut self, key: &LockKey, now: Time) -> Forced {
        self.with(key, now, rules::force_release)
    }

    pub(super) fn was_forced(&mut self, request: &Request, now: Time) -> bool {
        self.with(&request.key, now, |lock, _| rules::was_forced(lock, request))
    }

    pub(super) fn introduce(&mut self, client: &ClientInfo, lasts: Duration, now: Time) {
        self.clients.introduce(client.clone(), lasts, now);
    }

    /// Ends all leases of a lock before their time, and says whether it was held.
    pub(super) fn expire(&mut self, key: &LockKey, now: Time) -> bool {
        self.locks.get_mut(key).is_some_and(|lock| {
            lock.expire(now);
            lock.expire_leases()
        })
    }

    /// Takes the hints of the last command, each with its listener.
    pub(super) fn take_hints(&mut self) -> Vec<(Arc<dyn Listener>, Hint)> {
        self.clients.addressed(std::mem::take(&mut self.hints))
    }

    /// From now on the client's hints go to `listener`.
    pub(super) fn listen(&mut self, client: ClientId, listener: Weak<dyn Listener>) {
        self.clients.listen(client, listener);
    }

    /// Runs a command on a lock, as it is now.
    fn with<T>(
        &mut self,
        key: &LockKey,
        now: Time,
        command: impl FnOnce(&mut LockState, &mut Context<'_>) -> T,
    ) -> T {
        let is_listening = |client| self.clients.is_listening(client);
        let mut context = Context {
            now,
            counters: &mut self.counters,
            is_listening: &is_listening,
            hints: std::mem::take(&mut self.hints),
        };
        if let Some(lock) = self.locks.get_mut(key) {
            lock.expire(now);
            let answer = command(lock, &mut context);
            self.hints = context.hints;
            return answer;
        }
        let mut lock = LockState::default();
        let answer = command(&mut lock, &mut context);
        self.hints = context.hints;
        if !lock.is_blank() {
            self.sweep(now);
            self.locks.insert(key.clone(), lock);
        }
        answer
    }

    /// Removes expired locks, once there are twice as many as were live the last time. That
    /// is constant work a grant, and needs no thread.
    fn sweep(&mut self, now: Time) {
        if self.locks.len() > self.sweep_above {
            self.locks.retain(|_, lock| {
                lock.expire(now);
                !lock.is_blank()
            });
            self.sweep_above = (self.locks.len() * 2).max(64);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::store::{Kind, QueuePosition, RequestId};

    const SECOND: Duration = Duration::from_secs(1);

    fn request(client: ClientId, name: &str) -> Request {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        Request {
            key: LockKey::new(name).unwrap(),
            id: RequestId::next(client, &COUNTER),
            kind: Kind::Mutex,
            owner: None,
            note: None,
            ttl: SECOND,
        }
    }

    #[test]
    fn released_locks_are_removed() {
        let (mut table, mut now) = (Table::default(), Time::since_beginning(SECOND));
        let client = ClientId::random();
        for n in 0..10_000 {
            let request = request(client, &format!("lock:{n}"));
            assert!(matches!(table.acquire(&request, None, now), Attempt::Granted { .. }));
            assert_eq!(table.release(&request, Duration::ZERO, now), Ended::Released);
            now = now + SECOND;
        }
        assert!(table.locks.len() < 200, "{} locks", table.locks.len());
    }

    #[test]
    fn a_lock_whose_request_is_forgotten_takes_no_room() {
        let (mut table, now) = (Table::default(), Time::since_beginning(SECOND));
        let (first, second) = (request(ClientId::random(), "a"), request(ClientId::random(), "a"));
        let Attempt::Granted { token } = table.acquire(&first, None, now) else { panic!() };
        assert_eq!(table.release_and_forget(&first, now), Ended::Released);
        assert!(table.locks.is_empty());
        let Attempt::Granted { token: next } = table.acquire(&second, None, now) else { panic!() };
        assert!(next > token, "{next} after {token}");
    }

    #[test]
    fn abandoned_queues_are_removed() {
        let (mut table, mut now) = (Table::default(), Time::since_beginning(SECOND));
        let client = ClientId::random();
        let waiting =
            Some(Waiting { live: SECOND, position: QueuePosition::New { age: Duration::ZERO } });
        for n in 0..10_000 {
            let name = format!("lock:{n}");
            let _ = table.acquire(&request(client, &name), None, now);
            let waiter = table.acquire(&request(client, &name), waiting, now);
            assert!(matches!(waiter, Attempt::Queued { .. }));
            now = now + SECOND;
        }
        assert!(table.locks.len() < 200, "{} locks", table.locks.len());
    }

    #[test]
    fn a_lock_that_was_never_held_takes_no_room() {
        let (mut table, now) = (Table::default(), Time::since_beginning(SECOND));
        let request = request(ClientId::random(), "a");
        let _ = table.renew(&request, now);
        let _ = table.release(&request, Duration::ZERO, now);
        assert!(table.locks.is_empty());
    }
}
