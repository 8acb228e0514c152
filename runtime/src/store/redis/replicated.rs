//! Grants and completions that count only when replicas have confirmed them.
//!
//! `WAIT` covers the writes of its own connection, and blocks all other commands on it. So
//! these have connections of their own, each for one at a time.

use std::sync::Arc;
use std::time::Duration;

use bb8_redis::bb8::{ManageConnection, Pool, PooledConnection, RunError};
use futures_util::FutureExt;
use redis::{Cmd, RedisError, Value};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::answer::{PendingAnswer, numbers, unreadable};
use super::connector::Connector;
use super::encoded::{Encoded, pack};
use super::errors;
use super::errors::LinkOutcome;
use super::link::Link;
use super::script::Form;
use super::script_errors;
use crate::core::error::Outcome;
use crate::store::StoreError;
use crate::system;

/// The most commands that wait for replicas at a time.
const MAX_CONNECTIONS: u32 = 16;

/// A command whose answer may count only once replicas have confirmed it.
pub(super) struct ReplicatedCommand {
    pub(super) command: Encoded,
    pub(super) then: Unconfirmed,
    /// True if an answer counts only then.
    pub(super) counts: fn(&[u64]) -> bool,
    pub(super) limit: Duration,
}

/// What happens to a command that too few replicas confirm.
pub(super) enum Unconfirmed {
    /// These commands take it back, so that it has granted nothing.
    TakeBack(Vec<Encoded>),
    /// It has run, and may be sent again.
    Keep,
}

/// Sends commands, and waits for the replicas.
#[derive(Clone)]
pub(super) struct Replicated {
    pool: Pool<Connector>,
    connector: Connector,
    /// How many replicas must confirm a command, and within what time.
    replicas: usize,
    timeout: Duration,
    runtime: Handle,
}

impl std::fmt::Debug for Replicated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replicated").field("replicas", &self.replicas).finish_non_exhaustive()
    }
}

impl Replicated {
    /// Makes a connection when a command needs it.
    pub(super) fn new(
        connector: Connector,
        (replicas, timeout): (usize, Duration),
        runtime: Handle,
    ) -> Self {
        let pool = Pool::builder()
            .max_size(MAX_CONNECTIONS)
            .test_on_check_out(false)
            .max_lifetime(None)
            .connection_timeout(connector.server.settings.connect_timeout)
            .error_sink(Box::new(connector.clone()))
            .build_unchecked(connector.clone());
        Self { pool, connector, replicas, timeout, runtime }
    }

    /// The longest that an answer may take: a connection, the command, the replicas, the cancel.
    pub(super) fn answers_within(&self, limit: Duration) -> Duration {
        limit * 4 + self.timeout
    }

    /// Sends a command. It goes on if the answer is dropped.
    pub(super) fn send(self: &Arc<Self>, asked: ReplicatedCommand) -> PendingAnswer {
        let replicated = self.clone();
        PendingAnswer::InTask(
            self.runtime.spawn(async move { replicated.run(&asked).await }.boxed()),
        )
    }

    async fn run(&self, asked: &ReplicatedCommand) -> Result<Value, StoreError> {
        let server = &self.connector.server;
        let Ok(Ok(mut link)) = timeout(asked.limit, self.link()).await else {
            return Err(server.no_connection());
        };
        if let Unconfirmed::TakeBack(_) = asked.then
            && let Some(refusal) = server.refusal_to_grant(&link.state)
        {
            return Err(errors::not_sent(&refusal));
        }
        let answer = self.call(&mut link, &asked.command, asked.limit).await?;
        if !(asked.counts)(&numbers(&answer)) {
            return Ok(answer);
        }
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.replicas).arg(u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX));
        let confirmed = self.send_on(&mut link, &wait, asked.limit + self.timeout).await;
        let error = match confirmed {
            Ok(Value::Int(count)) if usize::try_from(count).is_ok_and(|it| it >= self.replicas) => {
                return Ok(answer);
            }
            Ok(Value::Int(count)) => errors::not_sent(&format!(
                "only {count} of {} replicas have it in {:?} (`sync_replicas`)",
                self.replicas, self.timeout
            )),
            Ok(other) => unreadable(&other),
            Err(error) => error,
        };
        let Unconfirmed::TakeBack(cancels) = &asked.then else {
            return Err(StoreError { outcome: Outcome::Unknown, ..error });
        };
        for cancel in cancels {
            // If this fails, the lock may be held, and the caller cancels it.
            if let Err(error) = self.call(&mut link, cancel, asked.limit).await {
                return Err(StoreError { outcome: Outcome::Unknown, ..error });
            }
        }
        Err(StoreError { outcome: Outcome::NotRun, ..error })
    }

    /// A link that is not known to be broken: after a failover all of the pool's are.
    async fn link(&self) -> Result<PooledConnection<'_, Connector>, RunError<RedisError>> {
        loop {
            let link = self.pool.get().await?;
            if link.is_abandoned() {
                continue;
            }
            let server = link.state.name.get().map(|name| &*name.server);
            if server.is_some_and(|it| !self.connector.server.abandoned_at(it).is_empty()) {
                // Late bytes of a lost connection could act after this command. The handshake of a
                // new one ends it; until one succeeds, nothing is sent.
                let next = self.connector.connect().await.map_err(RunError::User)?;
                let _ = self.pool.add(next); // the pool may be full
            }
            return Ok(link);
        }
    }

    /// Calls a script, also one that the server has forgotten, and in the form that it takes.
    async fn call(
        &self,
        link: &mut Link,
        command: &Encoded,
        limit: Duration,
    ) -> Result<Value, StoreError> {
        let mut with_body = false;
        loop {
            let form = link.state.form();
            let answer = self.send_on(link, &pack(&[command], form, with_body), limit).await;
            match &answer {
                Err(error) if !with_body && is_forgotten(error) => with_body = true,
                Err(error) if with_body && form == Form::Flagged && refuses_flags(error) => {
                    self.connector.leave_out_flags(&link.state);
                }
                _ => return answer,
            }
        }
    }

    async fn send_on(
        &self,
        link: &mut Link,
        command: &Cmd,
        limit: Duration,
    ) -> Result<Value, StoreError> {
        let sent = system::now();
        let (outcome, answer) = match timeout(limit, link.send(command)).await {
            Ok(answer) => errors::classify_answer(answer),
            // The link carries only this command, so nothing else can tell.
            Err(_) => (LinkOutcome::Broken, Err(errors::timed_out())),
        };
        self.connector.server.record(&link.state, sent, outcome);
        if link.is_abandoned()
            && let Ok(next) = self.connector.connect().await
        {
            // Made at once, before any cancel: its handshake ends the old connection, whose
            // late bytes then have no effect.
            let _ = self.pool.add(next);
        }
        answer
    }
}

fn is_forgotten(error: &StoreError) -> bool {
    errors::redis_error(error).is_some_and(|it| it.code() == Some("NOSCRIPT"))
}

fn refuses_flags(error: &StoreError) -> bool {
    errors::redis_error(error).is_some_and(script_errors::refuses_flags)
}
