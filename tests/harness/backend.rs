//! The stores under test, each empty and with a client of its own.

mod shared;

use std::future::{Future, ready};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
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

/// A store, and control over its time. The cases take any of them by reference, so that each is compiled
/// once.
pub trait Backend {
    /// Starts everything the store needs, empty.
    fn start() -> impl Future<Output = Self>
    where
        Self: Sized;

    /// The store, to be asked single commands.
    fn store(&self) -> &Arc<dyn Store>;

    /// A new client of a store that all clients share.
    fn locks(&self) -> LocalBoxFuture<'_, Locks>;

    /// Waits until this many requests are in a lock's queue.
    fn until_queued<'a>(&'a self, name: &'a str, count: u64) -> LocalBoxFuture<'a, ()>;

    /// True if this is the token of a repeated acquire whose first answer had `first`.
    fn is_repeated(&self, first: u64, token: u64) -> bool {
        token == first
    }

    /// Lets this much of the store's time go by.
    fn pass(&self, time: Duration) -> LocalBoxFuture<'_, ()>;
}

/// In memory, on a clock that goes on when all tasks wait, as in `pass`.
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

    fn locks(&self) -> LocalBoxFuture<'_, Locks> {
        ready(Locks::over(self.store.clone())).boxed_local()
    }

    fn until_queued<'a>(&'a self, _: &'a str, _: u64) -> LocalBoxFuture<'a, ()> {
        // A command runs when its future is made: a polled waiter is in the queue.
        tokio::task::yield_now().boxed_local()
    }

    fn pass(&self, time: Duration) -> LocalBoxFuture<'_, ()> {
        tokio::time::sleep(time).boxed_local()
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

    fn locks(&self) -> LocalBoxFuture<'_, Locks> {
        ready(Locks::over(self.members.store())).boxed_local()
    }

    fn until_queued<'a>(&'a self, _: &'a str, _: u64) -> LocalBoxFuture<'a, ()> {
        unreachable!("nobody is queued")
    }

    /// Another majority gives another token, and a greater one.
    fn is_repeated(&self, first: u64, token: u64) -> bool {
        token >= first
    }

    fn pass(&self, time: Duration) -> LocalBoxFuture<'_, ()> {
        tokio::time::sleep(time).boxed_local()
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
