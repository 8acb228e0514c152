//! The store of one process: for users' tests, for examples, and for services
//! that run alone.

mod clock;
mod context;
mod forced;
mod holders;
mod inspect;
mod lock;
mod mutex;
mod queue;
mod quorum_member;
mod reentrant;
mod rules;
mod rw;
mod semaphore;
mod serve;
mod table;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::future::join_all;

pub use self::clock::Clock;
use self::table::Table;
use super::{
    Adoption, All, Attempt, ClientId, ClientInfo, Ended, Forced, Listener, LockInfo, Owner,
    QuorumMember, Renewal, Renewals, Repaired, Request, RequestId, Stamp, Store, StoreFuture,
    Waiting, at_once,
};
use crate::core::key::LockKey;

/// Keeps leases in memory. Each store is a world of its own.
///
/// Its clock is tokio's: where a test pauses that, leases live by the paused
/// clock. A command is done, and its hints are told, when its future is made; only the
/// answer may wait for the task's next turn.
#[derive(Debug, Default)]
pub struct MemoryStore {
    table: Mutex<Table>,
    /// If it has one of its own.
    clock: Option<Arc<Clock>>,
}

impl MemoryStore {
    /// One of several, as a server is: its leases and its tokens go by this clock.
    #[must_use]
    pub fn by(clock: Arc<Clock>) -> Self {
        let table = Mutex::new(Table::by(clock.epoch));
        Self { table, clock: Some(clock) }
    }

    fn time(&self) -> Instant {
        self.clock.as_ref().map_or_else(clock::real, |clock| clock.now())
    }

    /// Ends all leases of a lock, and its keeping, as when their time is over: nobody is
    /// told. Whether it was held.
    pub fn expire(&self, key: &LockKey) -> bool {
        let mut table = self.table();
        table.expire(key, self.time())
    }

    /// Runs a command, and then tells the waiters what they were offered.
    fn run<T: Send + 'static>(
        &self,
        command: impl FnOnce(&mut Table, Instant) -> T,
    ) -> StoreFuture<T> {
        let (answer, hints) = {
            let mut table = self.table();
            // Read in here, so that time does not go back from one command to
            // the next.
            (command(&mut table, self.time()), table.take_hints())
        };
        // With no lock of ours held: a listener may ask at once, and the last of a
        // client's parts may go with it.
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

    fn adopt(&self, from: RequestId, request: &Request) -> StoreFuture<Adoption> {
        self.run(|table, now| table.adopt(from, request, now))
    }

    fn release(&self, request: &Request, keep: Duration) -> StoreFuture<Ended> {
        self.run(|table, now| table.release(request, keep, now))
    }

    fn cancel(&self, request: &Request) -> StoreFuture<bool> {
        self.run(|table, now| table.cancel(request, now))
    }

    fn acquire_all(&self, requests: &[Request]) -> Option<StoreFuture<All>> {
        let all = || self.run(|table, now| table.acquire_all(requests, now));
        (!requests.is_empty()).then(all)
    }

    fn inspect(&self, key: &LockKey) -> StoreFuture<LockInfo> {
        self.run(|table, now| table.inspect(key, now))
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
        self.table().listen(client, listener, self.time());
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

    use super::super::{Hint, Kind};
    use super::*;

    #[derive(Debug)]
    struct Deaf;

    impl Listener for Deaf {
        fn hear(&self, _: Hint) {}
    }

    /// A client that is there until its listener is dropped.
    async fn meet(store: &MemoryStore, id: ClientId, lasts: Duration) -> Arc<dyn Listener> {
        let (service, host) = ("a".to_owned(), String::new());
        store.introduce(&ClientInfo { id, service, host, process: 1 }, lasts).await.unwrap();
        let listener: Arc<dyn Listener> = Arc::new(Deaf);
        store.listen(id, Arc::downgrade(&listener));
        listener
    }

    /// Whether a client is named as the holder of what it holds.
    async fn knows(store: &MemoryStore, client: ClientId) -> bool {
        let key = LockKey::new(client.to_string()).unwrap();
        let id = RequestId::next(client, &AtomicU64::new(0));
        let (kind, ttl) = (Kind::Mutex, Duration::from_secs(60));
        let request = Request { key: key.clone(), id, kind, owner: None, ttl };
        let _ = store.acquire(&request, None).await.unwrap();
        let info = store.inspect(&key).await.unwrap();
        info.holders[0].client.as_ref().is_some_and(|known| known.id == client)
    }

    #[tokio::test(start_paused = true)]
    async fn clients_are_known_as_long_as_they_are_there() {
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
