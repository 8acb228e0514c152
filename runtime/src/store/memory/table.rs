//! All locks of a store, and what they share.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::clock::Epoch;
use super::context::Shared;
use super::lock::Lock;
use super::{forced, inspect, mutex, quorum_member, reentrant, rw, semaphore, serve};
use crate::core::key::LockKey;
use crate::store::{
    Adoption, All, Attempt, ClientId, ClientInfo, Ended, Forced, Hint, Kind, Listener, LockInfo,
    Owner, Renewal, Repaired, Request, RequestId, Stamp, Waiting,
};

/// All locks. A command finds none of what ended before it.
#[derive(Debug, Default)]
pub(super) struct Table {
    locks: HashMap<LockKey, Lock>,
    shared: Option<Shared>,
    epoch: Option<Epoch>,
    /// How many locks there may be before the ended ones are forgotten.
    sweep_above: usize,
}

impl Table {
    pub(super) fn by(epoch: Epoch) -> Self {
        Self { epoch: Some(epoch), ..Self::default() }
    }

    pub(super) fn acquire(
        &mut self,
        request: &Request,
        waiting: Option<Waiting>,
        now: Instant,
    ) -> Attempt {
        let acquire = match request.kind {
            Kind::Mutex => mutex::acquire,
            Kind::Reentrant => reentrant::acquire,
            Kind::Semaphore { .. } => semaphore::acquire,
            Kind::Read | Kind::Write => rw::acquire,
        };
        self.with(&request.key, now, |lock, shared| acquire(lock, request, waiting, shared))
    }

    pub(super) fn acquire_all(&mut self, requests: &[Request], now: Instant) -> All {
        for (place, request) in requests.iter().enumerate() {
            let is_to_be_had = |lock: &mut Lock, _: &mut _| mutex::is_to_be_had(lock, request);
            if !self.with(&request.key, now, is_to_be_had) {
                return Err(Some(place));
            }
        }
        let take = |request: &Request| {
            self.with(&request.key, now, |lock, shared| mutex::take(lock, request, shared))
        };
        Ok(requests.iter().map(take).collect())
    }

    pub(super) fn vote(&mut self, request: &Request, again: Duration, now: Instant) -> Attempt {
        self.with(&request.key, now, |lock, shared| {
            quorum_member::vote(lock, request, again, shared)
        })
    }

    pub(super) fn repair(
        &mut self,
        request: &Request,
        token: u64,
        lasts: Duration,
        now: Instant,
    ) -> Repaired {
        self.with(&request.key, now, |lock, shared| {
            quorum_member::repair(lock, request, token, lasts, shared)
        })
    }

    pub(super) fn renew(&mut self, request: &Request, now: Instant) -> Renewal {
        let renew = match request.kind {
            Kind::Mutex => mutex::renew,
            Kind::Reentrant => reentrant::renew,
            Kind::Semaphore { .. } => semaphore::renew,
            Kind::Read | Kind::Write => rw::renew,
        };
        self.with(&request.key, now, |lock, shared| renew(lock, request, shared))
    }

    pub(super) fn keep_offer(&mut self, request: &Request, until: Stamp, now: Instant) {
        self.with(&request.key, now, |lock, shared| {
            serve::keep_offer(lock, request, until, shared);
        });
    }

    pub(super) fn adopt(&mut self, from: RequestId, request: &Request, now: Instant) -> Adoption {
        self.with(&request.key, now, |lock, shared| match request.kind {
            Kind::Mutex => mutex::adopt(lock, from, request, shared),
            _ => serve::adopt(lock, from, request, shared),
        })
    }

    pub(super) fn release(&mut self, request: &Request, keep: Duration, now: Instant) -> Ended {
        self.with(&request.key, now, |lock, shared| match request.kind {
            Kind::Mutex => mutex::release(lock, request, keep, shared),
            Kind::Reentrant => reentrant::release(lock, request, shared),
            Kind::Semaphore { .. } => semaphore::release(lock, request, shared),
            Kind::Read | Kind::Write => rw::release(lock, request, shared),
        })
    }

    pub(super) fn cancel(&mut self, request: &Request, now: Instant) -> bool {
        self.with(&request.key, now, |lock, shared| match request.kind {
            Kind::Mutex => mutex::cancel(lock, request, shared),
            _ => serve::take_back(lock, request, shared),
        })
    }

    pub(super) fn inspect(&mut self, key: &LockKey, now: Instant) -> LockInfo {
        self.with(key, now, |lock, shared| inspect::inspect(lock, shared))
    }

    pub(super) fn is_held_by(&mut self, key: &LockKey, owner: &Owner, now: Instant) -> bool {
        self.with(key, now, |lock, shared| inspect::is_held_by(lock, owner, shared))
    }

    pub(super) fn force_release(&mut self, key: &LockKey, now: Instant) -> Forced {
        self.with(key, now, forced::force_release)
    }

    pub(super) fn was_forced(&mut self, request: &Request, now: Instant) -> bool {
        self.with(&request.key, now, |lock, _| lock.forced.has(request.id))
    }

    pub(super) fn introduce(&mut self, client: &ClientInfo, lasts: Duration, now: Instant) {
        let shared = self.shared.get_or_insert_with(|| Shared::new(now, self.epoch));
        shared.now = now;
        shared.introduce(client.clone(), lasts);
    }

    /// Ends what is held of a lock before its time, and says whether it was held.
    pub(super) fn expire(&mut self, key: &LockKey, now: Instant) -> bool {
        self.locks.get_mut(key).is_some_and(|lock| {
            lock.expire(now);
            lock.run_out()
        })
    }

    /// What clients are to be told.
    pub(super) fn take_hints(&mut self) -> Vec<(Arc<dyn Listener>, Hint)> {
        self.shared.as_mut().map(Shared::take_hints).unwrap_or_default()
    }

    /// From now on a client hears what it is told.
    pub(super) fn listen(&mut self, client: ClientId, listener: Weak<dyn Listener>, now: Instant) {
        self.shared.get_or_insert_with(|| Shared::new(now, self.epoch)).listen(client, listener);
    }

    /// Runs a command on a lock, as it is now.
    fn with<T>(
        &mut self,
        key: &LockKey,
        now: Instant,
        command: impl FnOnce(&mut Lock, &mut Shared) -> T,
    ) -> T {
        let shared = self.shared.get_or_insert_with(|| Shared::new(now, self.epoch));
        shared.now = now;
        if let Some(lock) = self.locks.get_mut(key) {
            lock.expire(now);
            return command(lock, shared);
        }
        let mut lock = Lock::default();
        let answer = command(&mut lock, shared);
        if !lock.is_blank() {
            self.sweep(now);
            self.locks.insert(key.clone(), lock);
        }
        answer
    }

    /// Forgets what ended, once there are twice as many locks as were live the
    /// last time: constant work a grant, and no thread.
    fn sweep(&mut self, now: Instant) {
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

    use super::super::super::QueuePosition;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn request(client: ClientId, name: &str) -> Request {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        Request {
            key: LockKey::new(name).unwrap(),
            id: RequestId::next(client, &COUNTER),
            kind: Kind::Mutex,
            owner: None,
            ttl: SECOND,
        }
    }

    #[test]
    fn what_ended_is_forgotten() {
        let (mut table, mut now) = (Table::default(), Instant::now());
        let client = ClientId::random();
        for n in 0..10_000 {
            let request = request(client, &format!("lock:{n}"));
            assert!(matches!(table.acquire(&request, None, now), Attempt::Granted { .. }));
            assert_eq!(table.release(&request, Duration::ZERO, now), Ended::Released);
            now += SECOND;
        }
        assert!(table.locks.len() < 200, "{} locks", table.locks.len());
    }

    #[test]
    fn queues_that_nobody_asks_for_are_forgotten() {
        let (mut table, mut now) = (Table::default(), Instant::now());
        let client = ClientId::random();
        let waiting =
            Some(Waiting { live: SECOND, position: QueuePosition::New { age: Duration::ZERO } });
        for n in 0..10_000 {
            let name = format!("lock:{n}");
            let _ = table.acquire(&request(client, &name), None, now);
            let waiter = table.acquire(&request(client, &name), waiting, now);
            assert!(matches!(waiter, Attempt::Queued { .. }));
            now += SECOND;
        }
        assert!(table.locks.len() < 200, "{} locks", table.locks.len());
    }

    #[test]
    fn what_was_never_held_takes_no_room() {
        let (mut table, now) = (Table::default(), Instant::now());
        let request = request(ClientId::random(), "a");
        let _ = table.renew(&request, now);
        let _ = table.release(&request, Duration::ZERO, now);
        assert!(table.locks.is_empty());
    }
}
