//! Servers that all cases of a process share, since some take seconds to start. Each case
//! has keys of its own, by a prefix, and clients of its own, since each has a runtime.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bb8_redis::{RedisConnectionManager, bb8};
use futures_util::future::LocalBoxFuture;
use leasehold::store::quorum;
use leasehold::store::redis::{RedisStore, Settings};
use leasehold::store::{Ask, Attempt, ClientId, Kind, Store};
use leasehold::{LockError, LockKey, Locks, LocksBuilder};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use super::Backend;
use crate::masters::Masters;
use crate::requests::{redis_store, request};
use crate::rights::Rights;
use crate::server::Server;
use crate::waiting::{pass, until};
use crate::{cluster, sentinel};

/// Servers started once in a process, which end with it.
pub trait Deployment: Debug + Sized + Send + Sync + 'static {
    /// The cell that keeps it.
    fn shared() -> &'static OnceCell<Self>;

    /// Starts it.
    fn start() -> impl Future<Output = Self>;

    /// True if a repeated acquire has the token of the first.
    const REPEATS_TOKENS: bool = true;

    /// The URL for clients whose keys begin with `prefix`.
    fn url(&self, prefix: &str) -> impl Future<Output = String>;

    /// A store on it, driven by the case's own runtime.
    fn store(
        &self,
        prefix: &str,
        id: ClientId,
    ) -> impl Future<Output = Result<Arc<dyn Store>, LockError>> {
        async move {
            let (url, settings) = (self.url(prefix).await, settings(prefix));
            let store = RedisStore::connect(&url, &settings, id, Handle::current()).await?;
            Ok(Arc::new(store) as Arc<dyn Store>)
        }
    }

    /// A client of it.
    fn locks(&self, prefix: &str) -> impl Future<Output = Result<Locks, LockError>> {
        async move {
            let builder = builder(prefix);
            builder.connect(&self.url(prefix).await).await
        }
    }
}

/// One case's part of a shared deployment.
#[derive(Debug)]
pub struct On<D: Deployment> {
    deployment: &'static D,
    prefix: String,
    store: Arc<dyn Store>,
}

impl<D: Deployment> Backend for On<D> {
    async fn start() -> Self {
        static CASES: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("case-{}", CASES.fetch_add(1, Ordering::Relaxed));
        let deployment = D::shared().get_or_init(D::start).await;
        let store = deployment.store(&prefix, ClientId::random()).await;
        Self { deployment, prefix, store: store.expect("the server is there") }
    }

    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn locks(&self) -> LocalBoxFuture<'_, Locks> {
        Box::pin(async { self.deployment.locks(&self.prefix).await.expect("the server is there") })
    }

    fn until_queued<'a>(&'a self, name: &'a str, count: u64) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            let key = LockKey::new(name).expect("a name");
            let waiting = async || self.store.inspect(&key).await.expect("it answers").waiting;
            until("so many are in the queue", async || waiting().await == count).await;
        })
    }

    fn is_repeated(&self, first: u64, token: u64) -> bool {
        token == first || !D::REPEATS_TOKENS && token > first
    }

    fn pass(&self, time: Duration) -> LocalBoxFuture<'_, ()> {
        // The server counts in whole milliseconds, and begins when it is asked.
        let time = time + Duration::from_millis(10);
        Box::pin(pass(time, "a case lets the time of a real server go by"))
    }
}

/// One server; or the one at `LEASEHOLD_TEST_URL`, by which these cases are run over TLS.
pub type Redis = On<One>;

/// One server that is spoken to by RESP2, with a second connection for hints.
pub type Resp2 = On<OneByResp2>;

/// One server, as a user with no more rights than docs/keys.md lists.
pub type LeastRights = On<OneWithUsers>;

/// One server, by a pool of the program's own, from which no hints come.
pub type Pool = On<OneByPool>;

/// One server, by clients that connect in the background.
pub type Lazy = On<OneLazily>;

/// A cluster of three masters and their replicas.
pub type Cluster = On<cluster::Cluster>;

/// A master with a replica, found by way of three sentinels.
pub type Sentinel = On<sentinel::Sentinel>;

/// Three masters that know nothing of each other.
pub type Quorum = On<Three>;

/// Five of them.
pub type QuorumOfFive = On<Five>;

/// Five of them, two of which are dead.
pub type QuorumWithoutMinority = On<FiveTwoDead>;

/// See [`Redis`].
#[derive(Debug)]
pub struct One {
    url: String,
    _server: Option<Server>,
}

impl Deployment for One {
    fn shared() -> &'static OnceCell<Self> {
        static ONE: OnceCell<One> = OnceCell::const_new();
        &ONE
    }

    async fn start() -> Self {
        if let Ok(url) = std::env::var("LEASEHOLD_TEST_URL") {
            return Self { url, _server: None };
        }
        let server = Server::start();
        Self { url: server.url(), _server: Some(server) }
    }

    async fn url(&self, _: &str) -> String {
        self.url.clone()
    }
}

/// See [`Resp2`].
#[derive(Debug)]
pub struct OneByResp2(Server);

impl Deployment for OneByResp2 {
    fn shared() -> &'static OnceCell<Self> {
        static ONE: OnceCell<OneByResp2> = OnceCell::const_new();
        &ONE
    }

    async fn start() -> Self {
        Self(Server::start())
    }

    async fn url(&self, _: &str) -> String {
        format!("{}?protocol=resp2", self.0.url())
    }

    /// A lock lingers once the second connection is there, which is made in the background.
    async fn locks(&self, prefix: &str) -> Result<Locks, LockError> {
        let builder = builder(prefix);
        let locks = builder.connect(&self.url(prefix).await).await?;
        until("the second connection is there", async || locks.gives_hints()).await;
        Ok(locks)
    }
}

/// See [`LeastRights`].
#[derive(Debug)]
pub struct OneWithUsers(Server);

impl Deployment for OneWithUsers {
    fn shared() -> &'static OnceCell<Self> {
        static ONE: OnceCell<OneWithUsers> = OnceCell::const_new();
        &ONE
    }

    async fn start() -> Self {
        Self(Server::start())
    }

    /// Uses the page's line as it stands, except for the prefix, which is also the user's name.
    async fn url(&self, prefix: &str) -> String {
        Rights::of_the_docs().with_prefix(prefix).give([&self.0]).await;
        format!("redis://{prefix}:p@127.0.0.1:{}/", self.0.port())
    }
}

/// See [`Pool`].
#[derive(Debug)]
pub struct OneByPool(Server);

impl OneByPool {
    async fn pool(&self) -> bb8::Pool<RedisConnectionManager> {
        let manager = RedisConnectionManager::new(self.0.url()).expect("a URL");
        bb8::Pool::builder().max_size(4).build(manager).await.expect("the server is there")
    }
}

impl Deployment for OneByPool {
    fn shared() -> &'static OnceCell<Self> {
        static ONE: OnceCell<OneByPool> = OnceCell::const_new();
        &ONE
    }

    async fn start() -> Self {
        Self(Server::start())
    }

    async fn url(&self, _: &str) -> String {
        self.0.url()
    }

    async fn store(&self, prefix: &str, id: ClientId) -> Result<Arc<dyn Store>, LockError> {
        let (pool, settings) = (self.pool().await, settings(prefix));
        let store = RedisStore::connect_pool(pool, &settings, id, Handle::current()).await?;
        Ok(Arc::new(store))
    }

    async fn locks(&self, prefix: &str) -> Result<Locks, LockError> {
        Locks::builder().prefix(prefix).connect_pool(self.pool().await).await
    }
}

/// See [`Lazy`].
#[derive(Debug)]
pub struct OneLazily(Server);

impl Deployment for OneLazily {
    fn shared() -> &'static OnceCell<Self> {
        static ONE: OnceCell<OneLazily> = OnceCell::const_new();
        &ONE
    }

    async fn start() -> Self {
        Self(Server::start())
    }

    async fn url(&self, _: &str) -> String {
        self.0.url()
    }

    async fn locks(&self, prefix: &str) -> Result<Locks, LockError> {
        let builder = builder(prefix);
        builder.connect_lazy(&self.0.url())
    }
}

impl Deployment for cluster::Cluster {
    fn shared() -> &'static OnceCell<Self> {
        static CLUSTER: OnceCell<cluster::Cluster> = OnceCell::const_new();
        &CLUSTER
    }

    async fn start() -> Self {
        // No replica must take over because the machine is busy. But the longer this time is, the
        // later the servers find each other.
        Self::start_with(1, Duration::from_secs(5)).await
    }

    async fn url(&self, _: &str) -> String {
        self.url()
    }
}

impl Deployment for sentinel::Sentinel {
    fn shared() -> &'static OnceCell<Self> {
        static SENTINEL: OnceCell<sentinel::Sentinel> = OnceCell::const_new();
        &SENTINEL
    }

    async fn start() -> Self {
        // As above.
        Self::start(1, Duration::from_secs(5)).await
    }

    async fn url(&self, _: &str) -> String {
        self.url()
    }
}

/// A store on masters that count at once, because they are new.
async fn quorum(
    masters: &Masters,
    prefix: &str,
    id: ClientId,
) -> Result<Arc<dyn Store>, LockError> {
    let settings = settings(prefix);
    let mut nodes = Vec::new();
    for url in masters.urls() {
        let member =
            RedisStore::connect_quorum_server(&url, &settings, id, Handle::current()).await?;
        nodes.push((member.server, Arc::new(member.store) as Arc<dyn Store>));
    }
    Ok(Arc::new(quorum::Quorum::new(nodes, Duration::from_secs(60), Handle::current())))
}

/// Runs each script once on each server. A server that lacks a script gets it with the next
/// command; so later commands of the lock overtake that one there. The majority outvotes such a
/// server, but a case that asks for a reason, or for the time left, may hear it.
async fn load_scripts(masters: &Masters) {
    for node in masters.nodes() {
        // Some are dead.
        if node.try_redis().await.is_err() {
            continue;
        }
        let store = redis_store(&node.url()).await;
        for kind in [Kind::Mutex, Kind::Read, Kind::Write] {
            let request = request("scripts", kind, SOON);
            let voted = store.vote(&request, Duration::ZERO).await;
            assert!(matches!(voted, Ok(Attempt::Granted { .. })), "{voted:?}");
            assert!(store.repair(&request, 1, Duration::ZERO).await.is_ok());
            assert!(store.renew(&request).await.is_ok());
            assert!(store.release(&request, Duration::ZERO).await.is_ok());
            assert!(store.cancel(&request).await.is_ok());
        }
    }
}

/// The time-out of a server: the machine may be busy.
const SOON: Duration = Duration::from_secs(5);

fn builder(prefix: &str) -> LocksBuilder {
    Locks::builder().prefix(prefix).command_timeout(SOON).connect_timeout(SOON)
}

fn settings(prefix: &str) -> Settings {
    Settings { command_timeout: SOON, connect_timeout: SOON, ..Settings::new(prefix) }
}

macro_rules! masters {
    ($($name:ident: $count:literal, and dead are $dead:expr;)*) => {$(
        #[doc = concat!("So many masters, of which these are dead: ", stringify!($dead))]
        #[derive(Debug)]
        pub struct $name(Masters);

        impl Deployment for $name {
            /// Another majority gives another, and a greater one.
            const REPEATS_TOKENS: bool = false;

            fn shared() -> &'static OnceCell<Self> {
                static MASTERS: OnceCell<$name> = OnceCell::const_new();
                &MASTERS
            }

            async fn start() -> Self {
                let masters = Masters::start($count);
                for dead in $dead {
                    masters.kill(dead).await;
                }
                load_scripts(&masters).await;
                Self(masters)
            }

            async fn url(&self, _: &str) -> String {
                unreachable!("each has its own")
            }

            async fn store(&self, prefix: &str, id: ClientId) -> Result<Arc<dyn Store>, LockError> {
                quorum(&self.0, prefix, id).await
            }

            async fn locks(&self, prefix: &str) -> Result<Locks, LockError> {
                let id = ClientId::random();
                Ok(Locks::over_as(self.store(prefix, id).await?, id))
            }
        }
    )*};
}

masters! {
    Three: 3, and dead are [0_usize; 0];
    Five: 5, and dead are [0_usize; 0];
    FiveTwoDead: 5, and dead are [1, 4];
}
