//! A cluster of a test's own: three masters, which share the slots, and their replicas.

mod slots;
mod takeover;

use std::net::TcpListener;
use std::time::Duration;

use redis::aio::MultiplexedConnection;

use crate::sentinel::until_linked;
use crate::server::{Server, free_port};
use crate::skew::Clock;
use crate::tls::Wire;
use crate::waiting::until;

/// Three masters on the loopback interface, each with as many replicas. They end when
/// this is dropped.
#[derive(Debug)]
pub struct Cluster {
    /// The masters as they were in the beginning, then the replicas.
    nodes: Vec<Server>,
    wire: Wire,
}

const SLOTS: [[u16; 2]; 3] = [[0, 5460], [5461, 10922], [10923, 16383]];

impl Cluster {
    /// Starts three masters without replicas, and waits until each reports a complete cluster.
    ///
    /// # Panics
    ///
    /// If they do not start, or do not find each other.
    pub async fn start() -> Self {
        // No replica could replace a slow master.
        Self::start_with(0, Duration::from_secs(15)).await
    }

    /// Starts three masters with this many replicas each. A replica takes over when its master has
    /// not answered for `dead_after`.
    ///
    /// # Panics
    ///
    /// If they do not start, or do not find each other.
    pub async fn start_with(replicas: usize, dead_after: Duration) -> Self {
        Self::start_by(Wire::Plain, replicas, dead_after).await
    }

    /// The same over this wire.
    ///
    /// # Panics
    ///
    /// If they do not start, or do not find each other.
    pub async fn start_by(wire: Wire, replicas: usize, dead_after: Duration) -> Self {
        let mut cluster = Self { nodes: Vec::new(), wire };
        for slots in SLOTS {
            let node = start_node(wire, dead_after);
            let mut redis = node.redis().await;
            let all: Vec<_> = (slots[0]..=slots[1]).collect();
            // `ADDSLOTSRANGE` is newer than the oldest server under test.
            command(&mut redis, &["ADDSLOTS"], &all).await;
            // Two nodes with the same epoch would first have to resolve that.
            command(&mut redis, &["SET-CONFIG-EPOCH"], &[slots[1]]).await;
            cluster.join(node).await;
        }
        for _ in 0..replicas * SLOTS.len() {
            cluster.join(start_node(wire, dead_after)).await;
        }
        cluster.until("cluster_size:3").await;
        cluster.until(&format!("cluster_known_nodes:{}", cluster.nodes.len())).await;
        let (masters, others) = cluster.nodes.split_at(SLOTS.len());
        for (replica, master) in others.iter().zip(masters.iter().cycle()) {
            let id = id(master).await;
            command(&mut replica.redis().await, &["REPLICATE", &id], &[]).await;
        }
        for replica in others {
            until_linked(replica).await;
        }
        // A master must know a replica before it can vote for it.
        for node in &cluster.nodes {
            let mut redis = node.redis().await;
            until("a node knows the replicas", async || {
                nodes(&mut redis).await.matches("slave ").count() == others.len()
            })
            .await;
        }
        cluster.until("cluster_state:ok").await;
        cluster
    }

    /// Adds a node, and introduces it to the first of the others.
    async fn join(&mut self, node: Server) {
        if let Some(first) = self.nodes.first() {
            command(&mut node.redis().await, &["MEET", "127.0.0.1"], &[first.public_port()]).await;
        }
        self.nodes.push(node);
    }

    /// Waits until each node reports this line about the cluster.
    async fn until(&self, line: &str) {
        for node in &self.nodes {
            let mut redis = node.redis().await;
            until(line, async || info(&mut redis).await.lines().any(|said| said == line)).await;
        }
    }

    /// A cluster of one node, whose wall clock is moved by [`Server::jump`].
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub async fn start_skewed_node() -> Server {
        let start = |_| {
            Server::try_start(port_with_a_bus(), &["--cluster-enabled", "yes"], Some(Clock::new()))
        };
        let node = (0..10).find_map(start).expect("a redis-server with a cluster's bus");
        let all: Vec<_> = (0..=SLOTS[2][1]).collect();
        command(&mut node.redis().await, &["ADDSLOTS"], &all).await;
        let cluster = Self { nodes: vec![node], wire: Wire::Plain };
        cluster.until("cluster_state:ok").await;
        cluster.nodes.into_iter().next().expect("there is one")
    }

    /// Lets each node tell clients and replicas another port, which must lead to the node. Returns
    /// when all nodes tell those ports of all.
    ///
    /// # Panics
    ///
    /// If a node refuses.
    pub async fn announce(&self, ports: &[u16]) {
        for (node, port) in self.nodes.iter().zip(ports) {
            let mut announce = redis::cmd("CONFIG");
            announce.arg("SET").arg("cluster-announce-port").arg(port);
            announce.exec_async(&mut node.redis().await).await.expect("a node of a cluster");
        }
        for node in &self.nodes {
            let mut redis = node.redis().await;
            until("a node has heard of the ports", async || {
                let told = nodes(&mut redis).await;
                ports.iter().all(|port| told.contains(&format!(" 127.0.0.1:{port}@")))
            })
            .await;
        }
    }

    /// The masters, as they were in the beginning, and then their replicas: the first
    /// of the first, the first of the second and so on.
    #[must_use]
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// The URL for clients.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_as("")
    }

    /// The same with a login, such as `user:password@`.
    #[must_use]
    pub fn url_as(&self, login: &str) -> String {
        self.wire.url("", login, &self.nodes)
    }
}

fn start_node(wire: Wire, dead_after: Duration) -> Server {
    let timeout = dead_after.as_millis().to_string();
    let arguments = [
        &["--cluster-enabled", "yes", "--cluster-node-timeout", &timeout][..],
        &["--repl-diskless-sync-delay", "0"],
    ];
    // Another process may take a port between the two binds.
    let start = |_| wire.try_start(port_with_a_bus(), &arguments.concat());
    (0..10).find_map(start).expect("a redis-server with a cluster's bus")
}

async fn command(redis: &mut MultiplexedConnection, words: &[&str], numbers: &[u16]) {
    let mut command = redis::cmd("CLUSTER");
    command.arg(words).arg(numbers).exec_async(redis).await.expect("a node of a cluster");
}

/// The state of the cluster according to a node.
async fn info(redis: &mut MultiplexedConnection) -> String {
    redis::cmd("CLUSTER").arg("INFO").query_async(redis).await.expect("a node of a cluster")
}

/// The nodes, as one of them knows them.
async fn nodes(redis: &mut MultiplexedConnection) -> String {
    redis::cmd("CLUSTER").arg("NODES").query_async(redis).await.expect("a node of a cluster")
}

/// The id of a node.
async fn id(node: &Server) -> String {
    let mut redis = node.redis().await;
    redis::cmd("CLUSTER").arg("MYID").query_async(&mut redis).await.expect("a node of a cluster")
}

/// A free port whose bus port, 10,000 above, is free as well.
fn port_with_a_bus() -> u16 {
    loop {
        let port = free_port();
        if port < 50_000 && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            return port;
        }
    }
}
