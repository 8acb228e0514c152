//! Chooses what a client is called and how its keys begin, and connects it.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "bb8")]
use bb8_redis::{RedisConnectionManager, bb8::Pool};

use super::locks::Locks;
use super::quorum::{QuorumLocks, connect_quorum, connect_quorum_lazy};
use crate::core::error::LockError;
use crate::keeper::{Keeper, Thread};
use crate::store::redis::{RedisStore, Settings};
use crate::store::{ClientId, ClientInfo, Store};

/// A client to be, from [`Locks::builder`].
#[derive(Clone, Debug)]
#[must_use = "it does nothing until it connects"]
pub struct LocksBuilder {
    settings: Settings,
    command_timeout: Option<Duration>,
    longest_ttl: Duration,
    is_durable: bool,
    service: Option<String>,
    hands_over: bool,
}

impl LocksBuilder {
    pub(crate) fn new() -> Self {
        Self {
            settings: Settings::default(),
            command_timeout: None,
            longest_ttl: Duration::from_secs(60),
            is_durable: false,
            service: None,
            hands_over: true,
        }
    }

    /// How all keys on the server begin, by default `leasehold`. Clients with
    /// different prefixes have different locks. Braces are refused.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.settings.prefix = prefix.into();
        self
    }

    /// What this service is called, for those who ask who holds a lock; by
    /// default the program's file name.
    pub fn service(mut self, name: impl Into<String>) -> Self {
        self.service = Some(name.into());
        self
    }

    /// Whether a mutex or a permit that is released goes to the next task of this process
    /// that waits for it, without a word to the server. By default it does: a lock that
    /// many tasks of a process want changes hands hundreds of times faster.
    ///
    /// It goes on for 20 ms at the most, and for 64 leases; then other processes have
    /// their turn, in the order they came. Without it each release goes to whoever
    /// waits first, in whatever process.
    pub fn hand_over_in_process(mut self, hands_over: bool) -> Self {
        self.hands_over = hands_over;
        self
    }

    /// How many connections carry the commands, 1 to 16; by default one, which carries
    /// many commands at once.
    ///
    /// All commands of a lock go by the same one, chosen by the lock's name. With more
    /// than one, [`Locks::all`] asks for locks of several connections one after another.
    /// On a cluster it changes nothing: there is one to each node.
    pub fn connections(mut self, count: usize) -> Self {
        self.settings.connections = count;
        self
    }

    /// How long making a connection may take, from 33 ms to 60 s; by default 1 s. The
    /// handshake is part of it, and so is asking sentinels where the master is. If a server
    /// does not answer, two more TCP connections are tried, after 300 and after 600 ms.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// How long the server has to answer a command, from 33 ms to 60 s; by default
    /// 500 ms, and 50 ms for each server of a quorum. A command of a lock has no longer than a third of its TTL, so that there
    /// is time for another.
    ///
    /// What was not answered in time may have run. It is sent again with the same id, or
    /// taken back.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = Some(timeout);
        self
    }

    /// For a quorum: the longest TTL that its leases may have, and the longest time that a
    /// lock is held at least; by default 60 s. A server that was started less than this
    /// ago may have lost locks that it granted, and does not count until it is over.
    ///
    /// All clients of the same servers have to choose the same: one that counts a server
    /// sooner than another's leases end lets a second holder in.
    pub fn longest_ttl(mut self, ttl: Duration) -> Self {
        self.longest_ttl = ttl;
        self
    }

    /// For a quorum: that its servers lose nothing when they are started anew, and so
    /// count at once. That is so with `appendonly yes` *and* `appendfsync always`, and
    /// for a quorum that is all new, such as that of a test; not for a server that takes
    /// another's place, of which the others may have granted locks with that.
    /// By default they are taken to lose everything. As with
    /// [`longest_ttl`](Self::longest_ttl), all clients have to say the same.
    pub fn assume_durable(mut self, is_durable: bool) -> Self {
        self.is_durable = is_durable;
        self
    }

    /// How many replicas must have a grant before it counts, and how long they have for
    /// that, 1 ms to 60 s; by default none. An acquisition that they do not have in time
    /// is taken back, and tried again until its wait is over.
    ///
    /// Redis copies to replicas after it has answered, so a failover can lose a grant
    /// that was just made, and a second holder is let in. This makes that rare, and not
    /// impossible: a replica that has it need not be the one that is promoted, and
    /// renewals, releases and tickets that are taken up do not wait. The fencing token is
    /// what holds then.
    ///
    /// While fewer replicas follow, nothing is granted; what is held goes on. So have one
    /// more than you ask for.
    ///
    /// It costs what the replicas take, for each acquisition, and at most 16 are under way
    /// at a time, each by a connection of its own. Leases that pass from task to task
    /// inside this process cost nothing. With `connect_pool`, on a cluster and on a
    /// quorum it is refused. A restricted user needs `+wait`.
    pub fn sync_replicas(mut self, count: usize, timeout: Duration) -> Self {
        self.settings.sync_replicas = Some((count, timeout));
        self
    }

    /// Connects to the Redis or Valkey server of a URL:
    ///
    /// | URL | leads to |
    /// |---|---|
    /// | `redis://user:password@host:port/db` | one server; all but the host may be left out |
    /// | `rediss://…` | the same by TLS (feature `tls`) |
    /// | `unix:///path?db=1&user=…&pass=…` | one server, by a socket of the file system |
    /// | `redis://user:password@a:7000,b:7001` | a cluster, by some of its nodes (feature `cluster`) |
    /// | `redis+sentinel://user:password@a,b:26379/name/db` | the master of this name, as the sentinels at these hosts know it; `rediss+sentinel://` speaks TLS to both |
    ///
    /// A single host that says that it is a node of a cluster is taken for the cluster.
    /// User and password are those of the servers; a sentinel's own are the options
    /// `?sentinel_user=…&sentinel_password=…`. What is special in them is
    /// percent-encoded. `?protocol=resp2` is for a server, or a proxy before it, that
    /// does not take to RESP3.
    ///
    /// When the connection breaks or the server turns out to be a replica, sentinels are
    /// asked again. So a failover costs the time that they need for it.
    ///
    /// On connecting, warnings (events of `tracing`) say what makes the server a bad
    /// place for locks, such as a policy of evicting keys.
    ///
    /// # Errors
    ///
    /// As of [`Locks::connect`]; [`LockError::InvalidOption`] also for a prefix
    /// that is empty, or has a brace or a control character in it, and for numbers and
    /// times out of their range.
    ///
    /// # Cancel safety
    ///
    /// Safe: the connection is closed.
    pub async fn connect(self, url: &str) -> Result<Locks, LockError> {
        let (thread, id) = (Thread::start()?, ClientId::random());
        let settings = self.settings(Duration::from_millis(500));
        let store = RedisStore::connect(url, &settings, id, thread.runtime()).await?;
        Ok(self.keep(thread, Arc::new(store), id))
    }

    /// Gives a client at once, and connects in the background: for a service that is to
    /// start while the server is away. The URLs are those of [`connect`](Self::connect).
    ///
    /// Until the server is there, locks behave as in an outage. An acquisition that waits
    /// waits on, one that does not fails after about a second with
    /// [`LockError::Store`], which says what the last try to connect met. A warning says
    /// once that the client is not connected yet, and an event of level INFO that it is. A
    /// wrong password, or a right that is missing, is no error here: it is in that warning
    /// and in the error of each acquisition.
    ///
    /// The client tries again for as long as it lives, at most 5 s after the last try, and
    /// at most 500 ms while somebody asks for a lock. The pauses are random in part.
    ///
    /// Prefer [`connect`](Self::connect) where a program that can't reach its server should
    /// end at once.
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidOption`] for a URL or an option that makes no sense. What only
    ///   the server can tell, such as that `sync_replicas` meets a cluster, is the error of
    ///   each acquisition instead.
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

    /// Connects by a pool that the program already has, of the [`bb8_redis`](crate::bb8_redis)
    /// that this crate re-exports, to one server that is no node of a cluster.
    ///
    /// A connection is taken, cloned and put back at once; the clone is used until it
    /// breaks. A pool does not see that a connection is dead: when the one it hands out
    /// does not answer, another is made by the pool's manager beside the pool. Prefer
    /// [`connect`](Self::connect) where you can:
    ///
    /// - No messages come by such connections, so who waits asks the server often, every
    ///   5 to 200 ms.
    /// - A connection that the pool made is driven by the runtime on which it was made. While
    ///   that is blocked nothing is renewed; when it ends, another connection is made.
    /// - The server answers in order: a slow command that others send by the same
    ///   connection holds up the locks' ones. No command that blocks may be sent by it.
    ///
    /// # Errors
    ///
    /// - [`LockError::Store`] if no connection is to be had, or the server refuses.
    /// - [`LockError::InvalidOption`] if the server is a node of a cluster, and as of
    ///   [`connect`](Self::connect).
    ///
    /// # Cancel safety
    ///
    /// Safe: the pool is left as it was.
    #[cfg(feature = "bb8")]
    pub async fn connect_pool(
        self,
        pool: Pool<RedisConnectionManager>,
    ) -> Result<Locks, LockError> {
        let (thread, id) = (Thread::start()?, ClientId::random());
        let settings = self.settings(Duration::from_millis(500));
        let store = RedisStore::connect_pool(pool, &settings, id, thread.runtime()).await?;
        Ok(self.keep(thread, Arc::new(store), id))
    }

    /// Connects to several servers that know nothing of each other, by a URL for each: an
    /// odd number of masters without replicas, three at least. A minority of them may be
    /// down, now or later.
    ///
    /// # Errors
    ///
    /// - [`LockError::Quorum`] if no majority of them can be reached, with what each
    ///   answered.
    /// - [`LockError::InvalidOption`] for an even number of them, for one that is given
    ///   twice, or that is no single server; and as of [`connect`](Self::connect).
    ///
    /// # Cancel safety
    ///
    /// Safe: the connections are closed.
    pub async fn connect_quorum<U: AsRef<str>>(
        self,
        urls: impl IntoIterator<Item = U>,
    ) -> Result<QuorumLocks, LockError> {
        let urls: Vec<U> = urls.into_iter().collect();
        let (thread, id) = (Thread::start()?, ClientId::random());
        let settings = self.settings_of_quorum();
        let store = connect_quorum(&urls, &settings, self.longest_ttl, id, thread.runtime());
        let store = store.await?;
        Ok(QuorumLocks::new(self.keep(thread, Arc::new(store), id)))
    }

    /// Gives the client of a quorum at once, and connects in the background: to
    /// [`connect_quorum`](Self::connect_quorum) what [`connect_lazy`](Self::connect_lazy) is
    /// to [`connect`](Self::connect). Once a majority of the servers is there, so are the
    /// locks.
    ///
    /// # Errors
    ///
    /// As of [`connect_lazy`](Self::connect_lazy); [`LockError::InvalidOption`] also for an
    /// even number of servers, and for one that is given twice or is no single server.
    pub fn connect_quorum_lazy<U: AsRef<str>>(
        self,
        urls: impl IntoIterator<Item = U>,
    ) -> Result<QuorumLocks, LockError> {
        let urls = urls.into_iter().map(|url| url.as_ref().to_owned()).collect();
        let (thread, id) = (Thread::start()?, ClientId::random());
        let settings = self.settings_of_quorum();
        let store = connect_quorum_lazy(urls, settings, self.longest_ttl, id, thread.runtime())?;
        Ok(QuorumLocks::new(self.keep(thread, Arc::new(store), id)))
    }

    fn settings_of_quorum(&self) -> Settings {
        let counts_after = (!self.is_durable).then_some(self.longest_ttl);
        Settings { counts_after, ..self.settings(Duration::from_millis(50)) }
    }

    fn settings(&self, command_timeout: Duration) -> Settings {
        let command_timeout = self.command_timeout.unwrap_or(command_timeout);
        Settings { command_timeout, ..self.settings.clone() }
    }

    fn keep(self, thread: Thread, store: Arc<dyn Store>, id: ClientId) -> Locks {
        let info = ClientInfo::of_process(id, self.service);
        Locks::new(store.clone(), Keeper::on(thread, store, info), id, self.hands_over)
    }
}
