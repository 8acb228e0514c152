//! A master watched by sentinels, which replace it when it is gone.

use std::collections::HashMap;
use std::time::Duration;

use redis::aio::MultiplexedConnection;

use crate::server::{Server, free_port};
use crate::tls::Wire;
use crate::waiting::{until, until_some};

/// One master, its replicas and three sentinels, on the loopback interface. They end
/// when this is dropped.
#[derive(Debug)]
pub struct Sentinel {
    servers: Vec<Server>,
    /// The port at which each server is known to the others and to clients.
    ports: Vec<u16>,
    sentinels: Vec<Server>,
    wire: Wire,
}

/// The sentinels' name for the master.
pub const NAME: &str = "mymaster";

/// A server with these arguments does not wait for more replicas before it sends its data.
const PROMPT: &[&str] = &["--repl-diskless-sync-delay", "0"];

impl Sentinel {
    /// Starts them, and waits until the sentinels know each other and the replicas follow the
    /// master. The sentinels declare it dead after this time without an answer.
    ///
    /// # Panics
    ///
    /// If they do not start, or do not find each other.
    pub async fn start(replicas: usize, dead_after: Duration) -> Self {
        Self::start_by(Wire::Plain, replicas, dead_after).await
    }

    /// The same over this wire.
    ///
    /// # Panics
    ///
    /// If they do not start, or do not find each other.
    pub async fn start_by(wire: Wire, replicas: usize, dead_after: Duration) -> Self {
        Self::start_all(wire, replicas, dead_after, async |server| server.public_port()).await
    }

    /// The same without TLS, with a port that leads to each server. All ask it there: clients,
    /// sentinels and replicas.
    ///
    /// # Panics
    ///
    /// If they do not start, or do not find each other.
    pub async fn start_behind(
        replicas: usize,
        dead_after: Duration,
        port_to: impl AsyncFnMut(&Server) -> u16,
    ) -> Self {
        Self::start_all(Wire::Plain, replicas, dead_after, port_to).await
    }

    async fn start_all(
        wire: Wire,
        replicas: usize,
        dead_after: Duration,
        mut port_to: impl AsyncFnMut(&Server) -> u16,
    ) -> Self {
        let (mut servers, mut ports) = (Vec::<Server>::new(), Vec::new());
        for _ in 0..=replicas {
            let server = start_server(wire);
            let port = port_to(&server).await;
            let mut redis = server.redis().await;
            let mut announce = redis::cmd("CONFIG");
            announce.arg("SET").arg("replica-announce-port").arg(port);
            announce.exec_async(&mut redis).await.expect("a server");
            if let Some(master) = ports.first() {
                let mut follow = redis::cmd("REPLICAOF");
                follow.arg("127.0.0.1").arg(master);
                follow.exec_async(&mut redis).await.expect("a server");
            }
            servers.push(server);
            ports.push(port);
        }
        for replica in &servers[1..] {
            until_linked(replica).await;
        }
        let of = format!("127.0.0.1 {}", ports[0]);
        let millis = dead_after.as_millis();
        let config = [
            format!("sentinel monitor {NAME} {of} 2"),
            format!("sentinel down-after-milliseconds {NAME} {millis}"),
            // The time after which a sentinel repeats a failover that failed.
            format!("sentinel failover-timeout {NAME} {}", millis * 4),
        ];
        let config = config.join("\n");
        let start = |_| {
            let start = |_| Server::try_start_sentinel(free_port(), &config, wire);
            (0..10).find_map(start).expect("redis-server starts as a sentinel")
        };
        let sentinel = Self { servers, ports, sentinels: (0..3).map(start).collect(), wire };
        for each in &sentinel.sentinels {
            let mut redis = each.redis().await;
            until("a sentinel knows the others", async || knows(&mut redis, replicas).await).await;
        }
        sentinel
    }

    /// The URL for clients.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_as("")
    }

    /// The same with a login for the servers, such as `user:password@`.
    #[must_use]
    pub fn url_as(&self, login: &str) -> String {
        format!("{}/{NAME}", self.wire.url("+sentinel", login, &self.sentinels))
    }

    /// The master and its replicas, in the order they were started.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The sentinels.
    #[must_use]
    pub fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// The current master, according to most sentinels and to itself. `None` during a
    /// failover.
    pub async fn master(&self) -> Option<&Server> {
        Some(&self.servers[self.place_of_master().await?])
    }

    async fn place_of_master(&self) -> Option<usize> {
        let mut votes = HashMap::<u16, usize>::new();
        for each in &self.sentinels {
            if let Some(port) = named(each).await {
                *votes.entry(port).or_default() += 1;
            }
        }
        let (port, _) = votes.into_iter().find(|(_, votes)| *votes >= 2)?;
        let place = self.ports.iter().position(|of| *of == port)?;
        let mut redis = self.servers[place].try_redis().await.ok()?;
        let role: Vec<redis::Value> = redis::cmd("ROLE").query_async(&mut redis).await.ok()?;
        let role: String = redis::from_redis_value(role.into_iter().next()?).ok()?;
        (role == "master").then_some(place)
    }

    /// The port of the current master, if all other servers follow it. `None` during a failover, and
    /// while a former master has not heard of it.
    pub async fn settled_master(&self) -> Option<u16> {
        let place = self.place_of_master().await?;
        let master = self.servers[place].port();
        for server in self.servers.iter().filter(|server| server.port() != master) {
            let mut redis = server.try_redis().await.ok()?;
            let info = redis::cmd("INFO").arg("replication").query_async(&mut redis).await;
            let info: String = info.ok()?;
            if !info.contains("master_link_status:up")
                || !info.contains(&format!("master_port:{}\r", self.ports[place]))
            {
                return None;
            }
        }
        Some(master)
    }

    /// Starts a server that was killed anew on its port, empty, as a replica of the current master,
    /// and waits until it has the master's data.
    ///
    /// # Panics
    ///
    /// If there are not so many, or it does not start.
    pub async fn restart_as_replica(&mut self, at: usize) {
        let started = async || {
            let of = format!("127.0.0.1 {}", self.ports[self.place_of_master().await?]);
            // A connection of somebody else may have the port for a moment.
            self.try_restart(at, &["--replicaof", &of])
        };
        self.servers[at] = until_some("it starts", started).await;
        until_linked(&self.servers[at]).await;
    }

    /// Starts a server that was killed anew on its port, empty, as a master.
    ///
    /// # Panics
    ///
    /// If there are not so many, or it does not start.
    pub async fn restart_as_master(&mut self, at: usize) {
        let started = async || self.try_restart(at, &[]);
        self.servers[at] = until_some("it starts", started).await;
    }

    fn try_restart(&self, at: usize, arguments: &[&str]) -> Option<Server> {
        let announced = self.ports[at].to_string();
        let arguments = [arguments, &["--replica-announce-port", &announced], PROMPT].concat();
        self.wire.try_start(self.servers[at].public_port(), &arguments)
    }

    /// Waits until another than `former` is the master.
    ///
    /// # Panics
    ///
    /// If that does not come about.
    pub async fn until_replaced(&self, former: &Server) -> &Server {
        until_some("another becomes the master", async || {
            self.master().await.filter(|master| master.port() != former.port())
        })
        .await
    }
}

fn start_server(wire: Wire) -> Server {
    let start = |_| wire.try_start(free_port(), PROMPT);
    (0..10).find_map(start).expect("redis-server starts")
}

/// The port of the master that a sentinel names.
async fn named(sentinel: &Server) -> Option<u16> {
    let mut redis = sentinel.try_redis().await.ok()?;
    let mut command = redis::cmd("SENTINEL");
    let address: (String, u16) =
        command.arg("GET-MASTER-ADDR-BY-NAME").arg(NAME).query_async(&mut redis).await.ok()?;
    Some(address.1)
}

/// True if a sentinel knows the two others, and replicas that follow.
async fn knows(redis: &mut MultiplexedConnection, replicas: usize) -> bool {
    let of = |what: &str| redis::cmd("SENTINEL").arg(what).arg(NAME).clone();
    let master: HashMap<String, String> = of("MASTER").query_async(redis).await.expect("MASTER");
    let all: Vec<HashMap<String, String>> =
        of("REPLICAS").query_async(redis).await.expect("REPLICAS");
    let follows = |replica: &&HashMap<String, String>| {
        let is = |field, value| replica.get(field).is_some_and(|is: &String| is == value);
        is("flags", "slave") && is("master-link-status", "ok")
    };
    master.get("num-other-sentinels").is_some_and(|others| others == "2")
        && all.iter().filter(follows).count() == replicas
}

/// Waits until a replica has all that its master has. A sentinel that changes its master ends its connections.
///
/// # Panics
///
/// If that does not come about.
pub async fn until_linked(replica: &Server) {
    let info = async || -> redis::RedisResult<String> {
        let mut redis = replica.try_redis().await?;
        redis::cmd("INFO").arg("replication").query_async(&mut redis).await
    };
    let is_linked = async || info().await.is_ok_and(|info| info.contains("master_link_status:up"));
    until("it follows its master", is_linked).await;
}
