//! A cluster of three masters, between which the slot of most locks moves. Each has a replica, which
//! may take over.

use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use leasehold_history::Effect;
use leasehold_tests::cluster::Cluster;

use super::{World, disturb_one};
use crate::Failure;
use crate::clock::{millis, now};
use crate::journal::Journal;

/// After this time without an answer a master counts as dead: longer than any is frozen, so each
/// failover is the director's.
const DEAD: Duration = Duration::from_secs(15);

pub(crate) struct Slots {
    cluster: Cluster,
    slot: u16,
}

impl World for Slots {
    const CLIENT: &'static str = "cluster";

    async fn start(_: &Path, _: usize) -> Result<Self, Failure> {
        let cluster = Cluster::start_with(1, DEAD).await;
        let slot = cluster.slot("7").await;
        Ok(Self { cluster, slot })
    }

    fn urls(&self, processes: usize) -> Vec<Vec<String>> {
        vec![vec![self.cluster.url()]; processes]
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
