//! Connections: made and replaced by a bb8 pool, shared by all commands.
//!
//! One connection carries many commands at once, so the pool's are cloned and
//! put back at once, never kept; checking each on checkout would double the
//! round trips. In exchange our manager, unlike bb8-redis' own, knows which
//! connection is broken: the commands say so.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bb8_redis::RedisConnectionManager;
use bb8_redis::bb8::{self, ManageConnection, Pool, RunError};
use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, ConnectionInfo, ErrorKind, RedisError, RedisResult, Value};
use tokio::time::timeout;

use super::fault::{self, Fault};
use super::script;
use crate::store::StoreError;

/// How long a connection may be silent before it is given up, how long making
/// one may take, and the most that a command may take.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

/// How long making a connection may take, with its handshake.
const CONNECT: Duration = Duration::from_secs(1);

/// The connections to one server.
pub(super) struct Connections {
    pool: Pool<Manager>,
    manager: Manager,
}

impl Connections {
    /// Makes the first connection, and fails if that fails.
    pub(super) async fn open(info: ConnectionInfo) -> RedisResult<Self> {
        let manager = Manager::new(info)?;
        let first = manager.connect().await?;
        let pool = Pool::builder()
            .max_size(1)
            .test_on_check_out(false)
            .max_lifetime(None)
            .idle_timeout(None)
            .connection_timeout(CONNECT)
            .error_sink(Box::new(manager.clone()))
            .build_unchecked(manager.clone());
        // The pool is empty, so there is room; if not, it makes its own.
        let _ = pool.add(first);
        Ok(Self { pool, manager })
    }

    /// A connection that is not known to be broken.
    pub(super) async fn get(&self) -> Result<Link, StoreError> {
        loop {
            match self.pool.get().await {
                Ok(link) if link.is_given_up() => {} // put back, the pool drops it
                Ok(link) => return Ok(link.clone()),
                Err(RunError::User(error)) => return Err(fault::not_run(error)),
                Err(RunError::TimedOut) => return Err(self.no_connection()),
            }
        }
    }

    /// Why there is no connection: what the last try to make one met.
    pub(super) fn no_connection(&self) -> StoreError {
        let error = lock(&self.manager.shared.last_error).clone();
        fault::not_run(error.unwrap_or_else(|| {
            (ErrorKind::Io, "no connection in time", self.manager.shared.server.clone()).into()
        }))
    }

    /// Notes what a command on the connection met.
    pub(super) fn judge(&self, link: &Link, sent: Instant, fault: Fault) {
        let give_up = match fault {
            Fault::Answered => {
                let now = self.manager.shared.millis(Instant::now());
                link.health.answered.fetch_max(now, Ordering::Relaxed);
                link.health.silent_since.store(0, Ordering::Relaxed);
                false
            }
            Fault::Broken => true,
            Fault::Silent => {
                // The first of a row of unanswered commands counts from when
                // it was sent; a short TTL asks often, and alone proves little.
                let sent = self.manager.shared.millis(sent).max(1);
                let since = &link.health.silent_since;
                let first = since.compare_exchange(0, sent, Ordering::Relaxed, Ordering::Relaxed);
                let since = first.map_or_else(|earlier| earlier, |_| sent);
                // A connection that answers, slowly, is not silent.
                let since = since.max(link.health.answered.load(Ordering::Relaxed));
                let silent = self.manager.shared.millis(Instant::now()).saturating_sub(since);
                u128::from(silent) >= PATIENCE.as_millis()
            }
        };
        if give_up && !link.health.given_up.swap(true, Ordering::Relaxed) {
            tracing::warn!(server = %self.manager.shared.server, "the connection to the lock store is given up; making another");
            lock(&self.manager.shared.abandoned).extend(link.name.clone());
        }
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections")
            .field("server", &self.manager.shared.server)
            .finish_non_exhaustive()
    }
}

/// One connection; a clone is the same one.
#[derive(Clone)]
pub(super) struct Link {
    connection: MultiplexedConnection,
    /// What the server calls it, if we may ask.
    name: Option<Name>,
    health: Arc<Health>,
}

#[derive(Default)]
struct Health {
    given_up: AtomicBool,
    /// When the first command of those that still have no answer was sent; 0:
    /// there is none.
    silent_since: AtomicU64,
    /// When the last answer came.
    answered: AtomicU64,
}

impl Link {
    pub(super) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        // The driver hands a server's error over as a value.
        self.connection.send_packed_command(command).await?.extract_error()
    }

    fn is_given_up(&self) -> bool {
        self.health.given_up.load(Ordering::Relaxed)
    }
}

/// What a server calls a connection. The number alone is not enough: a server
/// that was restarted gives it to somebody else's.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    id: String,
    address: String,
}

impl Name {
    /// Reads it off `CLIENT INFO`.
    fn read(info: &str) -> Option<Self> {
        let field = |name| info.split(' ').find_map(|field| field.strip_prefix(name));
        Some(Self { id: field("id=")?.to_owned(), address: field("addr=")?.to_owned() })
    }
}

/// Makes connections with bb8-redis' manager, and knows the broken ones.
#[derive(Clone, Debug)]
pub(super) struct Manager {
    inner: RedisConnectionManager,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Host and port, without credentials.
    server: String,
    start: Instant,
    /// Connections that were given up, and may still hold commands of ours.
    abandoned: Mutex<Vec<Name>>,
    last_error: Mutex<Option<RedisError>>,
}

impl Shared {
    fn millis(&self, time: Instant) -> u64 {
        u64::try_from(time.saturating_duration_since(self.start).as_millis()).unwrap_or(u64::MAX)
    }
}

impl Manager {
    fn new(info: ConnectionInfo) -> RedisResult<Self> {
        let shared = Shared {
            server: info.addr().to_string(),
            start: Instant::now(),
            abandoned: Mutex::default(),
            last_error: Mutex::default(),
        };
        Ok(Self { inner: RedisConnectionManager::new(info)?, shared: Arc::new(shared) })
    }

    async fn dial(&self) -> RedisResult<Link> {
        let mut connection = self.inner.connect().await?;
        // Each command has a time-out of its own, which is shorter.
        connection.set_response_timeout(CONNECT);
        // All of it in one round trip.
        let ask = |command: Cmd| {
            let mut connection = connection.clone();
            async move { command.query_async::<Value>(&mut connection).await }
        };
        let info = ask(redis::cmd("CLIENT").arg("INFO").clone());
        // Bytes of a connection that was given up may still be on their way,
        // and would act after everything that is sent on this one.
        let abandoned = lock(&self.shared.abandoned).clone();
        let kills = join_all(abandoned.iter().map(|Name { id, address }| {
            ask(redis::cmd("CLIENT").arg(&["KILL", "ID", id, "ADDR", address]).clone())
        }));
        // Loaded so, a script is not forgotten to make room for others. Where it
        // is not allowed, each script is loaded by its first EVAL.
        let loads = join_all(
            script::ALL
                .iter()
                .map(|script| ask(redis::cmd("SCRIPT").arg("LOAD").arg(script.body).clone())),
        );
        let (info, kills, _) = tokio::join!(info, kills, loads);
        let name = match info {
            Ok(info) => Name::read(&redis::from_redis_value::<String>(info)?),
            // Not allowed, or taken away by who runs the server.
            Err(error) if matches!(error.code(), Some("NOPERM" | "ERR")) => None,
            Err(error) => return Err(error),
        };
        let is_done = |kill: &RedisResult<Value>| match kill {
            Ok(_) => true,
            Err(error) => error.code().is_some(),
        };
        let done: Vec<_> = abandoned
            .iter()
            .zip(&kills)
            .filter(|(_, kill)| is_done(kill))
            .map(|(name, _)| name)
            .collect();
        lock(&self.shared.abandoned).retain(|old| !done.contains(&old));
        Ok(Link { connection, name, health: Arc::default() })
    }
}

impl ManageConnection for Manager {
    type Connection = Link;
    type Error = RedisError;

    async fn connect(&self) -> Result<Link, RedisError> {
        let silent = || (ErrorKind::Io, "no answer in time", self.shared.server.clone()).into();
        let link = timeout(CONNECT, self.dial()).await.unwrap_or_else(|_| Err(silent()))?;
        // Whatever a later failure is, this is not its cause any more.
        *lock(&self.shared.last_error) = None;
        Ok(link)
    }

    async fn is_valid(&self, _: &mut Link) -> Result<(), RedisError> {
        Ok(())
    }

    fn has_broken(&self, link: &mut Link) -> bool {
        link.is_given_up()
    }
}

impl bb8::ErrorSink<RedisError> for Manager {
    fn sink(&self, error: RedisError) {
        *lock(&self.shared.last_error) = Some(error);
    }

    fn boxed_clone(&self) -> Box<dyn bb8::ErrorSink<RedisError>> {
        Box::new(self.clone())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
