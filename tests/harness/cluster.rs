//! A cluster of a test's own: three masters, which share the slots.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;

use crate::server::{Server, free_port};

/// Three masters without replicas, on the loopback interface. They end when this
/// is dropped, and the folder of their tables goes.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
    folder: PathBuf,
}

const SLOTS: [[u16; 2]; 3] = [[0, 5460], [5461, 10922], [10923, 16383]];

impl Cluster {
    /// Starts the servers, and waits until each takes the cluster for whole.
    ///
    /// # Panics
    ///
    /// If they do not start, or do not find each other.
    pub async fn start() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("leasehold-cluster-{name}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut cluster = Self { nodes: Vec::new(), folder };
        for slots in SLOTS {
            let node = cluster.start_node();
            let mut redis = node.redis().await;
            command(&mut redis, &["ADDSLOTSRANGE"], &slots).await;
            // Of two nodes with the same epoch one would have to find another.
            command(&mut redis, &["SET-CONFIG-EPOCH"], &[slots[1]]).await;
            if let Some(first) = cluster.nodes.first() {
                command(&mut redis, &["MEET", "127.0.0.1"], &[first.port()]).await;
            }
            cluster.nodes.push(node);
        }
        let whole = async {
            for node in &cluster.nodes {
                while !is_whole(&mut node.redis().await).await {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(30), whole).await.expect("they find each other");
        cluster
    }

    fn start_node(&self) -> Server {
        // Another process may take a port between the two binds.
        let start = |_| {
            let port = port_with_a_bus();
            let table = self.folder.join(format!("{port}.conf"));
            let table = table.to_str().expect("UTF-8");
            let arguments = ["--cluster-enabled", "yes", "--cluster-config-file", table];
            Server::try_start(port, &arguments, None)
        };
        (0..10).find_map(start).expect("a redis-server with a cluster's bus")
    }

    /// The masters.
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
        let nodes = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port()));
        format!("redis://{login}{}", nodes.collect::<Vec<_>>().join(","))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.clear();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

async fn command(redis: &mut MultiplexedConnection, words: &[&str], numbers: &[u16]) {
    let mut command = redis::cmd("CLUSTER");
    command.arg(words).arg(numbers).exec_async(redis).await.expect("a node of a cluster");
}

/// Whether a node knows who has each slot, and that they are there.
async fn is_whole(redis: &mut MultiplexedConnection) -> bool {
    let info: String =
        redis::cmd("CLUSTER").arg("INFO").query_async(redis).await.expect("a node of a cluster");
    ["cluster_state:ok", "cluster_slots_ok:16384", "cluster_size:3"]
        .iter()
        .all(|line| info.contains(line))
}

/// A port that nobody listens on, nor 10,000 above, where the nodes talk.
fn port_with_a_bus() -> u16 {
    loop {
        let port = free_port();
        if port < 50_000 && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            return port;
        }
    }
}
