//! All locks of a store, and what they share.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::super::{
    Attempt, ClientId, Ended, Hint, Kind, Renewal, Request, RequestId, Stamp, Waiting,
};
use super::lock::Lock;
use super::semaphore::Demand;
use super::{mutex, semaphore};
use crate::LockKey;

/// All locks. A command finds none of what ended before it.
#[derive(Debug, Default)]
pub(super) struct Table {
    locks: HashMap<LockKey, Lock>,
    shared: Option<Shared>,
    /// How many locks there may be before the ended ones are forgotten.
    sweep_above: usize,
}

/// The clock of a command, and what is counted for the whole store.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) now: Instant,
    /// When the store had its first command.
    origin: Instant,
    /// One for all locks: it grows with each grant, and so with those of each.
    last_token: u64,
    last_ticket: u64,
    hints: Vec<(ClientId, Hint)>,
}

impl Shared {
    /// The first stamp, in microseconds: no waiter is older.
    const FIRST: u64 = 1 << 40;

    fn new(now: Instant) -> Self {
        Self { now, origin: now, last_token: 0, last_ticket: 0, hints: Vec::new() }
    }

    /// A time of the store's clock, in microseconds.
    pub(super) fn stamp(&self, time: Instant) -> Stamp {
        let since = time.saturating_duration_since(self.origin).as_micros();
        Self::FIRST.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }

    pub(super) fn next_token(&mut self) -> u64 {
        self.last_token += 1;
        self.last_token
    }

    /// The ticket of one who first asked so long ago. No two that ask now have
    /// the same, even where the clock stands still.
    pub(super) fn next_ticket(&mut self, age: Duration) -> u64 {
        let age = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
        let now = self.stamp(self.now);
        if age > 0 {
            return now.saturating_sub(age);
        }
        self.last_ticket = now.max(self.last_ticket + 1);
        self.last_ticket
    }

    /// Notes what a waiter is to be told when the command is done.
    pub(super) fn tell(&mut self, id: RequestId, token: u64, until: Instant) {
        let hint = Hint::Offered { id, token, until: self.stamp(until) };
        self.hints.push((id.client(), hint));
    }
}

impl Table {
    pub(super) fn acquire(
        &mut self,
        request: &Request,
        waiting: Option<Waiting>,
        now: Instant,
    ) -> Attempt {
        self.with(request, now, |lock, shared| match request.kind {
            Kind::Mutex => mutex::acquire(lock, request, waiting, shared),
            Kind::Semaphore { limit, weight } => {
                semaphore::acquire(lock, request, Demand { limit, weight }, waiting, shared)
            }
            _ => todo!(),
        })
    }

    pub(super) fn renew(&mut self, request: &Request, now: Instant) -> Renewal {
        self.with(request, now, |lock, shared| match request.kind {
            Kind::Mutex => mutex::renew(lock, request, shared),
            Kind::Semaphore { weight, .. } => semaphore::renew(lock, request, weight, shared),
            _ => todo!(),
        })
    }

    pub(super) fn release(&mut self, request: &Request, keep: Duration, now: Instant) -> Ended {
        self.with(request, now, |lock, shared| match request.kind {
            Kind::Mutex => mutex::release(lock, request, keep, shared),
            Kind::Semaphore { .. } => semaphore::release(lock, request, shared),
            _ => todo!(),
        })
    }

    pub(super) fn cancel(&mut self, request: &Request, now: Instant) -> bool {
        self.with(request, now, |lock, shared| match request.kind {
            Kind::Mutex => mutex::cancel(lock, request, shared),
            Kind::Semaphore { .. } => semaphore::cancel(lock, request, shared),
            _ => todo!(),
        })
    }

    /// What the waiters of each client are to be told.
    pub(super) fn take_hints(&mut self) -> Vec<(ClientId, Hint)> {
        self.shared.as_mut().map(|shared| std::mem::take(&mut shared.hints)).unwrap_or_default()
    }

    /// Runs a command on the request's lock, as it is now.
    fn with<T>(
        &mut self,
        request: &Request,
        now: Instant,
        command: impl FnOnce(&mut Lock, &mut Shared) -> T,
    ) -> T {
        let shared = self.shared.get_or_insert_with(|| Shared::new(now));
        shared.now = now;
        if let Some(lock) = self.locks.get_mut(&request.key) {
            lock.expire(now);
            return command(lock, shared);
        }
        let mut lock = Lock::default();
        let answer = command(&mut lock, shared);
        if !lock.is_blank() {
            self.sweep(now);
            self.locks.insert(request.key.clone(), lock);
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

    use super::super::super::Ticket;
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
        let waiting = Some(Waiting { live: SECOND, ticket: Ticket::New { age: Duration::ZERO } });
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
