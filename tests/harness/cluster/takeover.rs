//! How a replica takes the slots of its master over, when a test wants it.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::slots::owner;
use super::{Cluster, PAUSE, SOON, id, nodes};
use crate::sentinel::until_linked;
use crate::server::Server;

/// A replica takes over within this time, or its request was refused. That happens after slots have
/// moved: two masters may have the same epoch, until they have noticed.
const PATIENCE: Duration = Duration::from_secs(8);

impl Cluster {
    /// The present masters, according to themselves.
    ///
    /// # Panics
    ///
    /// If a node does not answer.
    pub async fn masters(&self) -> Vec<&Server> {
        let mut masters = Vec::new();
        for node in &self.nodes {
            if is_master(node).await {
                masters.push(node);
            }
        }
        masters
    }

    /// Lets the master of a slot hand over to its replica, which has all of its data then. False if
    /// the replica did not take over.
    ///
    /// # Panics
    ///
    /// If the nodes do not agree afterwards.
    pub async fn hand_over(&self, slot: u16) -> bool {
        let (former, replica) = self.pair(slot).await;
        let has_taken_over = take_over(replica, &[]).await;
        self.settle(slot, former, replica).await;
        has_taken_over
    }

    /// Freezes the master of a slot, and lets its replica take over without it. The replica may lack
    /// the last changes. The former master goes on after this time, and may be asked before it knows
    /// of the other. False if the replica did not take over.
    ///
    /// # Panics
    ///
    /// If the nodes do not agree afterwards.
    pub async fn fail_over(&self, slot: u16, frozen_for: Duration) -> bool {
        let (former, replica) = self.pair(slot).await;
        let frozen = former.freeze().await;
        let has_taken_over = take_over(replica, &["FORCE"]).await;
        sleep(frozen_for).await;
        drop(frozen);
        self.settle(slot, former, replica).await;
        has_taken_over
    }

    /// The master of a slot and its replica.
    async fn pair(&self, slot: u16) -> (&Server, &Server) {
        let pair = async {
            loop {
                let master = self.until_master_of(slot).await;
                let of_master = format!("myself,slave {}", id(master).await);
                for node in &self.nodes {
                    if nodes(&mut node.redis().await).await.contains(&of_master) {
                        return (master, node);
                    }
                }
                sleep(PAUSE).await;
            }
        };
        timeout(SOON, pair).await.expect("a master that has a replica")
    }

    /// Waits until one of the two is the master of the slot, all nodes know which, and the other one
    /// follows it.
    async fn settle(&self, slot: u16, one: &Server, other: &Server) {
        let settled = async {
            loop {
                let mut owners = Vec::new();
                for node in &self.nodes {
                    owners.push(owner(node, slot).await.map(|owner| owner.id));
                }
                owners.dedup();
                let is_agreed = matches!(owners[..], [Some(_)]);
                if is_agreed && is_master(one).await != is_master(other).await {
                    return;
                }
                sleep(PAUSE).await;
            }
        };
        timeout(SOON, settled).await.expect("the nodes agree");
        until_linked(if is_master(one).await { other } else { one }).await;
    }
}

/// Asks a replica to become the master. False if it does not.
async fn take_over(replica: &Server, how: &[&str]) -> bool {
    let mut redis = replica.redis().await;
    let asked = redis::cmd("CLUSTER").arg("FAILOVER").arg(how).exec_async(&mut redis).await;
    let until = Instant::now() + PATIENCE;
    while asked.is_ok() && Instant::now() < until {
        if is_master(replica).await {
            return true;
        }
        sleep(PAUSE).await;
    }
    false
}

async fn is_master(node: &Server) -> bool {
    nodes(&mut node.redis().await).await.contains("myself,master")
}
