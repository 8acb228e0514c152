//! A cluster's master dies, and its replica takes its slots over.

use std::time::Duration;

use super::counter::NAME;
use super::{DEAD, Replicated, a_lost_master_costs_no_update};
use leasehold::Locks;
use leasehold_tests::cluster::Cluster;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::until;
use redis::aio::MultiplexedConnection;

/// A cluster, and the slot of the counter's lock.
struct OneSlot {
    cluster: Cluster,
    slot: u16,
}

impl Replicated for OneSlot {
    async fn start() -> Self {
        let cluster = Cluster::start_with(1, DEAD).await;
        let slot = cluster.slot(NAME).await;
        Self { cluster, slot }
    }

    fn url(&self) -> String {
        self.cluster.url()
    }

    async fn master(&self) -> &Server {
        self.cluster.master_of(self.slot).await.expect("a master")
    }

    async fn until_replaced(&self, former: &Server) {
        self.cluster.until_taken_over(self.slot, former).await;
    }
}

a_lost_master_costs_no_update!(OneSlot);

async fn tell(redis: &mut [MultiplexedConnection], command: &str) {
    for redis in redis {
        let mut words = redis::Cmd::new();
        words.arg(command.split(' ').collect::<Vec<_>>());
        words.exec_async(redis).await.unwrap();
    }
}

/// After a failover all clients reconnect at once. If a node has no room for a connection, the
/// command did not run, and a retry may help.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_outlast_full_nodes() {
    let cluster = Cluster::start().await;
    let locks = Locks::connect(&cluster.url()).await.unwrap();
    let mut nodes = Vec::new();
    for node in cluster.nodes() {
        nodes.push(node.redis().await);
    }
    tell(&mut nodes, "CONFIG SET maxclients 1").await;
    tell(&mut nodes, "CLIENT KILL TYPE normal SKIPME yes").await;
    let waiting = locks.mutex("full").wait(Duration::from_secs(60));
    let waiting = tokio::spawn(async move { waiting.lock().await });
    // The second refusal shows that the client asks again.
    until("it is refused twice", async || {
        assert!(!waiting.is_finished(), "it does not wait");
        for node in &mut nodes {
            let stats: String = redis::cmd("INFO").arg("stats").query_async(node).await.unwrap();
            let refusals = stats.lines().find_map(|it| it.strip_prefix("rejected_connections:"));
            if refusals.unwrap().trim().parse::<u32>().unwrap() > 1 {
                return true;
            }
        }
        false
    })
    .await;
    tell(&mut nodes, "CONFIG SET maxclients 100").await;
    waiting.await.unwrap().unwrap().release().await.unwrap();
}
