//! Hints on a cluster: a script may publish into its lock's own slot alone, so
//! that a client subscribes lock by lock, for as long as it waits.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::{ConnectionInfo, ErrorKind, ProtocolVersion, PushInfo, PushKind, RedisResult, Value};
use tokio::runtime::Handle;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio::time::{sleep, timeout};

use crate::store::redis::connection::Pauses;
use crate::store::redis::hints::Ears;
use crate::store::redis::settings::Settings;
use crate::store::redis::wire::Wire;
use crate::store::redis::{errors, lock};
use crate::store::{Hint, StoreError, Subscription};

/// Few enough for the driver: with some dozens of commands under way its connection to a
/// cluster may stand still for good (ARCHITECTURE.md, decision 66).
const TURNS: usize = 8;

/// A client's subscriptions on a cluster.
pub(in crate::store::redis) struct Hub {
    pub(in crate::store::redis) ears: Arc<Ears>,
    nodes: Vec<ConnectionInfo>,
    settings: Settings,
    /// Made when somebody first waits.
    connection: AsyncMutex<Option<ClusterConnection<Wire>>>,
    channels: Mutex<HashMap<String, Channel>>,
    /// So many commands are under way at a time.
    turns: Semaphore,
    /// The last try to subscribe failed.
    has_failed: AtomicBool,
    runtime: Handle,
}

/// The subscription for one lock.
#[derive(Default)]
struct Channel {
    /// How many wait for the lock.
    waiting: usize,
    /// How many confirmations are to come: one more means that the driver has
    /// subscribed again, on another connection.
    expected: usize,
    /// Locked while it changes.
    state: Arc<AsyncMutex<State>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Unsubscribed,
    /// A command was sent that was not answered.
    Unknown,
    Subscribed,
}

impl Hub {
    pub(in crate::store::redis) fn new(
        nodes: Vec<ConnectionInfo>,
        ears: Arc<Ears>,
        settings: Settings,
        runtime: Handle,
    ) -> Self {
        Self {
            ears,
            nodes,
            settings,
            connection: AsyncMutex::default(),
            channels: Mutex::default(),
            turns: Semaphore::new(TURNS),
            has_failed: AtomicBool::new(false),
            runtime,
        }
    }

    /// Whether hints can be expected.
    pub(in crate::store::redis) fn is_open(&self) -> bool {
        !self.has_failed.load(Ordering::Relaxed)
    }

    /// Subscribes for one who waits, to `wake` and the client's id; it goes on if
    /// the future is dropped.
    pub(in crate::store::redis) async fn attend(
        self: Arc<Self>,
        wake: String,
    ) -> Result<Subscription, StoreError> {
        let (hub, name) = (self.clone(), format!("{wake}{}", self.ears.client));
        let limit = self.settings.connect_timeout;
        let attending = self.runtime.spawn(async move {
            lock(&hub.channels).entry(name.clone()).or_default().waiting += 1;
            let attending = Attending { hub, name };
            let settled = timeout(limit, attending.hub.settle(&attending.name, false)).await;
            let failed = match settled {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(errors::in_cluster(errors::sort(error).1)),
                Err(_) => Some(errors::silent()),
            };
            attending.hub.has_failed.store(failed.is_some(), Ordering::Relaxed);
            match failed {
                None => Ok(Box::new(attending) as Subscription),
                Some(error) => Err(error),
            }
        });
        attending.await.unwrap_or_else(|_| Err(errors::shutdown()))
    }

    /// Subscribes to a channel that somebody waits at, and unsubscribes from one
    /// that nobody does. `is_lost`: the server has ended the subscription.
    async fn settle(self: &Arc<Self>, name: &str, is_lost: bool) -> RedisResult<()> {
        let Some(state) = lock(&self.channels).get(name).map(|it| it.state.clone()) else {
            return Ok(());
        };
        let mut state = state.lock().await;
        if is_lost {
            *state = State::Unknown;
        }
        let is_wanted = lock(&self.channels).get(name).is_some_and(|channel| channel.waiting > 0);
        if is_wanted && *state != State::Subscribed {
            *state = State::Unknown;
            self.subscribe(name).await?;
            *state = State::Subscribed;
        } else if !is_wanted && *state != State::Unsubscribed {
            let ending = async { self.connection().await?.sunsubscribe(name).await };
            let result = self.limited(ending).await;
            *state = State::Unsubscribed;
            self.forget(name);
            return result;
        } else if !is_wanted {
            self.forget(name);
        }
        Ok(())
    }

    /// Forgets a channel, unless somebody has come to wait.
    fn forget(&self, name: &str) {
        let mut channels = lock(&self.channels);
        if channels.get(name).is_some_and(|channel| channel.waiting == 0) {
            channels.remove(name);
        }
    }

    /// Subscribes again, for as long as somebody waits.
    async fn resubscribe(self: &Arc<Self>, name: &str) {
        let (mut result, mut pauses) = (self.settle(name, true).await, Pauses::default());
        while result.is_err() {
            self.has_failed.store(true, Ordering::Relaxed);
            sleep(pauses.next()).await;
            result = self.settle(name, false).await;
        }
        self.has_failed.store(false, Ordering::Relaxed);
        self.ears.tell(Hint::Missed);
    }

    async fn subscribe(self: &Arc<Self>, name: &str) -> RedisResult<()> {
        let mut connection = self.connection().await?;
        self.expect(name, 1);
        let result = self.limited(connection.ssubscribe(name)).await;
        if result.is_err() {
            self.expect(name, 0);
        }
        result
    }

    /// Waits for its turn, and for the answer, for a while: the driver waits for a node that
    /// is gone, and with many commands under way it may wait for itself.
    async fn limited(&self, answer: impl Future<Output = RedisResult<()>>) -> RedisResult<()> {
        let answer = async {
            let _turn = self.turns.acquire().await;
            answer.await
        };
        let silent = |_| Err((ErrorKind::Io, "no answer in time").into());
        timeout(self.settings.connect_timeout, answer).await.unwrap_or_else(silent)
    }

    fn expect(&self, name: &str, confirmations: usize) {
        if let Some(channel) = lock(&self.channels).get_mut(name) {
            channel.expected = confirmations;
        }
    }

    async fn connection(self: &Arc<Self>) -> RedisResult<ClusterConnection<Wire>> {
        let mut connection = self.connection.lock().await;
        if let Some(connection) = &*connection {
            return Ok(connection.clone());
        }
        let hub = Arc::downgrade(self);
        let take = move |push: PushInfo| {
            if let Some(hub) = hub.upgrade() {
                hub.take(&push);
            }
            Ok::<_, ()>(())
        };
        let client = self.builder().push_sender(take).build()?;
        let made = client.get_async_generic_connection::<Wire>().await?;
        *connection = Some(made.clone());
        Ok(made)
    }

    fn builder(&self) -> ClusterClientBuilder {
        let builder = ClusterClient::builder(self.nodes.iter().cloned())
            .use_protocol(ProtocolVersion::RESP3)
            .connection_timeout(self.settings.connect_timeout)
            .response_timeout(self.settings.connect_timeout)
            .retries(4)
            .min_retry_wait(10)
            .max_retry_wait(100);
        match self.nodes.first() {
            Some(node) => builder.tcp_settings(node.tcp_settings().clone()),
            None => builder,
        }
    }

    /// Subscribes to everything again, on new connections.
    pub(in crate::store::redis) fn renew(self: &Arc<Self>) {
        let hub = self.clone();
        self.runtime.spawn(async move {
            if hub.connection.lock().await.take().is_none() {
                return;
            }
            let names: Vec<_> = lock(&hub.channels).keys().cloned().collect();
            join_all(names.iter().map(|name| hub.resubscribe(name))).await;
        });
    }

    /// Takes what the driver was pushed.
    fn take(self: &Arc<Self>, push: &PushInfo) {
        let Some(Value::BulkString(name)) = push.data.first() else { return };
        let Ok(name) = str::from_utf8(name) else { return };
        match (&push.kind, push.data.get(1)) {
            (PushKind::SMessage, Some(Value::BulkString(message))) => {
                self.ears.take_message(message);
            }
            (PushKind::SSubscribe, _) => {
                let is_again = lock(&self.channels).get_mut(name).is_some_and(|channel| {
                    channel.expected.checked_sub(1).map(|left| channel.expected = left).is_none()
                });
                if is_again {
                    self.ears.tell(Hint::Missed);
                }
            }
            // The slot has moved, unless we asked for it.
            (PushKind::SUnsubscribe, _) => {
                let (hub, name) = (self.clone(), name.to_owned());
                if lock(&self.channels).get(&name).is_some_and(|channel| channel.waiting > 0) {
                    self.runtime.spawn(async move { hub.resubscribe(&name).await });
                }
            }
            _ => {}
        }
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").finish_non_exhaustive()
    }
}

/// One who waits for a lock.
struct Attending {
    hub: Arc<Hub>,
    name: String,
}

impl Drop for Attending {
    fn drop(&mut self) {
        let left = lock(&self.hub.channels).get_mut(&self.name).map_or(0, |channel| {
            channel.waiting = channel.waiting.saturating_sub(1);
            channel.waiting
        });
        if left == 0 {
            let (hub, name) = (self.hub.clone(), std::mem::take(&mut self.name));
            self.hub.runtime.spawn(async move {
                if let Err(error) = hub.settle(&name, false).await {
                    tracing::debug!(%error, "a subscription was not ended");
                }
            });
        }
    }
}
