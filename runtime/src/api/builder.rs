//! Settings of a client: its name, its keys' prefix, its time-outs and its durability.

mod connect;
#[cfg(feature = "quorum")]
mod quorum;

use std::time::Duration;

use crate::store::redis::Settings;

/// Settings of a client that is not connected yet, from
/// [`Locks::builder`](crate::Locks::builder).
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use leasehold::Locks;
///
/// # async fn example() -> Result<(), leasehold::LockError> {
/// let builder = Locks::builder().service("billing").command_timeout(Duration::from_millis(200));
/// let locks = builder.connect("redis://127.0.0.1/").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "it does nothing until it connects"]
pub struct LocksBuilder {
    settings: Settings,
    command_timeout: Option<Duration>,
    #[cfg(feature = "quorum")]
    quorum: QuorumSettings,
    service: Option<String>,
    hands_over: bool,
}

/// The settings of a quorum alone.
#[cfg(feature = "quorum")]
#[derive(Clone, Debug)]
struct QuorumSettings {
    longest_ttl: Duration,
    is_durable: bool,
}

#[cfg(feature = "quorum")]
impl Default for QuorumSettings {
    fn default() -> Self {
        Self { longest_ttl: Duration::from_secs(60), is_durable: false }
    }
}

impl LocksBuilder {
    pub(crate) fn new() -> Self {
        Self {
            settings: Settings::default(),
            command_timeout: None,
            #[cfg(feature = "quorum")]
            quorum: QuorumSettings::default(),
            service: None,
            hands_over: true,
        }
    }

    /// The prefix of all keys on the server: `leasehold` by default. It must not be empty,
    /// and must not contain braces or control characters.
    ///
    /// Clients with different prefixes have different locks.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.settings.prefix = prefix.into();
        self
    }

    /// The name of this service in [`ClientInfo`](crate::ClientInfo), which shows operators
    /// who holds a lock. The default is the program's file name.
    pub fn service(mut self, name: impl Into<String>) -> Self {
        self.service = Some(name.into());
        self
    }

    /// Lets a released mutex or permit go directly to the next waiter in this process,
    /// without asking the server. The default is `true`.
    ///
    /// If many tasks of one process want the same lock, it changes hands hundreds of times
    /// faster. A process keeps a lock in this way for at most 20 ms or 64 leases, whichever
    /// ends first. Then waiters in other processes have their turn, in the order in which
    /// they came.
    ///
    /// With `false`, each release goes to the first waiter, whichever process it is in.
    pub fn hand_over_in_process(mut self, hands_over: bool) -> Self {
        self.hands_over = hands_over;
        self
    }

    /// How many connections carry the commands: 1 to 16, by default 1. One connection
    /// carries many commands at the same time.
    ///
    /// All commands of a lock use the same connection, which the lock's name selects. With
    /// more than one, [`Locks::all`](crate::Locks::all) acquires locks of different
    /// connections one after another. A cluster ignores this setting: there, each node has
    /// one connection.
    pub fn connections(mut self, count: usize) -> Self {
        self.settings.connections = count;
        self
    }

    /// How long it may take to make a connection: 33 ms to 60 s, by default 1 s.
    ///
    /// The handshake counts, and so does asking the sentinels for the master. If a server
    /// does not answer, the client tries two more TCP connections, after 300 ms and after
    /// 600 ms.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// How long the server has to answer a command: 33 ms to 60 s. The default is 500 ms,
    /// and 50 ms for each server of a quorum.
    ///
    /// A command for a lease gets at most a third of the lease's TTL, so that there is time
    /// for another attempt. A command that was not answered in time may still have run. The
    /// client sends it again with the same id, or takes it back.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = Some(timeout);
        self
    }

    /// How many replicas must confirm a grant before it counts, and how long they may take:
    /// 1 ms to 60 s. By default none is asked.
    ///
    /// If the replicas do not confirm in time, the client takes the grant back, and tries
    /// again until its wait is over.
    ///
    /// Redis replicates after it has answered. So a failover can lose a fresh grant and let
    /// in a second holder. This setting makes that rare, but not impossible: a replica
    /// without the grant may be promoted, and renewals, releases and adoptions do not wait
    /// for replicas. The fencing token protects the resource even then.
    ///
    /// While too few replicas are connected, nothing is granted, and held leases go on. So
    /// run one replica more than you ask for.
    ///
    /// Each acquisition takes as long as the replicas need. At most 16 wait for replicas at
    /// the same time, each on a connection of its own. Leases that are handed over inside
    /// this process cost nothing extra. A restricted user needs `+wait`. A pool of your
    /// own, a cluster and a quorum refuse this setting.
    pub fn sync_replicas(mut self, count: usize, timeout: Duration) -> Self {
        self.settings.sync_replicas = Some((count, timeout));
        self
    }
}
