//! The store on a Redis or Valkey server: each command is one Lua script.

mod connection;
mod fault;
mod script;

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisError, Value};
use tokio::runtime::Handle;
use tokio::time::{Instant as Timer, timeout_at};

use self::connection::{Connections, PATIENCE};
use self::fault::Fault;
use self::script::Script;
use super::{Attempt, ClientInfo, Ended, Kind, Renewal, Request, Store, StoreError, StoreFuture};
use crate::{LockError, LockKey, LossReason, Outcome, Step};

/// Keeps leases on one server.
#[derive(Debug)]
pub struct RedisStore {
    connections: Arc<Connections>,
    prefix: Box<str>,
    /// Drives the connections and times the commands, so that neither depends
    /// on the runtime of whoever asks.
    runtime: Handle,
}

impl RedisStore {
    /// Connects, and keeps all connections on `runtime`.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOption`] for a URL or a prefix that makes no sense,
    /// [`LockError::Store`] if the server can't be reached or refuses.
    pub async fn connect(url: &str, prefix: &str, runtime: Handle) -> Result<Self, LockError> {
        if prefix.is_empty() || prefix.contains(['{', '}']) || prefix.contains(char::is_control) {
            return Err(LockError::InvalidOption {
                option: "prefix",
                problem: format!(
                    "{prefix:?} is empty, or has a brace or a control character in it"
                ),
            });
        }
        let info = connection_info(url)?;
        let server = info.addr().to_string();
        let opened = runtime.spawn(Connections::open(info)).await;
        let connections = opened.map_err(|_| LockError::ShutDown)?.map_err(|error| {
            let StoreError { outcome, source, .. } = fault::not_run(error);
            LockError::Store { step: Step::Connect, what: server, outcome, source }
        })?;
        Ok(Self { connections: Arc::new(connections), prefix: prefix.into(), runtime })
    }

    /// A script for one lock, with its keys.
    fn script(&self, script: &'static Script, key: &LockKey) -> Command {
        let mut command = Command::new(script);
        for role in script.keys {
            command.cmd.arg(key.in_store(&self.prefix, role));
        }
        command
    }

    /// Sends a command; it goes on if the future is dropped.
    fn send<T>(
        &self,
        command: Command,
        limit: Duration,
        read: impl FnOnce(Result<Value, StoreError>) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<T>
    where
        T: Send + 'static,
    {
        let running = self.runtime.spawn(run(self.connections.clone(), command, limit));
        Box::pin(async move { read(running.await.unwrap_or_else(|_| Err(fault::shut_down()))) })
    }
}

/// Reads a URL, and never repeats it in an error: it may hold a password.
fn connection_info(url: &str) -> Result<ConnectionInfo, LockError> {
    let info = url.into_connection_info().map_err(|error| LockError::InvalidOption {
        option: "url",
        problem: format!(
            "{}; write redis://host:port, redis://user:password@host, rediss://host (with the \
             feature `tls`) or redis+unix:///path",
            error.category()
        ),
    })?;
    #[cfg(feature = "tls")]
    if matches!(info.addr(), redis::ConnectionAddr::TcpTls { .. }) {
        // The driver takes the process's cryptography, and panics without one.
        // Where the program has chosen its own, that stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let tcp = info.tcp_settings().clone().set_nodelay(true);
    Ok(info.set_tcp_settings(tcp))
}

/// A script call that is ready to be sent.
struct Command {
    script: &'static Script,
    cmd: Cmd,
}

impl Command {
    fn new(script: &'static Script) -> Self {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(script.hash()).arg(script.keys.len());
        Self { script, cmd }
    }

    fn arg(mut self, arg: impl redis::ToRedisArgs) -> Self {
        self.cmd.arg(arg);
        self
    }

    fn millis(self, time: Duration) -> Self {
        self.arg(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    /// The same with the whole body, for a server that has forgotten the script.
    fn with_body(&self) -> Cmd {
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
async fn run(
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

/// The time a command has: enough for a slow answer, and little enough that a
/// lease outlives two of them.
fn limit(request: &Request) -> Duration {
    PATIENCE.min(request.ttl / 3)
}

impl Store for RedisStore {
    fn acquire(&self, request: &Request) -> StoreFuture<Attempt> {
        let command = match request.kind {
            Kind::Mutex => self.script(&script::MUTEX_ACQUIRE, &request.key),
            Kind::Semaphore { .. } => self.script(&script::SEMAPHORE_ACQUIRE, &request.key),
        };
        let mut command = command.arg(request.id.as_bytes()).millis(request.ttl);
        if let Kind::Semaphore { limit } = request.kind {
            command = command.arg(limit);
        }
        self.send(command, limit(request), |answer| {
            if answer.as_ref().is_err_and(is_wrong_type) {
                return Ok(Attempt::WrongKind);
            }
            let answer = answer?;
            Ok(match integers(&answer) {
                [Some(1), Some(token)] => Attempt::Granted { token },
                [Some(code @ (0 | 4)), Some(millis)] => Attempt::Busy {
                    retry_after: Duration::from_millis(millis),
                    repaired: code == 4,
                },
                [Some(2), None] => Attempt::Ended,
                [Some(3), None] => Attempt::WrongKind,
                _ => return Err(unreadable(&answer)),
            })
        })
    }

    fn renew(&self, request: &Request) -> StoreFuture<Renewal> {
        let command = match request.kind {
            Kind::Mutex => self.script(&script::MUTEX_RENEW, &request.key),
            Kind::Semaphore { .. } => self.script(&script::SEMAPHORE_RENEW, &request.key),
        };
        let command = command.arg(request.id.as_bytes()).millis(request.ttl);
        self.send(command, limit(request), |answer| {
            if answer.as_ref().is_err_and(is_wrong_type) {
                return Ok(Renewal::NotHeld(LossReason::Taken));
            }
            let answer = answer?;
            Ok(match integers(&answer) {
                [Some(1), None] => Renewal::Renewed,
                [Some(0), None] => Renewal::NotHeld(LossReason::Expired),
                [Some(2), None] => Renewal::NotHeld(LossReason::Taken),
                _ => return Err(unreadable(&answer)),
            })
        })
    }

    fn release(&self, request: &Request, keep: Duration) -> StoreFuture<Ended> {
        let command = match request.kind {
            Kind::Mutex => self
                .script(&script::MUTEX_RELEASE, &request.key)
                .arg(request.id.as_bytes())
                .millis(keep),
            Kind::Semaphore { .. } => {
                self.script(&script::SEMAPHORE_RELEASE, &request.key).arg(request.id.as_bytes())
            }
        };
        self.send(command, limit(request), |answer| {
            if answer.as_ref().is_err_and(is_wrong_type) {
                return Ok(Ended::NotHeld(LossReason::Taken));
            }
            let answer = answer?;
            Ok(match integers(&answer) {
                [Some(1), None] => Ended::Released,
                [Some(3), None] => Ended::Kept,
                [Some(0), None] => Ended::NotHeld(LossReason::Expired),
                [Some(2), None] => Ended::NotHeld(LossReason::Taken),
                _ => return Err(unreadable(&answer)),
            })
        })
    }

    fn cancel(&self, request: &Request) -> StoreFuture<bool> {
        let command = match request.kind {
            Kind::Mutex => self.script(&script::MUTEX_CANCEL, &request.key),
            Kind::Semaphore { .. } => self.script(&script::SEMAPHORE_CANCEL, &request.key),
        };
        self.send(command.arg(request.id.as_bytes()), limit(request), |answer| {
            if answer.as_ref().is_err_and(is_wrong_type) {
                return Ok(false);
            }
            let answer = answer?;
            match integers(&answer) {
                [Some(held @ (0 | 1)), None] => Ok(held == 1),
                _ => Err(unreadable(&answer)),
            }
        })
    }

    fn introduce(&self, client: &ClientInfo, lasts: Duration) -> StoreFuture<()> {
        let mut command = Command::new(&script::CLIENT_INTRODUCE);
        command.cmd.arg(format!("{}:client:{{{}}}", self.prefix, client.id));
        let command = command.arg(&client.service).arg(&client.host).arg(client.process);
        self.send(command.millis(lasts), PATIENCE, |answer| answer.map(|_| ()))
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// A script's answer: an integer, or two in an array.
fn integers(answer: &Value) -> [Option<u64>; 2] {
    let integer = |value: &Value| match *value {
        Value::Int(number) => u64::try_from(number).ok(),
        _ => None,
    };
    match answer {
        Value::Array(values) => match values.as_slice() {
            [first] => [integer(first), None],
            [first, second] => [integer(first), integer(second)],
            _ => [None, None],
        },
        value => [integer(value), None],
    }
}

/// A value of another type stands under a key of the lock.
fn is_wrong_type(error: &StoreError) -> bool {
    let error = error.source.downcast_ref::<RedisError>();
    error.is_some_and(|error| error.code() == Some("WRONGTYPE"))
}

/// A server of the same protocol whose scripts are not ours can't answer so.
fn unreadable(answer: &Value) -> StoreError {
    let error = (ErrorKind::UnexpectedReturnType, "unexpected answer", format!("{answer:?}"));
    StoreError {
        outcome: Outcome::Unknown,
        is_passing: false,
        is_shut_down: false,
        source: Box::new(RedisError::from(error)),
    }
}
