//! A connection that is made again when it is lost, by a bb8 pool, and shared by all commands.
//!
//! One link carries many commands at a time. So it is cloned and put back at once, and the
//! pool never checks it: that would double the round trips. In exchange our manager, unlike
//! bb8-redis' own, knows when a link is broken: the commands tell it, or the driver does when
//! the link is closed.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bb8_redis::bb8::{ManageConnection, Pool, RunError};
use futures_util::FutureExt;
use redis::{RedisError, RedisResult};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::sleep_until;

use super::connector::Connector;
use super::errors::LinkOutcome;
use super::link::Link;
use super::server_state::ServerState;
use super::{errors, handshake, subscriber};
use crate::core::sync::lock;
use crate::store::{Hint, StoreError};
use crate::system;

/// A connection to one server: one [`Link`] at a time, replaced when it is lost. A client
/// with several connections has one of these for each.
pub(super) struct Connection {
    pool: Pool<Connector>,
    connector: Connector,
    /// The last link of the pool, so that most commands do without the pool.
    last: Mutex<Option<Link>>,
    /// A task makes it again although no command needs it.
    is_recovering: AtomicBool,
    /// The task that receives hints by RESP2.
    subscriber: Option<AbortHandle>,
}

impl Connection {
    /// Makes the first link, and fails if that fails.
    pub(super) async fn open(connector: Connector) -> RedisResult<Self> {
        match Self::open_or_later(connector).await {
            (connection, None) => Ok(connection),
            (_, Some(error)) => Err(error),
        }
    }

    /// Makes the first link. If that fails, returns the error too, and makes one later.
    pub(super) async fn open_or_later(connector: Connector) -> (Self, Option<RedisError>) {
        let first = connector.connect().await;
        let connection = Self::later(connector);
        let error = match first {
            Ok(first) => {
                // It replaces no lost link: the first command does not pause before it.
                *lock(&connection.last) = Some(first.clone());
                // The pool is empty, so there is room; if not, it makes its own.
                let _ = connection.pool.add(first);
                None
            }
            Err(error) => Some(error),
        };
        (connection, error)
    }

    /// Makes the first link when a command needs it.
    pub(super) fn later(connector: Connector) -> Self {
        let pool = Pool::builder()
            .max_size(1)
            .test_on_check_out(false)
            .max_lifetime(None)
            .idle_timeout(None)
            .connection_timeout(connector.server.settings.connect_timeout)
            .error_sink(Box::new(connector.clone()))
            .build_unchecked(connector.clone());
        let subscriber = connector.carries_hints.then(|| {
            let connector = connector.clone();
            tokio::spawn(async move { subscriber::run(&connector).await }.boxed()).abort_handle()
        });
        Self {
            pool,
            connector,
            last: Mutex::default(),
            is_recovering: AtomicBool::default(),
            subscriber,
        }
    }

    /// A link that is not known to be broken, for a command with this limit.
    pub(super) async fn link(&self, limit: Duration) -> Result<Link, StoreError> {
        if let Some(link) = self.ready_link() {
            return Ok(link);
        }
        sleep_until(self.server().reconnect_at(system::now(), limit).into()).await;
        loop {
            match self.pool.get().await {
                Ok(link) if link.is_abandoned() => {} // put back, the pool drops it
                Ok(link) => {
                    *lock(&self.last) = Some(link.clone());
                    return Ok(link.clone());
                }
                Err(RunError::User(error)) => return Err(errors::not_run(error)),
                Err(RunError::TimedOut) => return Err(self.server().no_connection()),
            }
        }
    }

    /// The link that is there and not known to be broken.
    pub(super) fn ready_link(&self) -> Option<Link> {
        let mut last = lock(&self.last);
        // An abandoned link is closed when its last clone is dropped.
        last.take_if(|link| link.is_abandoned());
        last.clone()
    }

    /// Makes a lost link again in the background, as the next command would; or subscribes again
    /// on one whose subscription the server has refused.
    pub(super) fn recover(self: &Arc<Self>, runtime: &Handle) {
        let link = self.ready_link();
        let is_well = link.is_some() && !self.server().hints.is_to_ask_again();
        if is_well || self.is_recovering.swap(true, Ordering::Relaxed) {
            return;
        }
        let connection = self.clone();
        runtime.spawn(
            async move {
                let limit = connection.server().settings.command_timeout;
                // A waiter asks for either again.
                let _ = match link {
                    Some(link) => connection.subscribe_again(&link, limit).await.map_err(drop),
                    None => connection.link(limit).await.map(drop).map_err(drop),
                };
                connection.is_recovering.store(false, Ordering::Relaxed);
            }
            .boxed(),
        );
    }

    async fn subscribe_again(&self, link: &Link, limit: Duration) -> RedisResult<()> {
        let hints = &self.server().hints;
        // If there is no answer, not at once again either.
        hints.note_asked_again();
        let subscribed = handshake::subscribe(&self.connector, &link.wire);
        let subscribed = errors::in_time(limit, subscribed).await?;
        // The answer may come late, when another link is subscribed.
        if self.ready_link().is_some_and(|it| Arc::ptr_eq(&it.state, &link.state)) {
            hints.note(subscribed, &link.state);
            if hints.is_open() {
                hints.deliver(Hint::Missed);
            }
        }
        Ok(())
    }

    pub(super) fn connector(&self) -> &Connector {
        &self.connector
    }

    pub(super) fn server(&self) -> &ServerState {
        &self.connector.server
    }

    /// Notes the outcome of a command that was sent on the link.
    pub(super) fn record(&self, link: &Link, sent: Instant, outcome: LinkOutcome) {
        self.server().record(&link.state, sent, outcome);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(subscriber) = &self.subscriber {
            subscriber.abort();
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("server", &self.server().name).finish_non_exhaustive()
    }
}
