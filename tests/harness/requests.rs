//! Single requests to a store, for tests that go below the client.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::task::Poll;
use std::time::Duration;

use leasehold::store::redis::{RedisStore, Settings};
use leasehold::store::{Ask, ClientId, Force, Kind, Note, Reply, Request, RequestId, Take};
use leasehold::{LockKey, Rate};
use tokio::runtime::Handle;

use crate::server::Server;

/// Makes the requests of one client; each has an id of its own.
#[derive(Debug)]
pub struct Requests {
    client: ClientId,
    count: AtomicU64,
}

impl Requests {
    /// The requests of this client.
    #[must_use]
    pub fn of(client: ClientId) -> Self {
        Self { client, count: AtomicU64::new(0) }
    }

    /// The next request, without an owner.
    ///
    /// # Panics
    ///
    /// If `name` is no valid name of a lock.
    pub fn next(&self, name: &str, kind: Kind, ttl: Duration) -> Request {
        let id = RequestId::next(self.client, &self.count);
        Request { key: LockKey::new(name).expect("a name"), id, kind, owner: None, note: None, ttl }
    }

    /// The next take of a rate.
    ///
    /// # Panics
    ///
    /// If `name` is no valid name.
    pub fn take(&self, name: &str, rate: Rate, weight: u32) -> Take {
        let id = RequestId::next(self.client, &self.count);
        let key = LockKey::new(name).expect("a name");
        Take { key, id, rate, weight, settled: Vec::new(), wait: Duration::ZERO }
    }
}

/// A request of a client that makes no other.
///
/// # Panics
///
/// If `name` is no valid name of a lock.
#[must_use]
pub fn request(name: &str, kind: Kind, ttl: Duration) -> Request {
    Requests::of(ClientId::random()).next(name, kind, ttl)
}

/// A take of a client that makes no other.
///
/// # Panics
///
/// If `name` is no valid name.
#[must_use]
pub fn take(name: &str, rate: Rate, weight: u32) -> Take {
    Requests::of(ClientId::random()).take(name, rate, weight)
}

/// A store over Redis with the default settings, driven by the test's own runtime.
///
/// # Panics
///
/// If the server can't be reached.
pub async fn redis_store(url: &str) -> RedisStore {
    redis_store_of(url, ClientId::random()).await
}

/// The same for a client that the test knows.
///
/// # Panics
///
/// If the server can't be reached.
pub async fn redis_store_of(url: &str, client: ClientId) -> RedisStore {
    let store = RedisStore::connect(url, &Settings::default(), client, Handle::current()).await;
    store.expect("the server is there")
}

/// Sends commands, by the first poll of this future, while the server stands still. So none of them
/// is answered before the last is sent.
pub async fn sent_together<T>(server: &Server, commands: impl Future<Output = T>) -> T {
    let (frozen, mut commands) = (server.freeze().await, pin!(commands));
    let first = poll_fn(|context| Poll::Ready(commands.as_mut().poll(context))).await;
    drop(frozen);
    match first {
        Poll::Ready(answers) => answers,
        Poll::Pending => commands.await,
    }
}

/// A command in flight. Until it is answered, those that follow wait, and so they go together.
#[must_use]
pub fn in_flight(store: &RedisStore) -> Reply<bool> {
    store.was_forced(&request("other", Kind::Mutex, Duration::from_secs(30)))
}

/// An operator takes a lock from all its holders.
///
/// # Panics
///
/// Never: it has a name.
#[must_use]
pub fn force() -> Force {
    Force::all(Note::new("ann").expect("a name"))
}
