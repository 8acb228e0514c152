//! The connection to a node of a cluster that carries hints. Commands have others: when a slot
//! migrates, the node ends the subscriptions in it unasked, and the driver (redis 1.8.1) takes that for
//! the answer to a command in flight.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use redis::{
    AsyncConnectionConfig, Cmd, ConnectionInfo, ErrorKind, ProtocolVersion, PushInfo, PushKind,
    RedisResult, Value,
};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::slots;
use crate::core::sync::lock;
use crate::store::redis::errors;
use crate::store::redis::wire::Wire;
use crate::system;

/// The most commands in flight.
const MAX_IN_FLIGHT: usize = 64;

/// How often a connection is checked: it may be silent for hours, and also once its other end is gone.
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
    /// `None` once it is given up.
    wire: Mutex<Option<Wire>>,
    state: Arc<State>,
    limit: Duration,
    in_flight: Semaphore,
}

struct State {
    /// The channels that the server has confirmed.
    subscribed: Mutex<HashSet<String>>,
    /// When anything came last.
    heard: Mutex<Instant>,
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
        let state = Arc::new(State {
            subscribed: Mutex::default(),
            heard: Mutex::new(system::now()),
            is_lost: AtomicBool::default(),
            tell,
        });
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
        let wire = Mutex::new(Some(errors::in_time(limit, Wire::connect(info, config)).await?));
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

    async fn send(&self, name: &str, channel: &str, confirmed: &PushKind) -> RedisResult<()> {
        let is_own = |answer: &RedisResult<Value>| match answer {
            Ok(Value::Push { kind, data }) => {
                kind == confirmed && channel_of(data) == Some(channel)
            }
            Ok(_) => false,
            Err(refusal) => {
                let slot = refusal.redirect_node().map(|(_, slot)| slot);
                slot.is_none_or(|slot| slot == slots::of(channel.as_bytes()))
            }
        };
        self.ask(redis::cmd(name).arg(channel), is_own).await
    }

    /// Sends a command. If it gets the answer of another one, or none comes while the server is silent,
    /// the connection is lost.
    async fn ask(
        &self,
        command: &Cmd,
        is_own: impl Fn(&RedisResult<Value>) -> bool,
    ) -> RedisResult<()> {
        let Ok(_permit) = self.in_flight.acquire().await else { return Err(errors::no_answer()) };
        let connection = lock(&self.wire).as_ref().map(|wire| wire.connection.clone());
        let Some(mut connection) = connection else { return Err(errors::no_answer()) };
        let answer = async {
            let answer = connection.send_packed_command(command).await;
            answer.and_then(Value::extract_error)
        };
        let Ok(answer) = timeout(self.limit, answer).await else {
            if system::since(*lock(&self.state.heard)) >= self.limit {
                self.give_up();
            }
            return Err(errors::no_answer());
        };
        let is_answered = answer.as_ref().err().is_none_or(|error| error.code().is_some());
        if is_answered && is_own(&answer) {
            self.state.hear();
            return answer.map(drop);
        }
        self.give_up();
        answer.and(Err((ErrorKind::UnexpectedReturnType, "the answer to another command").into()))
    }

    /// Closes the connection.
    fn give_up(&self) {
        let wire = lock(&self.wire).take();
        drop(wire);
        self.state.lose();
    }
}

impl State {
    fn hear(&self) {
        *lock(&self.heard) = system::now();
    }

    fn take(&self, push: &PushInfo) {
        self.hear();
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

/// Asks for an answer now and then. A refusal is one, too.
async fn check(link: Weak<HintLink>) {
    loop {
        sleep(CHECK).await;
        let Some(link) = link.upgrade().filter(|link| !link.is_lost()) else { return };
        let is_own = |answer: &RedisResult<Value>| !matches!(answer, Ok(Value::Push { .. }));
        if let Err(error) = link.ask(&redis::cmd("PING"), is_own).await {
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

impl fmt::Debug for HintLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HintLink").field("is_lost", &self.is_lost()).finish_non_exhaustive()
    }
}
