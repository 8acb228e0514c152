//! The stores under test, each empty and with a client of its own.

mod shared;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use leasehold::Locks;
use leasehold::store::memory::MemoryStore;
use leasehold::store::redis::{RedisStore, Settings};
use leasehold::store::{ClientId, Store};
use tokio::runtime::Handle;

pub use self::shared::{
    Cluster, Lazy, LeastRights, Pool, Quorum, QuorumOfFive, QuorumWithoutMinority, Redis, Resp2,
    Sentinel,
};
use crate::members::Members;
use crate::server::Server;

/// A store, and control over its time.
pub trait Backend: Sized {
    /// Starts everything the store needs, empty.
    fn start() -> impl Future<Output = Self>;

    /// The store, to be asked single commands.
    fn store(&self) -> &Arc<dyn Store>;

    /// A new client of a store that all clients share.
    fn locks(&self) -> impl Future<Output = Locks>;

    /// Waits until this many requests are in a lock's queue.
    fn until_queued(&self, name: &str, count: u64) -> impl Future<Output = ()>;

    /// True if this is the token of a repeated acquire whose first answer had `first`.
    fn is_repeated(&self, first: u64, token: u64) -> bool {
        token == first
    }

    /// Lets this much of the store's time go by.
    fn pass(&self, time: Duration) -> impl Future<Output = ()>;
}

/// In memory, on a clock that stands still until `pass` moves it.
#[derive(Debug)]
pub struct Memory {
    store: Arc<dyn Store>,
}

impl Backend for Memory {
    async fn start() -> Self {
        tokio::time::pause();
        Self { store: Arc::new(MemoryStore::default()) }
    }

    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn locks(&self) -> Locks {
        Locks::over(self.store.clone())
    }

    async fn until_queued(&self, _: &str, _: u64) {
        // A command runs when its future is made: a polled waiter is in the queue.
        tokio::task::yield_now().await;
    }

    async fn pass(&self, time: Duration) {
        tokio::time::advance(time).await;
    }
}

/// A quorum of three stores in memory, on the same clock.
#[derive(Debug)]
pub struct QuorumInMemory {
    members: Members,
    store: Arc<dyn Store>,
}

impl Backend for QuorumInMemory {
    async fn start() -> Self {
        tokio::time::pause();
        let members = Members::start(3, Duration::from_secs(60), Duration::ZERO);
        Self { store: members.store(), members }
    }

    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn locks(&self) -> Locks {
        Locks::over(self.members.store())
    }

    async fn until_queued(&self, _: &str, _: u64) {
        unreachable!("nobody is queued")
    }

    /// Another majority gives another token, and a greater one.
    fn is_repeated(&self, first: u64, token: u64) -> bool {
        token >= first
    }

    async fn pass(&self, time: Duration) {
        tokio::time::advance(time).await;
    }
}

/// A client on a server whose work runs on the test's own runtime: for tests that need hundreds of
/// clients, and not as many threads.
///
/// # Panics
///
/// If the server can't be reached.
pub async fn light_client(server: &Server) -> Locks {
    let id = ClientId::random();
    let store =
        RedisStore::connect(&server.url(), &Settings::default(), id, Handle::current()).await;
    Locks::over_as(Arc::new(store.expect("the server is there")), id)
}
