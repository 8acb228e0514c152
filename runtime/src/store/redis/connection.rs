//! Connections: made and replaced by a bb8 pool, shared by all commands.
//!
//! One connection carries many commands at once, so the pool's are cloned and
//! put back at once, never kept; checking each on checkout would double the
//! round trips. In exchange our manager, unlike bb8-redis' own, knows which
//! connection is broken: the commands say so, or the driver when it is closed.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bb8_redis::bb8::{ManageConnection, Pool, RunError};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, ConnectionInfo, ErrorKind, RedisResult, Value};
use tokio::task::AbortHandle;

use super::dial::Manager;
use super::fault::{self, Fault};
use super::health::Health;
use super::hints::Ears;
use super::{lock, subscriber};
use crate::store::StoreError;

/// How long a connection may be silent before it is given up, and the most that
/// a command may take.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

/// How long making a connection may take, with its handshake.
pub(super) const CONNECT: Duration = Duration::from_secs(1);

/// The connections to one server.
pub(super) struct Connections {
    pool: Pool<Manager>,
    manager: Manager,
    /// The last one that was had, so that most commands do without the pool.
    last: Mutex<Option<Link>>,
    keeping: AbortHandle,
}

impl Connections {
    /// Makes the first connection, and fails if that fails.
    pub(super) async fn open(info: ConnectionInfo, ears: Ears) -> RedisResult<Self> {
        let manager = Manager::new(info, ears)?;
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
        let hearing = manager.clone();
        let keeping = tokio::spawn(async move { subscriber::keep(&hearing).await });
        Ok(Self { pool, manager, last: Mutex::default(), keeping: keeping.abort_handle() })
    }

    /// A connection that is not known to be broken.
    pub(super) async fn get(&self) -> Result<Link, StoreError> {
        {
            let mut last = lock(&self.last);
            // One that was given up is closed when nobody keeps it.
            last.take_if(|link| link.is_given_up());
            if let Some(link) = &*last {
                return Ok(link.clone());
            }
        }
        loop {
            match self.pool.get().await {
                Ok(link) if link.is_given_up() => {} // put back, the pool drops it
                Ok(link) => {
                    *lock(&self.last) = Some(link.clone());
                    return Ok(link.clone());
                }
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
        self.manager.shared.judge(&link.health, sent, fault);
    }

    pub(super) fn ears(&self) -> &Ears {
        &self.manager.shared.ears
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.keeping.abort();
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections")
            .field("server", &self.manager.shared.server)
            .finish_non_exhaustive()
    }
}

/// The pauses between tries to connect: each twice as long as the one before, up
/// to 5 s, and of a random length, so that clients do not all come back at once.
#[derive(Default)]
pub(super) struct Pauses(u32);

impl Pauses {
    const FIRST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(5);

    pub(super) fn next(&mut self) -> Duration {
        let pause = (Self::FIRST * (1 << self.0)).min(Self::LONGEST);
        self.0 = (self.0 + 1).min(6);
        pause.mul_f64(0.5 + 0.5 * fastrand::f64())
    }
}

/// One connection; a clone is the same one.
#[derive(Clone)]
pub(super) struct Link {
    connection: MultiplexedConnection,
    health: Arc<Health>,
}

impl Link {
    pub(super) fn new(connection: MultiplexedConnection, health: Arc<Health>) -> Self {
        Self { connection, health }
    }

    /// Sends a command; a server's error is an answer like any other.
    pub(super) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        self.connection.send_packed_command(command).await
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.health.is_given_up()
    }

    /// Whether it is known to lead to one server. A proxy that spreads keys over several,
    /// by the first key of a call, has no answer to what a connection is called.
    pub(super) fn is_direct(&self) -> bool {
        self.health.name.get().is_some()
    }
}
