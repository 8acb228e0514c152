//! The store of one process: for users' tests, for examples, and for services
//! that run alone.
//!
//! It keeps the table of locks, the clock and the listeners. The decisions are the
//! `store::rules`.

mod clients;
mod clock;
mod table;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::future::join_all;

pub use self::clock::Clock;
use self::table::Table;
use super::rules::{Time, Tokens};
use super::{
    Adoption, All, Attempt, ClientId, ClientInfo, Detached, Diagnosis, Ended, Forced, Kind,
    Lingering, ListCursor, ListPage, Listener, LockInfo, Owner, QuorumMember, Renewal, Renewals,
    Repaired, Request, Stamp, Store, StoreFuture, Success, Usage, Waiting, at_once,
};
use crate::core::key::LockKey;
use crate::core::name_pattern::NamePattern;
use crate::system;

/// The time of a store's clock at its first command, in microseconds since the Unix epoch, as
/// on a server: ticks are counted from then. Where a test has paused tokio's clock, it is the same
/// for all stores.
fn first() -> u64 {
    static BASE: OnceLock<(Instant, Duration)> = OnceLock::new();
    let (then, wall) = *BASE.get_or_init(|| (system::now(), system::wall_clock()));
    let now = clock::real();
    let now = (wall + now.saturating_duration_since(then))
        .saturating_sub(then.saturating_duration_since(now));
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

/// Keeps leases in memory. Two stores share nothing.
///
/// Its clock is tokio's: in a test that pauses the clock, leases follow the paused clock. A
/// command runs, and sends its hints, when its future is made; the future only delivers the
/// answer.
#[derive(Debug, Default)]
pub struct MemoryStore {
    table: Mutex<Table>,
    clock: OnceLock<Arc<Clock>>,
}

impl MemoryStore {
    /// A member of a quorum: its leases and its tokens follow this clock, as a server's do.
    #[must_use]
    pub fn by(clock: Arc<Clock>) -> Self {
        Self { table: Mutex::new(Table::new(Tokens::Clock)), clock: OnceLock::from(clock) }
    }

    fn time(&self) -> Time {
        self.clock.get_or_init(|| Arc::new(Clock::new(first()))).now()
    }

    /// Ends all leases of a lock, and its keeping, as if they had expired. Sends no hints.
    /// Says whether the lock was held.
    pub fn expire(&self, key: &LockKey) -> bool {
        let mut table = self.table();
        table.expire(key, self.time())
    }

    /// Runs a command, and then sends its hints.
    fn run<T: Send + 'static>(
        &self,
        command: impl FnOnce(&mut Table, Time) -> T,
    ) -> StoreFuture<T> {
        let (answer, hints) = {
            let mut table = self.table();
            // Under the lock, the time never goes back from one command to the next.
            (command(&mut table, self.time()), table.take_hints())
        };
        // Not under the lock: a listener may send a command at once, and a client may be
        // dropped with its listener.
        for (listener, hint) in hints {
            listener.hear(hint);
        }
        at_once(Ok(answer))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn acquire(&self, request: &Request, waiting: Option<Waiting>) -> StoreFuture<Attempt> {
        self.run(|table, now| table.acquire(request, waiting, now))
    }

    fn renew(&self, request: &Request) -> StoreFuture<Renewal> {
        self.run(|table, now| table.renew(request, now))
    }

    fn renew_all(&self, requests: &[Request]) -> Renewals {
        Box::pin(join_all(requests.iter().map(|request| self.renew(request)).collect::<Vec<_>>()))
    }

    fn keep_offer(&self, request: &Request, until: Stamp) -> StoreFuture<()> {
        self.run(|table, now| table.keep_offer(request, until, now))
    }

    fn adopt(&self, from: Detached, request: &Request) -> StoreFuture<Adoption> {
        self.run(|table, now| table.adopt(from, request, now))
    }

    fn release(&self, request: &Request, keep: Duration) -> StoreFuture<Ended> {
        self.run(|table, now| table.release(request, keep, now))
    }

    fn release_and_forget(&self, request: &Request) -> StoreFuture<Ended> {
        self.run(|table, now| table.release_and_forget(request, now))
    }

    fn complete(&self, request: &Request, success: Success) -> Option<StoreFuture<Ended>> {
        let is_once = matches!(request.kind, Kind::Once(_));
        is_once.then(|| self.run(|table, now| table.complete(request, success, now)))
    }

    fn can_linger(&self, request: &Request) -> bool {
        request.may_linger()
    }

    fn linger(&self, request: &Request, usage: Usage) -> Option<StoreFuture<Lingering>> {
        request.may_linger().then(|| self.run(|table, now| table.linger(request, usage, now)))
    }

    fn cancel(&self, request: &Request) -> StoreFuture<bool> {
        self.run(|table, now| table.cancel(request, now))
    }

    fn acquire_all(&self, requests: &[Request]) -> Option<StoreFuture<All>> {
        let can_all = requests.iter().all(|it| it.kind.can_join_others());
        let all = || self.run(|table, now| table.acquire_all(requests, now));
        (can_all && !requests.is_empty()).then(all)
    }

    fn inspect(&self, key: &LockKey) -> StoreFuture<LockInfo> {
        self.run(|table, now| table.inspect(key, now))
    }

    fn list(&self, names: &NamePattern, _: ListCursor) -> Option<StoreFuture<ListPage>> {
        let keys = |table: &mut Table, now| table.list(names, now);
        Some(self.run(|table, now| ListPage { keys: keys(table, now), next: None }))
    }

    fn diagnose(&self) -> StoreFuture<Diagnosis> {
        Box::pin(async { Ok(Diagnosis::default()) })
    }

    fn is_held_by(&self, key: &LockKey, owner: &Owner) -> StoreFuture<bool> {
        self.run(|table, now| table.is_held_by(key, owner, now))
    }

    fn force_release(&self, key: &LockKey) -> StoreFuture<Forced> {
        self.run(|table, now| table.force_release(key, now))
    }

    fn was_forced(&self, request: &Request) -> StoreFuture<bool> {
        self.run(|table, now| table.was_forced(request, now))
    }

    fn introduce(&self, client: &ClientInfo, lasts: Duration) -> StoreFuture<()> {
        self.run(|table, now| table.introduce(client, lasts, now))
    }

    fn listen(&self, client: ClientId, listener: Weak<dyn Listener>) {
        self.table().listen(client, listener);
    }

    fn gives_hints(&self) -> bool {
        true
    }

    fn now(&self) -> Instant {
        clock::real()
    }
}

impl QuorumMember for MemoryStore {
    fn vote(&self, request: &Request, again: Duration) -> StoreFuture<Attempt> {
        self.run(|table, now| table.vote(request, again, now))
    }

    fn repair(&self, request: &Request, token: u64, lasts: Duration) -> StoreFuture<Repaired> {
        self.run(|table, now| table.repair(request, token, lasts, now))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::super::{Hint, Kind, RequestId};
    use super::*;

    #[derive(Debug)]
    struct Deaf;

    impl Listener for Deaf {
        fn hear(&self, _: Hint) {}
    }

    /// Introduces a client. It is known until the listener is dropped.
    async fn meet(store: &MemoryStore, id: ClientId, lasts: Duration) -> Arc<dyn Listener> {
        let (service, host) = ("a".to_owned(), String::new());
        store.introduce(&ClientInfo { id, service, host, process: 1 }, lasts).await.unwrap();
        let listener: Arc<dyn Listener> = Arc::new(Deaf);
        store.listen(id, Arc::downgrade(&listener));
        listener
    }

    /// Returns true if `inspect` names the client as the holder of its lock.
    async fn knows(store: &MemoryStore, client: ClientId) -> bool {
        let key = LockKey::new(client.to_string()).unwrap();
        let id = RequestId::next(client, &AtomicU64::new(0));
        let (kind, ttl) = (Kind::Mutex, Duration::from_secs(60));
        let request = Request { key: key.clone(), id, kind, owner: None, note: None, ttl };
        let _ = store.acquire(&request, None).await.unwrap();
        let info = store.inspect(&key).await.unwrap();
        info.holders[0].client.as_ref().is_some_and(|known| known.id == client)
    }

    #[tokio::test(start_paused = true)]
    async fn clients_are_known_as_long_as_they_live() {
        const SECOND: Duration = Duration::from_secs(1);
        let (store, clients) = (MemoryStore::default(), [(); 3].map(|()| ClientId::random()));
        let first = meet(&store, clients[0], Duration::MAX).await;
        let _second = meet(&store, clients[1], SECOND).await;
        assert!(knows(&store, clients[0]).await && knows(&store, clients[1]).await);
        tokio::time::advance(SECOND).await;
        assert!(!knows(&store, clients[1]).await, "its time is over");
        drop(first);
        let _third = meet(&store, clients[2], Duration::MAX).await;
        assert!(!knows(&store, clients[0]).await, "it is gone");
        assert!(knows(&store, clients[2]).await);
    }
}
