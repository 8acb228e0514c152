//! Grants that replicas are to have before they count.
//!
//! `WAIT` speaks of what was written by its own connection, and holds up all that share
//! it. So grants go by connections of their own, one command at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bb8_redis::bb8::{ManageConnection, Pool, PooledConnection, RunError};
use redis::{Cmd, RedisError, Value};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::command::{Command, call, integers};
use super::connection::Link;
use super::errors;
use super::errors::Fault;
use super::manager::Manager;
use crate::core::error::Outcome;
use crate::store::StoreError;

/// The most grants that wait for replicas at a time.
const MOST: u32 = 16;

/// What is to be granted.
pub(super) struct Granting {
    pub(super) command: Command,
    /// What takes it back.
    pub(super) cancels: Vec<Command>,
    /// Whether an answer is a grant.
    pub(super) is_grant: fn(&[u64]) -> bool,
    pub(super) limit: Duration,
}

/// The connections that grants go by.
#[derive(Clone)]
pub(super) struct Synced {
    pool: Pool<Manager>,
    manager: Manager,
    /// How many replicas are to have a grant, and how long they have for it.
    replicas: usize,
    timeout: Duration,
    runtime: Handle,
}

impl std::fmt::Debug for Synced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Synced").field("replicas", &self.replicas).finish_non_exhaustive()
    }
}

impl Synced {
    /// Makes its connections when they are needed.
    pub(super) fn new(
        manager: Manager,
        (replicas, timeout): (usize, Duration),
        runtime: Handle,
    ) -> Self {
        let pool = Pool::builder()
            .max_size(MOST)
            .test_on_check_out(false)
            .max_lifetime(None)
            .connection_timeout(manager.shared.settings.connect_timeout)
            .error_sink(Box::new(manager.clone()))
            .build_unchecked(manager.clone());
        Self { pool, manager, replicas, timeout, runtime }
    }

    /// How long it may take: a connection, the grant, the replicas, and to take it back.
    pub(super) fn patience(&self, limit: Duration) -> Duration {
        limit * 4 + self.timeout
    }

    /// Sends what may grant; it goes on if nobody waits for the answer.
    pub(super) fn start(
        self: &Arc<Self>,
        granting: Granting,
    ) -> JoinHandle<Result<Value, StoreError>> {
        let synced = self.clone();
        self.runtime.spawn(async move { synced.run(&granting).await })
    }

    async fn run(&self, granting: &Granting) -> Result<Value, StoreError> {
        let Ok(Ok(mut link)) = timeout(granting.limit, self.get()).await else {
            return Err(self.manager.shared.no_connection());
        };
        if let Some(problem) = self.manager.shared.why_not_to_grant(&link.health) {
            return Err(errors::not_yet(&problem));
        }
        let answer = self.ask(&mut link, &granting.command, granting.limit).await?;
        if !(granting.is_grant)(&integers(&answer)) {
            return Ok(answer);
        }
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.replicas).arg(u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX));
        let had = self.send(&mut link, &wait, granting.limit + self.timeout).await;
        let few = match had {
            Ok(Value::Int(had)) if usize::try_from(had).is_ok_and(|had| had >= self.replicas) => {
                return Ok(answer);
            }
            Ok(Value::Int(had)) => errors::not_yet(&format!(
                "only {had} of {} replicas have it in {:?} (`sync_replicas`)",
                self.replicas, self.timeout
            )),
            Ok(other) => super::command::unreadable(&other),
            Err(error) => error,
        };
        for cancel in &granting.cancels {
            // What can't be taken back here is, by whoever hears that it may be held.
            if let Err(error) = self.ask(&mut link, cancel, granting.limit).await {
                return Err(StoreError { outcome: Outcome::Unknown, ..error });
            }
        }
        Err(StoreError { outcome: Outcome::NotRun, ..few })
    }

    /// A connection that is not known to be broken: after a failover all of them are.
    async fn get(&self) -> Result<PooledConnection<'_, Manager>, RunError<RedisError>> {
        loop {
            let link = self.pool.get().await?;
            if !link.is_given_up() {
                return Ok(link);
            }
        }
    }

    /// Calls a script, be it one that the server has forgotten.
    async fn ask(
        &self,
        link: &mut Link,
        command: &Command,
        limit: Duration,
    ) -> Result<Value, StoreError> {
        match self.send(link, &call(&[command], false), limit).await {
            Err(error) if is_forgotten(&error) => {
                self.send(link, &call(&[command], true), limit).await
            }
            answer => answer,
        }
    }

    async fn send(
        &self,
        link: &mut Link,
        command: &Cmd,
        limit: Duration,
    ) -> Result<Value, StoreError> {
        let sent = Instant::now();
        let (fault, answer) = match timeout(limit, link.send(command)).await {
            Ok(answer) => errors::sorted(answer),
            // It carries this one command, which is all that can be known of it.
            Err(_) => (Fault::Broken, Err(errors::silent())),
        };
        self.manager.shared.judge(&link.health, sent, fault);
        if link.is_given_up()
            && let Ok(next) = self.manager.connect().await
        {
            // Made at once: in its handshake the old one is ended, and bytes of it that
            // are still on their way come to nothing, before anything is taken back.
            let _ = self.pool.add(next);
        }
        answer
    }
}

fn is_forgotten(error: &StoreError) -> bool {
    errors::of(error).is_some_and(|it| it.code() == Some("NOSCRIPT"))
}
