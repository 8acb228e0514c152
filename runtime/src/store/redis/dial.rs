//! Making a connection: the protocol, the handshake, and what is left to be done
//! about the connections before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bb8_redis::bb8::{self, ManageConnection};
use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, ErrorKind, ProtocolVersion, PushInfo,
    PushKind, RedisError, RedisResult, Value,
};
use tokio::sync::SetOnce;
use tokio::time::{sleep, timeout};

use super::connection::{CONNECT, Link};
use super::health::{Health, Name, Shared};
use super::hints::Ears;
use super::{lock, script};

/// The least time from one connection to the next.
const PAUSE: Duration = Duration::from_millis(100);

/// Makes connections for the pool, and knows the broken ones.
#[derive(Clone, Debug)]
pub(super) struct Manager {
    client: Client,
    /// The same server by RESP2, where hints need a connection of their own.
    by_resp2: Client,
    pub(super) shared: Arc<Shared>,
    flags: Arc<Flags>,
}

#[derive(Debug)]
struct Flags {
    /// The server does not speak RESP3, or the URL says that it should not.
    resp2: SetOnce<()>,
    /// It was said that there will be no hints.
    is_silence_told: AtomicBool,
}

impl Manager {
    pub(super) fn new(info: ConnectionInfo, ears: Ears) -> RedisResult<Self> {
        let shared = Shared::new(info.addr().to_string(), ears);
        let protocol = info.redis_settings().protocol();
        let by_resp2 = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
        let flags = Flags {
            resp2: SetOnce::new_with((!protocol.supports_resp3()).then_some(())),
            is_silence_told: AtomicBool::new(false),
        };
        Ok(Self {
            by_resp2: Client::open(info.clone().set_redis_settings(by_resp2))?,
            client: Client::open(info)?,
            shared,
            flags: Arc::new(flags),
        })
    }

    fn is_resp2(&self) -> bool {
        self.flags.resp2.initialized()
    }

    /// Returns when hints do not come on the connection of the commands.
    pub(super) async fn until_resp2(&self) {
        self.flags.resp2.wait().await;
    }

    /// The server, by RESP2.
    pub(super) fn by_resp2(&self) -> &Client {
        &self.by_resp2
    }

    /// Connects, by RESP3 if the server speaks it.
    async fn open(&self, health: &Arc<Health>) -> RedisResult<MultiplexedConnection> {
        // Whatever is sent has a time-out of its own.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
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
            match self.client.get_multiplexed_async_connection_with_config(&config).await {
                Err(error) if is_no_resp3(&error) => {}
                opened => return opened,
            }
        }
        let opened = self.by_resp2.get_multiplexed_async_connection_with_config(&config).await?;
        if self.flags.resp2.set(()).is_ok() {
            tracing::info!(server = %self.shared.server, "the lock store does not speak RESP3; RESP2 will do");
        }
        Ok(opened)
    }

    async fn dial(&self) -> RedisResult<Link> {
        let health = Arc::new(Health::default());
        let connection = self.open(&health).await?;
        // All of it in one round trip.
        let ask = |command: Cmd| {
            let mut connection = connection.clone();
            async move { command.query_async::<Value>(&mut connection).await }
        };
        let info = ask(redis::cmd("CLIENT").arg("INFO").clone());
        // Bytes of a connection that was given up may still be on their way,
        // and would act after everything that is sent on this one.
        let abandoned = lock(&self.shared.abandoned).clone();
        let kills = join_all(abandoned.iter().map(|Name { id, address }| {
            ask(redis::cmd("CLIENT").arg(&["KILL", "ID", id, "ADDR", address]).clone())
        }));
        // Before anything is asked, so that no answer to it is missed.
        let subscribed = self.subscribe(connection.clone(), &health);
        // Loaded so, a script is not forgotten to make room for others. Where it
        // is not allowed, each script is loaded by its first EVAL.
        let loads = join_all(
            script::ALL
                .iter()
                .map(|script| ask(redis::cmd("SCRIPT").arg("LOAD").arg(script.body).clone())),
        );
        let (info, kills, subscribed, _) = tokio::join!(info, kills, subscribed, loads);
        subscribed?;
        match info {
            Ok(info) => {
                if let Some(name) = Name::read(&redis::from_redis_value::<String>(info)?) {
                    let _ = health.name.set(name); // it has none yet
                }
            }
            // Not allowed, or taken away by who runs the server.
            Err(error) if matches!(error.code(), Some("NOPERM" | "ERR")) => {}
            Err(error) => return Err(error),
        }
        let is_done = |kill: &RedisResult<Value>| match kill {
            Ok(_) => true,
            Err(error) => error.code().is_some(),
        };
        let done: Vec<_> = abandoned
            .iter()
            .zip(&kills)
            .filter(|(_, kill)| is_done(kill))
            .map(|(name, _)| name)
            .collect();
        lock(&self.shared.abandoned).retain(|old| !done.contains(&old));
        Ok(Link::new(connection, health))
    }

    /// Subscribes to the client's channel; without the right to, it goes on
    /// without hints.
    async fn subscribe(
        &self,
        mut connection: MultiplexedConnection,
        health: &Arc<Health>,
    ) -> RedisResult<()> {
        if self.is_resp2() {
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
            Err(error) if error.code().is_some() => {
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
        let link = timeout(CONNECT, self.dial()).await.unwrap_or_else(|_| Err(silent()))?;
        // Whatever a later failure is, this is not its cause any more.
        *lock(&self.shared.last_error) = None;
        *lock(&self.shared.made) = Some(Instant::now());
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
