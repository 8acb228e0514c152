//! Connects to one server of a quorum. A server that can't be reached may be reached later.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::join_all;
use redis::RedisError;
use tokio::runtime::Handle;

use super::address::{Address, not_connected};
use super::connection::Connection;
use super::connector::Connector;
use super::encode::Encoder;
use super::endpoint::Endpoint;
use super::hints::HintReceiver;
use super::settings::Settings;
use super::single_server::SingleServer;
use super::store::RedisStore;
use super::{address, errors};
use crate::core::error::LockError;
use crate::store::ClientId;

/// A server of a quorum, and how the first attempt to connect to it went.
#[derive(Debug)]
pub struct QuorumServer {
    /// Its host and port.
    pub server: String,
    /// The store on it, which connects as soon as it can.
    pub store: RedisStore,
    /// Why the first attempt failed, if so.
    pub error: Option<LockError>,
    /// Why it may grant nothing yet, if so.
    pub refusal_to_grant: Option<String>,
    /// The id of the server's start, if it reports one. No other server has the same.
    pub run_id: Option<String>,
}

impl RedisStore {
    /// The name of a quorum's server, from its URL.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOption`] for an invalid URL or setting.
    pub fn name_of_quorum_server(url: &str, settings: &Settings) -> Result<String, LockError> {
        endpoint(url, settings).map(|endpoint| endpoint.describe())
    }

    /// Connects to one server of a quorum. It sends no hints.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOption`] for an invalid URL or setting, and for a server that is part
    /// of a cluster or found by sentinels.
    pub async fn connect_quorum_server(
        url: &str,
        settings: &Settings,
        client: ClientId,
        runtime: Handle,
    ) -> Result<QuorumServer, LockError> {
        let endpoint = endpoint(url, settings)?;
        let own = Settings { is_member: true, ..settings.clone() };
        let server = endpoint.describe();
        let opening = async move {
            let hints = HintReceiver::without_channel(client);
            let connectors = (0..own.connections).map(|nth| Connector {
                checks_settings: nth == 0,
                ..Connector::new(endpoint.clone(), own.clone(), hints.clone(), false)
            });
            let (connections, mut errors): (Vec<_>, Vec<_>) =
                join_all(connectors.map(Connection::open_or_later)).await.into_iter().unzip();
            let error = errors.swap_remove(0);
            let link = if error.is_none() {
                connections[0].link(own.connect_timeout).await.ok()
            } else {
                None
            };
            let refusal = link.and_then(|it| connections[0].server().refusal_to_grant(&it.state));
            (connections, error, refusal)
        };
        let opened = runtime.spawn(opening.boxed()).await;
        let (connections, error, refusal_to_grant): (Vec<Connection>, Option<RedisError>, _) =
            opened.map_err(|_| LockError::ShutDown)?;
        if connections[0].server().is_cluster_node() {
            return Err(not_independent());
        }
        let run_id = connections[0].server().run_id();
        let transport = Arc::new(SingleServer::start(connections, &runtime));
        let encoder = Encoder::for_quorum_member(&settings.prefix);
        let store = Self::new(transport, encoder, settings, None);
        let error = error.map(|error| not_connected(server.clone(), errors::not_run(error)));
        Ok(QuorumServer { server, store, error, refusal_to_grant, run_id })
    }
}

fn endpoint(url: &str, settings: &Settings) -> Result<Endpoint, LockError> {
    settings.check()?;
    settings.check_no_sync("on a quorum, whose servers have no replicas")?;
    match address::read(url)? {
        Address::One(endpoint) => match *endpoint {
            fixed @ Endpoint::Fixed(_) => Ok(fixed),
            Endpoint::Sentinel(_) | Endpoint::ExternalPool(_) => Err(not_independent()),
        },
        Address::Cluster(_) => Err(not_independent()),
    }
}

fn not_independent() -> LockError {
    LockError::InvalidOption {
        option: "url",
        problem: "a quorum is made of single servers that know nothing of each other: no \
                  cluster, no sentinels; write redis://host:port for each"
            .to_owned(),
    }
}
