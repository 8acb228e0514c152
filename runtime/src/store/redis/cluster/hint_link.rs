//! The connection to a node of a cluster that carries hints. Commands have others: when a slot
//! migrates, the node ends the subscriptions in it unasked, and the driver (redis 1.8.1) takes that for
//! the answer to a command in flight.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use redis::{
    AsyncConnectionConfig, ConnectionInfo, ErrorKind, ProtocolVersion, PushInfo, PushKind,
    RedisResult, Value,
};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::store::redis::errors;
use crate::store::redis::sync::lock;
use crate::store::redis::wire::Wire;

/// The most commands in flight.
const MAX_IN_FLIGHT: usize = 64;

/// How often a connection with subscriptions is checked: it may be silent for hours, and also once
/// its other end is gone.
const CHECK: Duration = Duration::from_secs(5);

/// What a connection tells.
pub(super) enum News<'a> {
    Message(&'a [u8]),
    /// This channel is not subscribed any more.
    Unsubscribed(&'a str),
    /// The connection is lost, and all its subscriptions.
    Lost,
}

pub(super) type Tell = Arc<dyn Fn(News<'_>) + Send + Sync>;

/// A connection for hints. Once it is lost, its node gets another.
pub(super) struct HintLink {
    /// The node's.
    pub(super) address: String,
    wire: Wire,
    state: Arc<State>,
    limit: Duration,
    in_flight: Semaphore,
}

struct State {
    /// The channels that the server has confirmed.
    subscribed: Mutex<HashSet<String>>,
    is_lost: AtomicBool,
    tell: Tell,
}

impl HintLink {
    /// Connects. Connecting and each command may take `limit`.
    pub(super) async fn open(
        info: ConnectionInfo,
        limit: Duration,
        tell: Tell,
    ) -> RedisResult<Arc<Self>> {
        let address = info.addr().to_string();
        let (subscribed, is_lost) = (Mutex::default(), AtomicBool::default());
        let state = Arc::new(State { subscribed, is_lost, tell });
        let pushed = state.clone();
        let take = move |push: PushInfo| {
            pushed.take(&push);
            Ok::<_, ()>(())
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(limit))
            .set_response_timeout(None)
            .set_push_sender(take);
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let info = info.set_redis_settings(settings);
        let wire = in_time(limit, Wire::connect(info, config)).await?;
        let in_flight = Semaphore::new(MAX_IN_FLIGHT);
        let link = Arc::new(Self { address, wire, state, limit, in_flight });
        tokio::spawn(check(Arc::downgrade(&link)));
        Ok(link)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.state.is_lost.load(Ordering::Relaxed)
    }

    /// Returns true if the channel is subscribed here.
    pub(super) fn has(&self, channel: &str) -> bool {
        !self.is_lost() && lock(&self.state.subscribed).contains(channel)
    }

    /// Subscribes to a channel. To do it again has no effect.
    pub(super) async fn subscribe(&self, channel: &str) -> RedisResult<()> {
        self.send("SSUBSCRIBE", channel, &PushKind::SSubscribe).await
    }

    /// Ends a subscription.
    pub(super) async fn unsubscribe(&self, channel: &str) -> RedisResult<()> {
        self.send("SUNSUBSCRIBE", channel, &PushKind::SUnsubscribe).await
    }

    /// Sends a command. If it gets no answer, or that of another command, the connection is lost.
    async fn send(&self, name: &str, channel: &str, confirmed: &PushKind) -> RedisResult<()> {
        let mut command = redis::cmd(name);
        command.arg(channel);
        let mut connection = self.wire.connection.clone();
        let answer = async {
            let _permit = self.in_flight.acquire().await;
            connection.send_packed_command(&command).await?.extract_error()
        };
        let error = match in_time(self.limit, answer).await {
            Ok(Value::Push { kind, data })
                if kind == *confirmed && channel_of(&data) == Some(channel) =>
            {
                return Ok(());
            }
            Ok(_) => (ErrorKind::UnexpectedReturnType, "the answer to another command").into(),
            // The server refuses the command.
            Err(error) if error.code().is_some() => return Err(error),
            Err(error) => error,
        };
        self.state.lose();
        Err(error)
    }
}

impl State {
    fn take(&self, push: &PushInfo) {
        match (&push.kind, channel_of(&push.data), push.data.get(1)) {
            (PushKind::Disconnection, ..) => self.lose(),
            (PushKind::SMessage, Some(_), Some(Value::BulkString(message))) => {
                (self.tell)(News::Message(message));
            }
            (PushKind::SSubscribe, Some(channel), _) => {
                lock(&self.subscribed).insert(channel.to_owned());
            }
            (PushKind::SUnsubscribe, Some(channel), _) => {
                lock(&self.subscribed).remove(channel);
                (self.tell)(News::Unsubscribed(channel));
            }
            _ => {}
        }
    }

    fn lose(&self) {
        if !self.is_lost.swap(true, Ordering::Relaxed) {
            (self.tell)(News::Lost);
        }
    }
}

/// Repeats a subscription now and then: that changes nothing, has an answer, and needs no other right.
async fn check(link: Weak<HintLink>) {
    loop {
        sleep(CHECK).await;
        let Some(link) = link.upgrade().filter(|link| !link.is_lost()) else { return };
        let channel = lock(&link.state.subscribed).iter().next().cloned();
        if let Some(channel) = channel
            && let Err(error) = link.subscribe(&channel).await
        {
            tracing::debug!(%error, "the connection for hints failed");
        }
    }
}

fn channel_of(data: &[Value]) -> Option<&str> {
    match data.first()? {
        Value::BulkString(channel) => str::from_utf8(channel).ok(),
        _ => None,
    }
}

async fn in_time<T>(limit: Duration, work: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    timeout(limit, work).await.unwrap_or_else(|_| Err(errors::no_answer()))
}

impl fmt::Debug for HintLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HintLink").field("is_lost", &self.is_lost()).finish_non_exhaustive()
    }
}
