//! How a replica takes the slots of its master over, when a test wants it.

use std::time::Duration;

use tokio::time::timeout;

use super::slots::owner;
use super::{Cluster, id, nodes};
use crate::sentinel::until_linked;
use crate::server::Server;
use crate::waiting::{until, until_some, work_for};

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
        work_for(frozen_for).await;
        drop(frozen);
        self.settle(slot, former, replica).await;
        has_taken_over
    }

    /// The master of a slot and its replica.
    async fn pair(&self, slot: u16) -> (&Server, &Server) {
        until_some("the slot's master has a replica", async || {
            let master = self.until_master_of(slot).await;
            let of_master = format!("myself,slave {}", id(master).await);
            for node in &self.nodes {
                if nodes(&mut node.redis().await).await.contains(&of_master) {
                    return Some((master, node));
                }
            }
            None
        })
        .await
    }

    /// Waits until one of the two is the master of the slot, all nodes know which, and the other one
    /// follows it.
    async fn settle(&self, slot: u16, one: &Server, other: &Server) {
        until("the nodes agree on the slot's master", async || {
            let mut owners = Vec::new();
            for node in &self.nodes {
                owners.push(owner(node, slot).await.map(|owner| owner.id));
            }
            owners.dedup();
            let is_agreed = matches!(owners[..], [Some(_)]);
            is_agreed && is_master(one).await != is_master(other).await
        })
        .await;
        until_linked(if is_master(one).await { other } else { one }).await;
    }
}

/// Asks a replica to become the master. False if it does not.
async fn take_over(replica: &Server, how: &[&str]) -> bool {
    let mut redis = replica.redis().await;
    let asked = redis::cmd("CLUSTER").arg("FAILOVER").arg(how).exec_async(&mut redis).await;
    let taken_over = until("it is the master", async || is_master(replica).await);
    asked.is_ok() && timeout(PATIENCE, taken_over).await.is_ok()
}

async fn is_master(node: &Server) -> bool {
    nodes(&mut node.redis().await).await.contains("myself,master")
}
