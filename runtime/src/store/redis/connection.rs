//! Connections: made and replaced by a bb8 pool, shared by all commands.
//!
//! One connection carries many commands at once, so the pool's are cloned and
//! put back at once, never kept; checking each on checkout would double the
//! round trips. In exchange our manager, unlike bb8-redis' own, knows which
//! connection is broken: the commands say so, or the driver when it is closed.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bb8_redis::bb8::{ManageConnection, Pool, RunError};
#[cfg(feature = "cluster")]
use redis::ErrorKind;
use redis::{Cmd, RedisError, RedisResult, Value};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::sleep_until;

use super::errors::Fault;
use super::manager::Manager;
use super::server_state::{Health, Shared};
use super::wire::Wire;
use super::{errors, lock, subscriber};
use crate::store::StoreError;

/// A connection to one server, and those after it. Where a client has several at a
/// time, each has one of these.
pub(super) struct Connections {
    pool: Pool<Manager>,
    manager: Manager,
    /// The last one that was had, so that most commands do without the pool.
    last: Mutex<Option<Link>>,
    /// It is made anew though no command goes by it.
    is_recovering: AtomicBool,
    /// Hints by RESP2.
    keeping: Option<AbortHandle>,
}

impl Connections {
    /// Makes the first connection, and fails if that fails.
    pub(super) async fn open(manager: Manager) -> RedisResult<Self> {
        match Self::open_or_later(manager).await {
            (connections, None) => Ok(connections),
            (_, Some(error)) => Err(error),
        }
    }

    /// Makes the first connection; if that fails, with what it met, it is made later.
    pub(super) async fn open_or_later(manager: Manager) -> (Self, Option<RedisError>) {
        let first = manager.connect().await;
        let connections = Self::later(manager);
        let error = match first {
            Ok(first) => {
                // The pool is empty, so there is room; if not, it makes its own.
                let _ = connections.pool.add(first);
                None
            }
            Err(error) => Some(error),
        };
        (connections, error)
    }

    /// Makes the first connection when it is needed.
    pub(super) fn later(manager: Manager) -> Self {
        let pool = Pool::builder()
            .max_size(1)
            .test_on_check_out(false)
            .max_lifetime(None)
            .idle_timeout(None)
            .connection_timeout(manager.shared.settings.connect_timeout)
            .error_sink(Box::new(manager.clone()))
            .build_unchecked(manager.clone());
        let keeping = manager.hears.then(|| {
            let hearing = manager.clone();
            tokio::spawn(async move { subscriber::keep(&hearing).await }).abort_handle()
        });
        Self {
            pool,
            manager,
            last: Mutex::default(),
            is_recovering: AtomicBool::default(),
            keeping,
        }
    }

    /// A connection that is not known to be broken, for a command that may take `limit`.
    pub(super) async fn get(&self, limit: Duration) -> Result<Link, StoreError> {
        {
            let mut last = lock(&self.last);
            // One that was given up is closed when nobody keeps it.
            last.take_if(|link| link.is_given_up());
            if let Some(link) = &*last {
                return Ok(link.clone());
            }
        }
        let may_connect = self.manager.shared.may_connect(Instant::now(), limit);
        sleep_until(may_connect.into()).await;
        loop {
            match self.pool.get().await {
                Ok(link) if link.is_given_up() => {} // put back, the pool drops it
                Ok(link) => {
                    *lock(&self.last) = Some(link.clone());
                    return Ok(link.clone());
                }
                Err(RunError::User(error)) => return Err(errors::not_run(error)),
                Err(RunError::TimedOut) => return Err(self.manager.shared.no_connection()),
            }
        }
    }

    /// Makes it anew if it is lost, as the next command would.
    pub(super) fn recover(self: &Arc<Self>, runtime: &Handle) {
        let is_there = lock(&self.last).as_ref().is_some_and(|link| !link.is_given_up());
        if is_there || self.is_recovering.swap(true, Ordering::Relaxed) {
            return;
        }
        let connections = self.clone();
        runtime.spawn(async move {
            let limit = connections.manager.shared.settings.command_timeout;
            let _ = connections.get(limit).await; // who waits comes again
            connections.is_recovering.store(false, Ordering::Relaxed);
        });
    }

    /// What is known of the server.
    pub(super) fn shared(&self) -> &Shared {
        &self.manager.shared
    }

    /// Notes what a command on the connection met.
    pub(super) fn judge(&self, link: &Link, sent: Instant, fault: Fault) {
        self.manager.shared.judge(&link.health, sent, fault);
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        if let Some(keeping) = &self.keeping {
            keeping.abort();
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
    wire: Wire,
    pub(super) health: Arc<Health>,
}

impl Link {
    pub(super) fn new(wire: Wire, health: Arc<Health>) -> Self {
        Self { wire, health }
    }

    /// Sends a command; a server's error is an answer like any other.
    pub(super) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        self.wire.connection.send_packed_command(command).await
    }

    /// Sends a command to a node that its slot is on the way to. Nothing comes between the
    /// two.
    #[cfg(feature = "cluster")]
    pub(super) async fn send_asking(&mut self, command: &Cmd) -> RedisResult<Value> {
        let mut both = redis::pipe();
        both.cmd("ASKING").add_command(command.clone());
        let answers = self.wire.connection.send_packed_commands(&both, 0, 2).await?;
        // That it may not ask is the reason for whatever comes of the other.
        let answer = answers.into_iter().find(|it| *it != Value::Okay);
        answer.ok_or_else(|| (ErrorKind::Client, "no answer").into())
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
