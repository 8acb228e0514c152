//! The store of one process: for users' tests, for examples, and for services
//! that run alone.
//!
//! It keeps the table of locks, the clock and the listeners. The decisions are the
//! `store::rules`.

mod clients;
mod clock;
mod rates;
mod table;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant};

pub use self::clock::Clock;
use self::table::Table;
use super::rules::{Time, Tokens};
use super::{
    Answer, ClientId, Command, Listener, Request, Store, StoreFuture, Subscription, at_once,
};
use crate::core::key::LockKey;
use crate::core::sync::lock;
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

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }
}

impl Store for MemoryStore {
    /// Runs the command, and then sends its hints.
    fn send(&self, command: Command<'_>) -> StoreFuture<Answer> {
        let (answer, hints) = {
            let mut table = self.table();
            // Under the lock, the time never goes back from one command to the next.
            (table.run(&command, self.time()), table.take_hints())
        };
        // Not under the lock: a listener may send a command at once, and a client may be
        // dropped with its listener.
        for (listener, hint) in hints {
            listener.hear(hint);
        }
        at_once(Ok(answer))
    }

    fn can(&self, command: &Command<'_>) -> bool {
        command.fits_kind()
    }

    fn listen(&self, client: ClientId, listener: Weak<dyn Listener>) {
        self.table().listen(client, listener);
    }

    fn gives_hints(&self) -> bool {
        true
    }

    fn subscribe(&self, _: &Request) -> Option<StoreFuture<Subscription>> {
        None
    }

    fn has_queue(&self) -> bool {
        true
    }

    fn longest_ttl(&self) -> Duration {
        Duration::MAX
    }

    fn fails_as_one(&self) -> bool {
        true
    }

    fn answers_within(&self, _: Duration) -> Option<Duration> {
        None
    }

    fn now(&self) -> Instant {
        clock::real()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::super::{Ask, ClientInfo, Hint, Kind, RequestId};
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
