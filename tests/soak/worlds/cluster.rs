//! A cluster of three masters, between which the slot of most locks moves. Each has a replica, which
//! may take over. One link leads to each node, for all clients and for its replica.

use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use leasehold_history::Effect;
use leasehold_tests::cluster::Cluster;

use super::{World, disturb_one};
use crate::Failure;
use crate::clock::{millis, now};
use crate::journal::Journal;
use crate::links::{self, Link};

/// After this time without an answer a master counts as dead: longer than any is frozen, so each
/// failover is the director's.
const DEAD: Duration = Duration::from_secs(15);

pub(crate) struct Slots {
    cluster: Cluster,
    links: Vec<Link>,
    slot: u16,
}

impl World for Slots {
    const CLIENT: &'static str = "cluster";

    async fn start(_: &Path, _: usize) -> Result<Self, Failure> {
        let cluster = Cluster::start_with(1, DEAD).await;
        let mut all = Vec::new();
        for node in cluster.nodes() {
            // A node tells all clients the same port.
            all.extend(links::to(node, 1).await?);
        }
        let ports: Vec<_> = all.iter().map(|link| link.addr().port()).collect();
        cluster.announce(&ports).await;
        let slot = cluster.slot("7").await;
        Ok(Self { cluster, links: all, slot })
    }

    fn urls(&self, processes: usize) -> Vec<Vec<String>> {
        let nodes: Vec<_> = self.links.iter().map(|link| link.addr().to_string()).collect();
        vec![vec![format!("redis://{}", nodes.join(","))]; processes]
    }

    fn links(&self) -> Vec<Link> {
        self.links.clone()
    }

    async fn disturb(&mut self, journal: &Journal, rng: &mut Rng) -> Result<(), Failure> {
        let from = now();
        match rng.u8(..6) {
            0..=2 => {
                let nodes = self.cluster.nodes();
                disturb_one(&nodes[rng.usize(..nodes.len())], journal, rng, 3_000).await;
            }
            3 | 4 => {
                let masters = self.cluster.masters().await;
                let to = masters[rng.usize(..masters.len())];
                self.cluster.migrate(self.slot, to).await;
                journal.fault("slot-moves", Effect::Away, from);
            }
            _ if rng.bool() => {
                // The master stops, waits until its replica has everything, and steps down.
                let is_done = self.cluster.hand_over(self.slot).await;
                let name = if is_done { "handovers" } else { "handovers-missed" };
                journal.fault(name, Effect::Away, from);
            }
            _ => {
                // The replica may lack the last grants.
                let frozen = millis(rng, 50..1_500);
                let is_done = self.cluster.fail_over(self.slot, frozen).await;
                let name = if is_done { "failovers" } else { "failovers-missed" };
                journal.fault(name, Effect::Forgets, from);
            }
        }
        Ok(())
    }
}
