//! The ways in which a [`LocksBuilder`] connects.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "bb8")]
use bb8_redis::{RedisConnectionManager, bb8::Pool};

use super::LocksBuilder;
use crate::api::locks::Locks;
use crate::core::error::LockError;
use crate::core::timers::check_timers;
use crate::engine::shared::Shared;
use crate::keeper::{Keeper, Thread};
use crate::store::redis::{RedisStore, Settings};
use crate::store::{ClientId, ClientInfo, Store};

impl LocksBuilder {
    /// Connects to one server, a cluster, or a master known to sentinels, and waits for the
    /// connection.
    ///
    /// | URL | leads to |
    /// |---|---|
    /// | `redis://user:password@host:port/db` | one server; everything but the host is optional |
    /// | `rediss://…` | the same over TLS (feature `tls`) |
    /// | `unix:///path?db=1&user=…&pass=…` | one server, over a Unix socket |
    /// | `redis://user:password@a:7000,b:7001` | a cluster, through some of its nodes (feature `cluster`) |
    /// | `redis+sentinel://user:password@a,b:26379/name/db` | the master with this name, as the sentinels at these hosts know it; `rediss+sentinel://` uses TLS for both |
    ///
    /// If a single host says that it is a node of a cluster, the client uses the cluster.
    /// User and password are those of the servers. A sentinel's own are the options
    /// `?sentinel_user=…&sentinel_password=…`. Percent-encode special characters in them.
    /// Add `?protocol=resp2` for a server or a proxy that does not support RESP3.
    ///
    /// With sentinels: when the connection breaks, or the server turns out to be a replica,
    /// the client asks the sentinels again. So the outage of a failover lasts until the
    /// sentinels have promoted a new master.
    ///
    /// On connecting, the client logs a warning for each setting of the server that is
    /// dangerous for locks, such as a policy that evicts keys.
    ///
    /// # Errors
    ///
    /// - [`LockError::Store`] if the server can't be reached in time, or refuses; if it is no
    ///   Redis server, a replica, or does not let this user run scripts. The text names the
    ///   cause and the cure; it contains host and port, and never the password.
    /// - [`LockError::InvalidOption`] if the URL is malformed or needs a missing feature,
    ///   if the prefix is empty or contains a brace or a control character, or if a number
    ///   or a time is out of its range.
    /// - [`LockError::NoRuntime`] outside of a Tokio runtime with timers.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future closes the connection.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::LockError> {
    /// use leasehold::Locks;
    ///
    /// let locks = Locks::builder().prefix("shop").connect("redis://127.0.0.1/").await?;
    /// locks.install();
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(self, url: &str) -> Result<Locks, LockError> {
        check_timers()?;
        let (thread, id) = (Thread::start()?, ClientId::random());
        let settings = self.settings(Duration::from_millis(500));
        let store = RedisStore::connect(url, &settings, id, thread.runtime()).await?;
        Ok(self.keep(thread, Arc::new(store), id))
    }

    /// Returns a client at once and connects in the background, so that a service can start
    /// while its server is down. The URLs are those of [`connect`](Self::connect).
    ///
    /// Until the server is there, locks behave as in an outage. An acquisition with a wait
    /// goes on waiting. One without a wait fails after about a second with
    /// [`LockError::Store`], which contains the last connection error. A wrong password or
    /// a missing permission is not an error here: it appears in the log and in the error of
    /// each acquisition.
    ///
    /// The client logs one warning that it is not connected yet, and another one each time
    /// the cause changes between a temporary and a lasting one. When it is connected, it
    /// logs that at level INFO. It never gives up. It tries again within 5 s, and within 500
    /// ms while somebody asks for a lock. The pauses are partly random.
    ///
    /// Prefer [`connect`](Self::connect) if the program should end when it can't reach its
    /// server.
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidOption`] if the URL is malformed or needs a missing feature,
    ///   or if a setting is out of its range. A mistake that only the server can show, such
    ///   as `sync_replicas` on a node of a cluster, is the error of each acquisition
    ///   instead.
    /// - [`LockError::Store`] if the system refuses the client's thread.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), leasehold::LockError> {
    /// use leasehold::Locks;
    ///
    /// let locks = Locks::builder().service("billing").connect_lazy("redis://127.0.0.1/")?;
    /// locks.install();
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_lazy(self, url: &str) -> Result<Locks, LockError> {
        let (thread, id) = (Thread::start()?, ClientId::random());
        let settings = self.settings(Duration::from_millis(500));
        let store = RedisStore::connect_lazy(url, &settings, id, thread.runtime())?;
        Ok(self.keep(thread, Arc::new(store), id))
    }

    /// Connects to one server through a bb8 pool that the program already has. The pool's
    /// types come from the re-export [`bb8_redis`](crate::bb8_redis). The server must not
    /// be a node of a cluster.
    ///
    /// The client lets the pool's manager make connections of its own, one unless
    /// [`connections`](Self::connections) says otherwise, beyond the pool's `max_size`.
    /// They are never in the pool, so nobody else can send on them: a `SELECT` or an open
    /// `MULTI` would move the locks to another database. The locks are in the database of
    /// the manager's URL, whatever a `connection_customizer` of the pool selects.
    ///
    /// Prefer [`connect`](Self::connect) where you can: over these connections no hints
    /// come, so waiters ask the server often, every 5 to 200 ms.
    ///
    /// # Errors
    ///
    /// - [`LockError::Store`] if the server can't be reached in time, or refuses; if it is a
    ///   replica, or does not let this user run scripts.
    /// - [`LockError::InvalidOption`] if the server is a node of a cluster, if
    ///   `sync_replicas` is set, or if another setting is out of its range.
    /// - [`LockError::NoRuntime`] outside of a Tokio runtime with timers.
    ///
    /// # Cancel safety
    ///
    /// Safe: the pool stays as it was.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::Locks;
    /// use leasehold::bb8_redis::{RedisConnectionManager, bb8::Pool};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let manager = RedisConnectionManager::new("redis://127.0.0.1/")?;
    /// let pool = Pool::builder().build(manager).await?;
    /// let locks = Locks::builder().connect_pool(pool).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "bb8")]
    pub async fn connect_pool(
        self,
        pool: Pool<RedisConnectionManager>,
    ) -> Result<Locks, LockError> {
        check_timers()?;
        let (thread, id) = (Thread::start()?, ClientId::random());
        let settings = self.settings(Duration::from_millis(500));
        let store = RedisStore::connect_pool(pool, &settings, id, thread.runtime()).await?;
        Ok(self.keep(thread, Arc::new(store), id))
    }

    pub(super) fn settings(&self, command_timeout: Duration) -> Settings {
        let command_timeout = self.command_timeout.unwrap_or(command_timeout);
        Settings { command_timeout, ..self.settings.clone() }
    }

    pub(super) fn keep(self, thread: Thread, store: Arc<dyn Store>, id: ClientId) -> Locks {
        let info = ClientInfo::of_process(id, self.service);
        Locks::new(Shared::new(store.clone(), Keeper::on(thread, store, info), id, self.hands_over))
    }
}
