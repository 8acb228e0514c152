//! The store on a Redis or Valkey server: each command is one Lua script.

mod command;
mod connection;
mod dial;
mod fault;
mod health;
mod hints;
mod script;
mod subscriber;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use redis::{ConnectionInfo, IntoConnectionInfo, ProtocolVersion, Value};
use tokio::runtime::Handle;

use self::command::{Command, integers, is_wrong_type, limit, run, unreadable};
use self::connection::{Connections, PATIENCE};
use self::hints::Ears;
use self::script::Script;
use super::{
    Attempt, ClientId, ClientInfo, Ended, Kind, Listener, Renewal, Request, Store, StoreError,
    StoreFuture, Ticket, Waiting,
};
use crate::{LockError, LockKey, LossReason, Step};

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
    /// Connects, and keeps all connections on `runtime`; hints for the waiters of
    /// `client` come by them.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOption`] for a URL or a prefix that makes no sense,
    /// [`LockError::Store`] if the server can't be reached or refuses.
    pub async fn connect(
        url: &str,
        prefix: &str,
        client: ClientId,
        runtime: Handle,
    ) -> Result<Self, LockError> {
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
        let ears = Ears::new(client, format!("{prefix}:wake:{client}"));
        let opened = runtime.spawn(Connections::open(info, ears)).await;
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

    /// Where the scripts tell a waiter that it was offered the lock: they put its
    /// client's id behind it.
    fn wake(&self, _: &LockKey) -> String {
        format!("{}:wake:", self.prefix)
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
    // By RESP3 hints come on the same connection, unless the URL says otherwise:
    // the driver's own default is RESP2.
    let options = url.split_once('?').map_or("", |(_, options)| options).split(['&', '#']);
    let is_resp2 = options.into_iter().any(|it| matches!(it, "protocol=2" | "protocol=resp2"));
    let protocol = if is_resp2 { ProtocolVersion::RESP2 } else { ProtocolVersion::RESP3 };
    let settings = info.redis_settings().clone().set_protocol(protocol);
    let tcp = info.tcp_settings().clone().set_nodelay(true);
    Ok(info.set_tcp_settings(tcp).set_redis_settings(settings))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for RedisStore {
    fn acquire(&self, request: &Request, waiting: Option<Waiting>) -> StoreFuture<Attempt> {
        let command = match request.kind {
            Kind::Mutex => self
                .script(&script::MUTEX_ACQUIRE, &request.key)
                .arg(request.id.as_bytes())
                .millis(request.ttl),
            Kind::Semaphore { limit, weight } => self
                .script(&script::SEMAPHORE_ACQUIRE, &request.key)
                .arg(request.id.as_bytes())
                .millis(request.ttl)
                .arg(limit)
                .arg(weight),
        };
        let command = match waiting {
            None => command.arg(0).arg(0),
            Some(Waiting { live, ticket: Ticket::Told(ticket) }) => {
                command.millis(live).arg(ticket)
            }
            Some(Waiting { live, ticket: Ticket::New { age } }) => {
                let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
                command.millis(live).arg(-age)
            }
        };
        let command = command.arg(self.wake(&request.key));
        self.send(command, limit(request), |answer| {
            if answer.as_ref().is_err_and(is_wrong_type) {
                return Ok(Attempt::WrongKind);
            }
            let answer = answer?;
            Ok(match integers(&answer)[..] {
                [1, token] => Attempt::Granted { token },
                [code @ (0 | 4), millis] => Attempt::Busy {
                    retry_after: Duration::from_millis(millis),
                    repaired: code == 4,
                },
                [2] => Attempt::Ended,
                [3] => Attempt::WrongKind,
                [5, ticket, until, again] => {
                    Attempt::Queued { ticket, until, ask_again: Duration::from_millis(again) }
                }
                _ => return Err(unreadable(&answer)),
            })
        })
    }

    fn renew(&self, request: &Request) -> StoreFuture<Renewal> {
        let command = match request.kind {
            Kind::Mutex => {
                self.script(&script::MUTEX_RENEW, &request.key).arg(request.id.as_bytes())
            }
            Kind::Semaphore { weight, .. } => self
                .script(&script::SEMAPHORE_RENEW, &request.key)
                .arg(request.id.as_bytes())
                .arg(weight),
        };
        self.send(command.millis(request.ttl), limit(request), |answer| {
            if answer.as_ref().is_err_and(is_wrong_type) {
                return Ok(Renewal::NotHeld(LossReason::Taken));
            }
            let answer = answer?;
            Ok(match integers(&answer)[..] {
                [1] => Renewal::Renewed,
                [0] => Renewal::NotHeld(LossReason::Expired),
                [2] => Renewal::NotHeld(LossReason::Taken),
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
            Kind::Semaphore { weight, .. } => self
                .script(&script::SEMAPHORE_RELEASE, &request.key)
                .arg(request.id.as_bytes())
                .arg(weight),
        };
        let command = command.arg(self.wake(&request.key));
        self.send(command, limit(request), |answer| {
            if answer.as_ref().is_err_and(is_wrong_type) {
                return Ok(Ended::NotHeld(LossReason::Taken));
            }
            let answer = answer?;
            Ok(match integers(&answer)[..] {
                [1] => Ended::Released,
                [3] => Ended::Kept,
                [0] => Ended::NotHeld(LossReason::Expired),
                [2] => Ended::NotHeld(LossReason::Taken),
                _ => return Err(unreadable(&answer)),
            })
        })
    }

    fn cancel(&self, request: &Request) -> StoreFuture<bool> {
        let command = match request.kind {
            Kind::Mutex => {
                self.script(&script::MUTEX_CANCEL, &request.key).arg(request.id.as_bytes())
            }
            Kind::Semaphore { weight, .. } => self
                .script(&script::SEMAPHORE_CANCEL, &request.key)
                .arg(request.id.as_bytes())
                .arg(weight),
        };
        let command = command.arg(self.wake(&request.key));
        self.send(command, limit(request), |answer| {
            if answer.as_ref().is_err_and(is_wrong_type) {
                return Ok(false);
            }
            let answer = answer?;
            match integers(&answer)[..] {
                [held @ (0 | 1)] => Ok(held == 1),
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

    fn listen(&self, _: ClientId, listener: Weak<dyn Listener>) {
        self.connections.ears().listen(listener);
    }

    fn gives_hints(&self) -> bool {
        self.connections.ears().are_open()
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}
