//! Connecting to one server of several: one that is not there now may be there later.

use std::sync::Arc;

use futures_util::future::join_all;
use redis::RedisError;
use tokio::runtime::Handle;

use super::address::{Address, not_connected};
use super::batcher::Pumps;
use super::connection::Connections;
use super::endpoint::Place;
use super::hints::Ears;
use super::manager::Manager;
use super::{RedisStore, Servers, Settings, address, errors};
use crate::core::error::LockError;
use crate::store::ClientId;

/// A server of several, connected to or not.
#[derive(Debug)]
pub struct Member {
    /// Its host and port.
    pub server: String,
    /// The store on it, which connects when it can.
    pub store: RedisStore,
    /// Why it could not be connected to, if so.
    pub error: Option<LockError>,
    /// Why it grants nothing yet, if so.
    pub counts_not_yet: Option<String>,
    /// What tells this start of the server from any other, if it says so.
    pub run: Option<String>,
}

impl RedisStore {
    /// What a server that is to be one of several is called.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOption`] for a URL or a setting that makes no sense.
    pub fn name_of_member(url: &str, settings: &Settings) -> Result<String, LockError> {
        place_of_member(url, settings).map(|place| place.describe())
    }

    /// Connects to a server that is one of several. No hints come from it.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOption`] for a URL or a setting that makes no sense, and for a
    /// server that does not stand alone.
    pub async fn connect_member(
        url: &str,
        settings: &Settings,
        client: ClientId,
        runtime: Handle,
    ) -> Result<Member, LockError> {
        let place = place_of_member(url, settings)?;
        let own = Settings { is_member: true, ..settings.clone() };
        let server = place.describe();
        let opening = async move {
            let ears = Arc::new(Ears::new(client, String::new()));
            let managers = (0..own.connections).map(|nth| Manager {
                looks: nth == 0,
                ..Manager::new(place.clone(), own.clone(), ears.clone(), false)
            });
            let (connections, mut errors): (Vec<_>, Vec<_>) =
                join_all(managers.map(Connections::open_or_later)).await.into_iter().unzip();
            let error = errors.swap_remove(0);
            let link = if error.is_none() {
                connections[0].get(own.connect_timeout).await.ok()
            } else {
                None
            };
            let why = link.and_then(|it| connections[0].shared().why_not_to_grant(&it.health));
            (connections, error, why)
        };
        let opened = runtime.spawn(opening).await;
        let (connections, error, counts_not_yet): (Vec<Connections>, Option<RedisError>, _) =
            opened.map_err(|_| LockError::ShutDown)?;
        if connections[0].shared().is_of_cluster() {
            return Err(not_alone());
        }
        let run = connections[0].shared().run();
        let servers = Servers::One(Arc::new(Pumps::start(connections, &runtime)));
        let store = Self::on(servers, settings);
        let error = error.map(|error| not_connected(server.clone(), errors::not_run(error)));
        Ok(Member { server, store, error, counts_not_yet, run })
    }
}

fn place_of_member(url: &str, settings: &Settings) -> Result<Place, LockError> {
    settings.check()?;
    settings.check_no_sync("on a quorum, whose servers have no replicas")?;
    match address::read(url)? {
        Address::One(place) => match *place {
            fixed @ Place::Fixed(_) => Ok(fixed),
            Place::Sentinel(_) | Place::Lent(_) => Err(not_alone()),
        },
        #[cfg(feature = "cluster")]
        Address::Cluster(_) => Err(not_alone()),
    }
}

fn not_alone() -> LockError {
    LockError::InvalidOption {
        option: "url",
        problem: "a quorum is made of single servers that know nothing of each other: no \
                  cluster, no sentinels; write redis://host:port for each"
            .to_owned(),
    }
}
