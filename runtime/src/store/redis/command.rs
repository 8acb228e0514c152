//! One command: a script call, its time, and how its answer is read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, ErrorKind, RedisError, Value};
use tokio::time::{Instant as Timer, timeout_at};

use super::connection::{Connections, PATIENCE};
use super::fault::{self, Fault};
use super::script::Script;
use crate::store::{Request, StoreError};
use crate::{LockKey, Outcome};

/// A script call that is ready to be sent.
pub(super) struct Command {
    script: &'static Script,
    pub(super) cmd: Cmd,
}

impl Command {
    pub(super) fn new(script: &'static Script) -> Self {
        Self::for_each(script, 1)
    }

    /// For a script that takes its keys as often as there are locks.
    pub(super) fn for_each(script: &'static Script, locks: usize) -> Self {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(script.hash()).arg(script.keys.len() * locks);
        Self { script, cmd }
    }

    /// Adds the script's keys of a lock.
    pub(super) fn keys(mut self, key: &LockKey, prefix: &str) -> Self {
        for role in self.script.keys {
            self.cmd.arg(key.in_store(prefix, role));
        }
        self
    }

    pub(super) fn arg(mut self, arg: impl redis::ToRedisArgs) -> Self {
        self.cmd.arg(arg);
        self
    }

    pub(super) fn millis(self, time: Duration) -> Self {
        self.arg(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    /// The same with the whole body, for a server that has forgotten the script.
    pub(super) fn with_body(&self) -> Cmd {
        let mut cmd = redis::cmd("EVAL");
        cmd.arg(self.script.body);
        for arg in self.cmd.args_iter().skip(2) {
            if let redis::Arg::Simple(arg) = arg {
                cmd.arg(arg);
            }
        }
        cmd
    }
}

/// Sends one command and waits for its answer, for at most `limit`.
pub(super) async fn run(
    connections: Arc<Connections>,
    command: Command,
    limit: Duration,
) -> Result<Value, StoreError> {
    let deadline = Timer::now() + limit;
    let mut link = match timeout_at(deadline, connections.get()).await {
        Ok(link) => link?,
        Err(_) => return Err(connections.no_connection()),
    };
    // That a connection had to be made first is not its silence.
    let sent = Instant::now();
    let answer = timeout_at(deadline, async {
        match link.send(&command.cmd).await {
            // Loading and calling again would be two commands, and the server
            // may forget between them.
            Err(error) if error.code() == Some("NOSCRIPT") => link.send(&command.with_body()).await,
            answer => answer,
        }
    })
    .await;
    let (fault, answer) = match answer {
        Ok(Ok(value)) => (Fault::Answered, Ok(value)),
        Ok(Err(error)) => {
            let (fault, error) = fault::sort(error);
            (fault, Err(error))
        }
        Err(_) => (Fault::Silent, Err(fault::silent())),
    };
    connections.judge(&link, sent, fault);
    answer
}

/// The least that a command may take: a third of the shortest TTL. The rest of a lease
/// that is not to be held for longer may be shorter than that.
const LEAST: Duration = Duration::from_millis(33);

/// The time a command has: enough for a slow answer, and little enough that a
/// lease outlives two of them.
pub(super) fn limit(request: &Request) -> Duration {
    (request.ttl / 3).clamp(LEAST, PATIENCE)
}

/// A script's answer: an integer, or some in an array. What can't be one of ours
/// is empty.
pub(super) fn integers(answer: &Value) -> Vec<u64> {
    let integer = |value: &Value| match *value {
        Value::Int(number) => u64::try_from(number).ok(),
        _ => None,
    };
    match answer {
        Value::Array(values) => values.iter().map(integer).collect::<Option<_>>(),
        value => integer(value).map(|number| vec![number]),
    }
    .unwrap_or_default()
}

/// A value of another type stands under a key of the lock.
pub(super) fn is_wrong_type(error: &StoreError) -> bool {
    let error = error.source.downcast_ref::<RedisError>();
    error.is_some_and(|error| error.code() == Some("WRONGTYPE"))
}

/// A server of the same protocol whose scripts are not ours can't answer so.
pub(super) fn unreadable(answer: &Value) -> StoreError {
    let error = (ErrorKind::UnexpectedReturnType, "unexpected answer", format!("{answer:?}"));
    StoreError {
        outcome: Outcome::Unknown,
        is_passing: false,
        is_shut_down: false,
        source: Box::new(RedisError::from(error)),
    }
}
