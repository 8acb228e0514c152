//! Hints on a cluster. A script may publish only into its lock's own slot, so a client
//! subscribes to each lock for as long as it waits.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::{ConnectionInfo, ProtocolVersion, PushInfo, PushKind, RedisResult, Value};
use tokio::runtime::Handle;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio::time::{sleep, timeout};

use crate::store::redis::backoff::Backoff;
use crate::store::redis::errors;
use crate::store::redis::hints::HintReceiver;
use crate::store::redis::settings::Settings;
use crate::store::redis::sync::lock;
use crate::store::redis::wire::Wire;
use crate::store::{Hint, StoreError, Subscription};

/// The most commands in flight: with some dozens of them the driver's connection to a cluster
/// may stop for good (decision 66).
const MAX_IN_FLIGHT: usize = 8;

/// A client's subscriptions on a cluster.
pub(in crate::store::redis) struct Subscriptions {
    pub(in crate::store::redis) hints: Arc<HintReceiver>,
    /// The nodes that the driver asks for the slots: the masters, as soon as they are known. A
    /// master that was replaced may not know it yet, and takes subscriptions as a replica: scripts
    /// count no receiver there.
    nodes: Mutex<Vec<ConnectionInfo>>,
    settings: Settings,
    connection: AsyncMutex<Connection>,
    channels: Mutex<HashMap<String, Channel>>,
    /// Limits the commands in flight.
    in_flight: Semaphore,
    /// The last attempt to subscribe failed.
    has_failed: AtomicBool,
    runtime: Handle,
}

/// The driver's connection to all nodes.
#[derive(Default)]
struct Connection {
    /// How many were made so far.
    made: u64,
    /// Made for the first waiter.
    last: Option<ClusterConnection<Wire>>,
}

/// The subscription for one lock.
#[derive(Default)]
struct Channel {
    /// The number of waiters.
    waiters: usize,
    /// The number of confirmations still to come. An unexpected one means that the driver has
    /// subscribed again, on another connection.
    expected: usize,
    /// Locked while it changes.
    state: Arc<AsyncMutex<State>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Unsubscribed,
    /// A command had no answer.
    Unknown,
    Subscribed,
}

impl Subscriptions {
    pub(in crate::store::redis) fn new(
        nodes: Vec<ConnectionInfo>,
        hints: Arc<HintReceiver>,
        settings: Settings,
        runtime: Handle,
    ) -> Self {
        Self {
            hints,
            nodes: Mutex::new(nodes),
            settings,
            connection: AsyncMutex::default(),
            channels: Mutex::default(),
            in_flight: Semaphore::new(MAX_IN_FLIGHT),
            has_failed: AtomicBool::new(false),
            runtime,
        }
    }

    /// Returns true if hints can be expected.
    pub(in crate::store::redis) fn is_open(&self) -> bool {
        !self.has_failed.load(Ordering::Relaxed)
    }

    /// Subscribes a waiter to `channel` with the client's id. It goes on if the future is
    /// dropped.
    pub(in crate::store::redis) async fn subscribe(
        self: Arc<Self>,
        channel: String,
    ) -> Result<Subscription, StoreError> {
        let (all, name) = (self.clone(), format!("{channel}{}", self.hints.client));
        let limit = self.settings.connect_timeout;
        let subscribing = self.runtime.spawn(async move {
            lock(&all.channels).entry(name.clone()).or_default().waiters += 1;
            let subscription = WaiterSubscription { all, name };
            let updating = subscription.all.update(&subscription.name, false);
            let failed = match timeout(limit, updating).await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(errors::on_cluster(errors::classify(error).1)),
                Err(_) => Some(errors::timed_out()),
            };
            subscription.all.has_failed.store(failed.is_some(), Ordering::Relaxed);
            match failed {
                None => Ok(Box::new(subscription) as Subscription),
                Some(error) => Err(error),
            }
        });
        subscribing.await.unwrap_or_else(|_| Err(errors::shutdown()))
    }

    /// Subscribes to a channel that has waiters, and unsubscribes from one that has none.
    /// `is_lost`: the server has ended the subscription.
    async fn update(self: &Arc<Self>, name: &str, is_lost: bool) -> RedisResult<()> {
        let Some(state) = lock(&self.channels).get(name).map(|it| it.state.clone()) else {
            return Ok(());
        };
        let mut state = state.lock().await;
        if is_lost {
            *state = State::Unknown;
        }
        let is_wanted = lock(&self.channels).get(name).is_some_and(|channel| channel.waiters > 0);
        if is_wanted && *state != State::Subscribed {
            *state = State::Unknown;
            self.send_subscribe(name).await?;
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

    /// Forgets a channel, unless a waiter has come.
    fn forget(&self, name: &str) {
        let mut channels = lock(&self.channels);
        if channels.get(name).is_some_and(|channel| channel.waiters == 0) {
            channels.remove(name);
        }
    }

    /// Subscribes again, if the channel has waiters.
    async fn resubscribe(self: &Arc<Self>, name: &str) {
        let (mut result, mut backoff) = (self.update(name, true).await, Backoff::default());
        while result.is_err() {
            self.has_failed.store(true, Ordering::Relaxed);
            sleep(backoff.next()).await;
            result = self.update(name, false).await;
        }
        self.has_failed.store(false, Ordering::Relaxed);
        self.hints.deliver(Hint::Missed);
    }

    async fn send_subscribe(self: &Arc<Self>, name: &str) -> RedisResult<()> {
        let mut connection = self.connection().await?;
        self.expect(name, 1);
        let result = self.limited(connection.ssubscribe(name)).await;
        if result.is_err() {
            self.expect(name, 0);
        }
        result
    }

    /// Waits until few enough commands are in flight, then for the answer. The time is limited:
    /// the driver waits for a node that is gone, and with many commands in flight may wait for
    /// itself.
    async fn limited(&self, answer: impl Future<Output = RedisResult<()>>) -> RedisResult<()> {
        let answer = async {
            let _permit = self.in_flight.acquire().await;
            answer.await
        };
        let timed_out = |_| Err(errors::no_answer());
        timeout(self.settings.connect_timeout, answer).await.unwrap_or_else(timed_out)
    }

    fn expect(&self, name: &str, confirmations: usize) {
        if let Some(channel) = lock(&self.channels).get_mut(name) {
            channel.expected = confirmations;
        }
    }

    async fn connection(self: &Arc<Self>) -> RedisResult<ClusterConnection<Wire>> {
        let mut connection = self.connection.lock().await;
        if let Some(last) = &connection.last {
            return Ok(last.clone());
        }
        connection.made += 1;
        let (all, number) = (Arc::downgrade(self), connection.made);
        let take = move |push: PushInfo| {
            if let Some(all) = all.upgrade() {
                all.take_push(&push, number);
            }
            Ok::<_, ()>(())
        };
        let client = self.builder().push_sender(take).build()?;
        let made = client.get_async_generic_connection::<Wire>().await?;
        connection.last = Some(made.clone());
        Ok(made)
    }

    fn builder(&self) -> ClusterClientBuilder {
        let nodes = lock(&self.nodes).clone();
        let tcp = nodes.first().map(|node| node.tcp_settings().clone());
        let builder = ClusterClient::builder(nodes)
            .use_protocol(ProtocolVersion::RESP3)
            .connection_timeout(self.settings.connect_timeout)
            .response_timeout(self.settings.connect_timeout)
            .retries(4)
            .min_retry_wait(10)
            .max_retry_wait(100);
        match tcp {
            Some(tcp) => builder.tcp_settings(tcp),
            None => builder,
        }
    }

    /// Notes the masters for the next connection.
    pub(in crate::store::redis) fn set_masters(&self, masters: Vec<ConnectionInfo>) {
        if !masters.is_empty() {
            *lock(&self.nodes) = masters;
        }
    }

    /// Subscribes to all channels again, on new connections.
    pub(in crate::store::redis) fn renew(self: &Arc<Self>) {
        self.runtime.spawn(self.clone().replace(None));
    }

    /// Does that; if a number is given, only if that connection is still the last.
    async fn replace(self: Arc<Self>, number: Option<u64>) {
        let mut connection = self.connection.lock().await;
        let is_another = number.is_some_and(|number| number != connection.made);
        if is_another || connection.last.take().is_none() {
            return;
        }
        drop(connection);
        let names: Vec<_> = lock(&self.channels).keys().cloned().collect();
        join_all(names.iter().map(|name| self.resubscribe(name))).await;
    }

    /// Takes a push of the driver's connection of this number.
    fn take_push(self: &Arc<Self>, push: &PushInfo, number: u64) {
        if push.kind == PushKind::Disconnection {
            // The driver (redis 1.8.1) subscribes again by one command for all channels of a node,
            // which the node refuses if they are in several slots.
            self.runtime.spawn(self.clone().replace(Some(number)));
            return;
        }
        let Some(Value::BulkString(name)) = push.data.first() else { return };
        let Ok(name) = str::from_utf8(name) else { return };
        match (&push.kind, push.data.get(1)) {
            (PushKind::SMessage, Some(Value::BulkString(message))) => {
                self.hints.take_message(message);
            }
            (PushKind::SSubscribe, _) => {
                let is_again = lock(&self.channels).get_mut(name).is_some_and(|channel| {
                    channel.expected.checked_sub(1).map(|left| channel.expected = left).is_none()
                });
                if is_again {
                    self.hints.deliver(Hint::Missed);
                }
            }
            // The slot has migrated, or we have unsubscribed.
            (PushKind::SUnsubscribe, _) => {
                let (all, name) = (self.clone(), name.to_owned());
                if lock(&self.channels).get(&name).is_some_and(|channel| channel.waiters > 0) {
                    self.runtime.spawn(async move { all.resubscribe(&name).await });
                }
            }
            _ => {}
        }
    }
}

impl fmt::Debug for Subscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriptions").finish_non_exhaustive()
    }
}

/// The subscription of one waiter. The channel's last one unsubscribes when it is dropped.
struct WaiterSubscription {
    all: Arc<Subscriptions>,
    name: String,
}

impl Drop for WaiterSubscription {
    fn drop(&mut self) {
        let left = lock(&self.all.channels).get_mut(&self.name).map_or(0, |channel| {
            channel.waiters = channel.waiters.saturating_sub(1);
            channel.waiters
        });
        if left == 0 {
            let (all, name) = (self.all.clone(), std::mem::take(&mut self.name));
            self.all.runtime.spawn(async move {
                if let Err(error) = all.update(&name, false).await {
                    tracing::debug!(%error, "failed to unsubscribe from a lock's hints");
                }
            });
        }
    }
}
