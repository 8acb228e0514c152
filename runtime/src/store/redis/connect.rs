//! Connects: from a URL or a pool to a store.

use std::sync::Arc;

use bb8_redis::RedisConnectionManager;
use bb8_redis::bb8::Pool;
use futures_util::FutureExt;
use futures_util::future::try_join_all;
use redis::{ConnectionInfo, RedisError};
use tokio::runtime::Handle;

use super::address::{Address, no_cluster, not_connected};
use super::connection::Connection;
use super::connector::Connector;
use super::encode::Encoder;
use super::endpoint::Endpoint;
use super::hints::HintReceiver;
use super::lazy::LazyStore;
use super::replicated::Replicated;
use super::secret::Secret;
use super::settings::Settings;
use super::single_server::SingleServer;
use super::store::RedisStore;
use super::{address, errors, usable};
use crate::core::error::LockError;
use crate::store::{ClientId, Store};

impl RedisStore {
    /// Connects to the server, sentinels or cluster of a URL, and keeps all connections on
    /// `runtime`. They also carry the hints for waiters of `client`.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOption`] for an invalid URL or setting, [`LockError::Store`] if the
    /// server can't be reached or refuses.
    pub async fn connect(
        url: &str,
        settings: &Settings,
        client: ClientId,
        runtime: Handle,
    ) -> Result<Self, LockError> {
        Self::open(url, settings, client, runtime, Asks::IfUsable).await
    }

    async fn open(
        url: &str,
        settings: &Settings,
        client: ClientId,
        runtime: Handle,
        asks: Asks,
    ) -> Result<Self, LockError> {
        settings.check()?;
        let endpoint = match address::read(url)? {
            Address::One(endpoint) => *endpoint,
            Address::Cluster(nodes) => return open_cluster(nodes, settings, client, runtime).await,
        };
        let secret = Secret::random();
        match open(endpoint.clone(), settings, client, &runtime, (secret, asks)).await? {
            Some(server) => {
                let replicated = settings.sync_replicas.map(|replicas| {
                    // The connections for grants carry no hints.
                    let hints = HintReceiver::without_channel(client);
                    let connector = Connector::new(endpoint, settings.clone(), hints, false)
                        .beside(server.first_connection().connector());
                    Replicated::new(connector, replicas, runtime)
                });
                Ok(on_server(server, settings, replicated, secret))
            }
            // The server is a node of a cluster: connect to all of it.
            None => match endpoint {
                Endpoint::Fixed(node) if cfg!(feature = "cluster") => {
                    address::check_node(&node)?;
                    open_cluster(vec![node], settings, client, runtime).await
                }
                _ => Err(no_cluster()),
            },
        }
    }

    /// Connects in the background. Until then, commands wait for as long as they may take.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOption`] for an invalid URL or setting.
    pub fn connect_lazy(
        url: &str,
        settings: &Settings,
        client: ClientId,
        runtime: Handle,
    ) -> Result<LazyStore, LockError> {
        settings.check()?;
        let server = match address::read(url)? {
            Address::One(endpoint) => endpoint.describe(),
            Address::Cluster(nodes) => {
                settings.check_no_sync("on a cluster")?;
                describe(&nodes)
            }
        };
        let (url, settings) = (url.to_owned(), settings.clone());
        let (command_timeout, own) = (settings.command_timeout, runtime.clone());
        let connect = move || {
            let (url, settings, runtime) = (url.clone(), settings.clone(), own.clone());
            async move {
                let store = Self::open(&url, &settings, client, runtime, Asks::Nothing).await?;
                Ok(Arc::new(store) as Arc<dyn Store>)
            }
        };
        Ok(LazyStore::start(server, command_timeout, None, runtime, connect))
    }

    /// Connects by the manager of the user's own pool. Its connections carry no hints.
    ///
    /// # Errors
    ///
    /// As for [`connect`](Self::connect).
    pub async fn connect_pool(
        pool: Pool<RedisConnectionManager>,
        settings: &Settings,
        client: ClientId,
        runtime: Handle,
    ) -> Result<Self, LockError> {
        settings.check()?;
        settings.check_no_sync("with your own pool")?;
        let secret = Secret::random();
        let own = (secret, Asks::IfUsable);
        match open(Endpoint::ExternalPool(pool), settings, client, &runtime, own).await? {
            Some(server) => Ok(on_server(server, settings, None, secret)),
            None => Err(LockError::InvalidOption {
                option: "pool",
                problem: "it leads to one node of a cluster; connect by a URL, with the feature \
                          `cluster`"
                    .to_owned(),
            }),
        }
    }
}

/// What a new client asks its server for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// Whether it can keep locks at all: it is an error if it can't.
    IfUsable,
    /// Nothing: a client that connects in the background learns it from its first command.
    Nothing,
}

fn on_server(
    server: SingleServer,
    settings: &Settings,
    replicated: Option<Replicated>,
    secret: Secret,
) -> RedisStore {
    let encoder = Encoder::new(&settings.prefix, secret);
    RedisStore::new(Arc::new(server), encoder, settings, replicated)
}

/// Opens the connections to one server. `None` if it is a node of a cluster.
async fn open(
    endpoint: Endpoint,
    settings: &Settings,
    client: ClientId,
    runtime: &Handle,
    (secret, asks): (Secret, Asks),
) -> Result<Option<SingleServer>, LockError> {
    let mut hints = HintReceiver::new(client, &settings.prefix, secret);
    hints.confirms_offers = settings.sync_replicas.is_some();
    let hints = Arc::new(hints);
    let (server, settings) = (endpoint.describe(), settings.clone());
    let opening = async move {
        let connector = |carries_hints| {
            Connector::new(endpoint.clone(), settings.clone(), hints.clone(), carries_hints)
        };
        // The first connection carries the hints. The others are not made before it is clear
        // that it leads to the right place.
        let first = Connection::open(connector(true)).await?;
        if first.server().is_cluster_node() {
            return Ok::<_, RedisError>(None);
        }
        if asks == Asks::IfUsable {
            usable::check(&first, settings.connect_timeout).await?;
        }
        let another = || connector(false).beside(first.connector());
        let more = (1..settings.connections).map(|_| Connection::open(another()));
        let more = try_join_all(more).await?;
        let mut all = vec![first];
        all.extend(more);
        Ok(Some(all))
    };
    let opened = runtime.spawn(opening.boxed()).await.map_err(|_| LockError::ShutDown)?;
    let opened = opened.map_err(|error| not_connected(server, errors::not_run(error)))?;
    Ok(opened.map(|connections| SingleServer::start(connections, runtime)))
}

/// Connects to a cluster by some of its nodes.
#[cfg(feature = "cluster")]
async fn open_cluster(
    nodes: Vec<ConnectionInfo>,
    settings: &Settings,
    client: ClientId,
    runtime: Handle,
) -> Result<RedisStore, LockError> {
    use super::cluster::Cluster;

    settings.check_no_sync("on a cluster")?;
    if settings.counts_after.is_some() {
        return Err(LockError::InvalidOption {
            option: "url",
            problem: "it leads to a cluster, which is no server of a quorum; write \
                      redis://host:port of single servers"
                .to_owned(),
        });
    }
    let names = describe(&nodes);
    let secret = Secret::random();
    let opening = Cluster::open(nodes, client, settings.clone(), runtime.clone(), secret);
    let opened = runtime.spawn(opening).await.map_err(|_| LockError::ShutDown)?;
    let cluster = opened.map_err(|error| not_connected(names, error))?;
    let encoder = Encoder::for_cluster(&settings.prefix, secret);
    Ok(RedisStore::new(Arc::new(cluster), encoder, settings, None))
}

#[cfg(not(feature = "cluster"))]
#[expect(clippy::unused_async, reason = "the other one waits")]
async fn open_cluster(
    _: Vec<ConnectionInfo>,
    _: &Settings,
    _: ClientId,
    _: Handle,
) -> Result<RedisStore, LockError> {
    Err(no_cluster())
}

fn describe(nodes: &[ConnectionInfo]) -> String {
    let names: Vec<_> = nodes.iter().map(|info| info.addr().to_string()).collect();
    names.join(", ")
}
