//! Making a connection: to whom, by which protocol, and how soon after the last.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bb8_redis::bb8::{self, ManageConnection};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, ConnectionInfo, ErrorKind, ProtocolVersion, PushInfo, PushKind,
    RedisError, RedisResult, Value,
};
use tokio::sync::SetOnce;
use tokio::time::{sleep, timeout};

use super::connection::Link;
use super::endpoint::Place;
use super::hints::Ears;
use super::lock;
use super::server_state::{Health, Shared};
use super::settings::Settings;
use super::wire::Wire;

/// The least time from one connection to the next.
const PAUSE: Duration = Duration::from_millis(100);

/// Makes connections for the pool, and knows the broken ones.
#[derive(Clone, Debug)]
pub(super) struct Manager {
    pub(super) place: Place,
    pub(super) shared: Arc<Shared>,
    pub(super) flags: Arc<Flags>,
    /// Hints come by its connections.
    pub(super) hears: bool,
    /// It looks at the server for what is to be warned of.
    pub(super) looks: bool,
}

#[derive(Debug, Default)]
pub(super) struct Flags {
    /// The server does not speak RESP3, or the URL says that it should not.
    resp2: SetOnce<()>,
    /// It was said that there will be no hints.
    is_silence_told: AtomicBool,
    /// It was looked at for what is to be warned of.
    pub(super) is_looked_at: AtomicBool,
}

impl Manager {
    pub(super) fn new(place: Place, settings: Settings, ears: Arc<Ears>, hears: bool) -> Self {
        let is_resp2 = place.protocol().is_some_and(|protocol| !protocol.supports_resp3());
        let resp2 = SetOnce::new_with(is_resp2.then_some(()));
        Self {
            shared: Shared::new(place.describe(), settings, ears),
            place,
            flags: Arc::new(Flags { resp2, ..Flags::default() }),
            hears,
            looks: hears,
        }
    }

    fn is_resp2(&self) -> bool {
        self.flags.resp2.initialized()
    }

    /// Returns when hints do not come on the connection of the commands.
    pub(super) async fn until_resp2(&self) {
        self.flags.resp2.wait().await;
    }

    /// The server as it is found now, by RESP2.
    pub(super) async fn find_by_resp2(&self) -> RedisResult<ConnectionInfo> {
        Ok(by_resp2(self.find().await?))
    }

    /// Where the server is now. Sentinels get a part of the time that there is to connect.
    async fn find(&self) -> RedisResult<ConnectionInfo> {
        self.place.find(self.shared.settings.connect_timeout / 3).await
    }

    /// Connects, by RESP3 if the server speaks it.
    async fn open(&self, info: ConnectionInfo, health: &Arc<Health>) -> RedisResult<Wire> {
        // Whatever is sent has a time-out of its own.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.shared.settings.connect_timeout))
            .set_response_timeout(None);
        if !self.is_resp2() {
            let (shared, health) = (self.shared.clone(), health.clone());
            let config = config.clone().set_push_sender(move |push: PushInfo| {
                match push.kind {
                    PushKind::Disconnection => shared.give_up(&health),
                    _ => shared.ears.take(&push),
                }
                Ok::<_, ()>(())
            });
            match Wire::connect(info.clone(), config).await {
                Err(error) if is_no_resp3(&error) => {}
                opened => return opened,
            }
        }
        let opened = Wire::connect(by_resp2(info), config).await?;
        if self.flags.resp2.set(()).is_ok() {
            tracing::info!(server = %self.shared.server, "the lock store does not speak RESP3; RESP2 will do");
        }
        Ok(opened)
    }

    async fn dial(&self) -> RedisResult<Link> {
        if let Place::Lent(pool) = &self.place {
            return self.borrow(pool).await;
        }
        let info = self.find().await?;
        let health = Arc::new(Health::new(self.hears, false));
        let server = info.addr().to_string();
        let connection = self.open(info, &health).await?;
        self.shared.address.send_if_modified(|known| {
            let has_moved = *known != server;
            known.clone_from(&server);
            has_moved
        });
        self.greet(connection, health, &server).await
    }

    /// Subscribes to the client's channel; without the right to, it goes on
    /// without hints.
    pub(super) async fn subscribe(
        &self,
        mut connection: MultiplexedConnection,
        health: &Arc<Health>,
    ) -> RedisResult<()> {
        if self.is_resp2() || !self.hears || matches!(self.place, Place::Lent(_)) {
            return Ok(());
        }
        let ears = &self.shared.ears;
        // Whoever may not publish tells nobody, and his like do not tell us. What
        // is said here is nothing that means anything.
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(&ears.channel).arg("");
        let mut same = connection.clone();
        let (subscribed, published) = tokio::join!(
            connection.subscribe(&ears.channel),
            publish.query_async::<Value>(&mut same)
        );
        match subscribed.and(published.map(drop)) {
            Ok(()) => ears.hear_by(Some(health.clone())),
            Err(error) if matches!(error.code(), Some("NOPERM" | "ERR")) => {
                ears.hear_by(None);
                self.tell_silence(&error);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Says once that hints are refused.
    pub(super) fn tell_silence(&self, error: &RedisError) {
        if !self.flags.is_silence_told.swap(true, Ordering::Relaxed) {
            let server = &self.shared.server;
            tracing::info!(%server, %error, "the lock store sends no hints, so who waits asks it often");
        }
    }
}

/// The same server by RESP2.
pub(super) fn by_resp2(info: ConnectionInfo) -> ConnectionInfo {
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
    info.set_redis_settings(settings)
}

/// Whether the server refused the protocol, and not the client.
fn is_no_resp3(error: &RedisError) -> bool {
    // Proxies have words of their own for a command that they do not know.
    let is_unknown = matches!(error.code(), Some("NOPROTO" | "ERR")) && !is_full(error);
    is_unknown || error.kind() == ErrorKind::RESP3NotSupported
}

/// Whether the server has no room for another client, for now.
pub(super) fn is_full(error: &RedisError) -> bool {
    error.detail().is_some_and(|text| text.contains("max number of clients"))
}

impl ManageConnection for Manager {
    type Connection = Link;
    type Error = RedisError;

    async fn connect(&self) -> Result<Link, RedisError> {
        // A server that refuses everything, such as a replica, is not dialled again
        // and again by all who wait.
        let made = *lock(&self.shared.made);
        if let Some(made) = made {
            sleep(PAUSE.saturating_sub(made.elapsed())).await;
        }
        let silent = || (ErrorKind::Io, "no answer in time", self.shared.server.clone()).into();
        let limit = self.shared.settings.connect_timeout;
        let link = timeout(limit, self.dial()).await.unwrap_or_else(|_| Err(silent()))?;
        // Whatever a later failure is, this is not its cause any more.
        *lock(&self.shared.last_error) = None;
        *lock(&self.shared.made) = Some(Instant::now());
        *lock(&self.shared.due) = None;
        Ok(link)
    }

    async fn is_valid(&self, _: &mut Link) -> Result<(), RedisError> {
        Ok(())
    }

    fn has_broken(&self, link: &mut Link) -> bool {
        link.is_given_up()
    }
}

impl bb8::ErrorSink<RedisError> for Manager {
    fn sink(&self, error: RedisError) {
        *lock(&self.shared.last_error) = Some(error);
    }

    fn boxed_clone(&self) -> Box<dyn bb8::ErrorSink<RedisError>> {
        Box::new(self.clone())
    }
}
