//! Connecting: from what a user gives to a store.

use std::sync::Arc;

use bb8_redis::RedisConnectionManager;
use bb8_redis::bb8::Pool;
use futures_util::future::try_join_all;
use redis::RedisError;
use tokio::runtime::Handle;

use super::address::{Address, not_connected};
use super::batcher::Pumps;
#[cfg(feature = "cluster")]
use super::cluster::Cluster;
use super::connection::Connections;
use super::endpoint::Place;
use super::hints::Ears;
use super::manager::Manager;
use super::replicated::Synced;
use super::{Lazy, RedisStore, Servers, Settings, address, errors};
use crate::core::error::LockError;
use crate::store::{ClientId, Store};

impl RedisStore {
    /// Connects, and keeps all connections on `runtime`; hints for the waiters of
    /// `client` come by them.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOption`] for a URL or a setting that makes no sense,
    /// [`LockError::Store`] if the server can't be reached or refuses.
    pub async fn connect(
        url: &str,
        settings: &Settings,
        client: ClientId,
        runtime: Handle,
    ) -> Result<Self, LockError> {
        settings.check()?;
        match address::read(url)? {
            Address::One(place) => {
                let synced = settings.sync_replicas.map(|how| {
                    // Nothing is heard by these.
                    let ears = Arc::new(Ears::new(client, String::new()));
                    let manager = Manager::new((*place).clone(), settings.clone(), ears, false);
                    Arc::new(Synced::new(manager, how, runtime.clone()))
                });
                let pumps = open((*place).clone(), settings, client, &runtime).await?;
                match pumps {
                    Some(pumps) => {
                        let store = Self::on(Servers::One(Arc::new(pumps)), settings);
                        Ok(Self { synced, ..store })
                    }
                    #[cfg(not(feature = "cluster"))]
                    None => Err(address::no_cluster()),
                    #[cfg(feature = "cluster")]
                    None => Self::connect_node(*place, settings, client, runtime).await,
                }
            }
            #[cfg(feature = "cluster")]
            Address::Cluster(nodes) => Self::connect_nodes(nodes, settings, client, runtime).await,
        }
    }

    /// The same in the background: what is asked of it meanwhile waits, as long as a command
    /// may take.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOption`] for a URL or a setting that makes no sense.
    pub fn connect_lazy(
        url: &str,
        settings: &Settings,
        client: ClientId,
        runtime: Handle,
    ) -> Result<Lazy, LockError> {
        settings.check()?;
        let server = match address::read(url)? {
            Address::One(place) => place.describe(),
            #[cfg(feature = "cluster")]
            Address::Cluster(nodes) => {
                settings.check_no_sync("on a cluster")?;
                names(&nodes)
            }
        };
        let (url, settings) = (url.to_owned(), settings.clone());
        let (command_timeout, own) = (settings.command_timeout, runtime.clone());
        let connect = move || {
            let (url, settings, runtime) = (url.clone(), settings.clone(), own.clone());
            async move {
                let store = Self::connect(&url, &settings, client, runtime).await?;
                Ok(Arc::new(store) as Arc<dyn Store>)
            }
        };
        Ok(Lazy::start(server, command_timeout, None, runtime, connect))
    }

    /// The same by connections of a pool that others use too. No hints come by them.
    ///
    /// # Errors
    ///
    /// As of [`connect`](Self::connect).
    pub async fn connect_pool(
        pool: Pool<RedisConnectionManager>,
        settings: &Settings,
        client: ClientId,
        runtime: Handle,
    ) -> Result<Self, LockError> {
        settings.check()?;
        settings.check_no_sync("by a pool that others use too: WAIT would hold them up")?;
        match open(Place::Lent(pool), settings, client, &runtime).await? {
            Some(pumps) => Ok(Self::on(Servers::One(Arc::new(pumps)), settings)),
            None => Err(LockError::InvalidOption {
                option: "pool",
                problem: "it leads to one node of a cluster; connect by a URL, with the feature \
                          `cluster`"
                    .to_owned(),
            }),
        }
    }

    /// Connects to the cluster that a server is a node of.
    #[cfg(feature = "cluster")]
    async fn connect_node(
        place: Place,
        settings: &Settings,
        client: ClientId,
        runtime: Handle,
    ) -> Result<Self, LockError> {
        match place {
            Place::Fixed(node) => {
                address::check_node(&node)?;
                Self::connect_nodes(vec![node], settings, client, runtime).await
            }
            _ => Err(address::no_cluster()),
        }
    }

    #[cfg(feature = "cluster")]
    async fn connect_nodes(
        nodes: Vec<redis::ConnectionInfo>,
        settings: &Settings,
        client: ClientId,
        runtime: Handle,
    ) -> Result<Self, LockError> {
        settings.check_no_sync("on a cluster")?;
        if settings.counts_after.is_some() {
            return Err(LockError::InvalidOption {
                option: "url",
                problem: "it leads to a cluster, which is no server of a quorum; write \
                          redis://host:port of single servers"
                    .to_owned(),
            });
        }
        let names = names(&nodes);
        let opening = Cluster::open(nodes, client, settings.clone(), runtime.clone());
        let opened = runtime.spawn(opening).await.map_err(|_| LockError::ShutDown)?;
        let opened = opened.map_err(|error| not_connected(names, error))?;
        Ok(Self::on(Servers::Cluster(Arc::new(opened)), settings))
    }

    pub(super) fn on(servers: Servers, settings: &Settings) -> Self {
        let wake = format!("{}:wake:", settings.prefix).into();
        Self {
            servers,
            prefix: settings.prefix.as_str().into(),
            wake,
            command_timeout: settings.command_timeout,
            synced: None,
        }
    }
}

#[cfg(feature = "cluster")]
fn names(nodes: &[redis::ConnectionInfo]) -> String {
    let names: Vec<_> = nodes.iter().map(|info| info.addr().to_string()).collect();
    names.join(", ")
}

/// Opens the connections to one server; none if it is a node of a cluster.
async fn open(
    place: Place,
    settings: &Settings,
    client: ClientId,
    runtime: &Handle,
) -> Result<Option<Pumps>, LockError> {
    let ears = Ears::new(client, format!("{}:wake:{client}", settings.prefix));
    let ears = Arc::new(ears.wary(settings.sync_replicas.is_some()));
    let what = place.describe();
    let settings = settings.clone();
    let opening = async move {
        // Hints come by the first, from which more are not made until it is clear that
        // they lead to the right place.
        let manager = |hears| Manager::new(place.clone(), settings.clone(), ears.clone(), hears);
        let first = Connections::open(manager(true)).await?;
        if first.shared().is_of_cluster() {
            return Ok::<_, RedisError>(None);
        }
        let more = (1..settings.connections).map(|_| Connections::open(manager(false)));
        let mut all = vec![first];
        all.extend(try_join_all(more).await?);
        Ok(Some(all))
    };
    let opened = runtime.spawn(opening).await.map_err(|_| LockError::ShutDown)?;
    let opened = opened.map_err(|error| not_connected(what, errors::not_run(error)))?;
    Ok(opened.map(|connections| Pumps::start(connections, runtime)))
}
