//! A cluster of three masters, between which the slot of most locks moves.

use std::path::Path;

use fastrand::Rng;
use leasehold_history::Effect;
use leasehold_tests::cluster::Cluster;

use super::{World, disturb_one};
use crate::Failure;
use crate::clock::now;
use crate::journal::Journal;

pub(crate) struct Slots {
    cluster: Cluster,
    slot: u16,
}

impl World for Slots {
    const CLIENT: &'static str = "cluster";

    async fn start(_: &Path, _: usize) -> Result<Self, Failure> {
        let cluster = Cluster::start().await;
        let slot = cluster.slot("7").await;
        Ok(Self { cluster, slot })
    }

    fn urls(&self, processes: usize) -> Vec<Vec<String>> {
        vec![vec![self.cluster.url()]; processes]
    }

    async fn disturb(&mut self, journal: &Journal, rng: &mut Rng) -> Result<(), Failure> {
        let node = &self.cluster.nodes()[rng.usize(..self.cluster.nodes().len())];
        if rng.bool() {
            disturb_one(node, journal, rng, 3_000).await;
        } else {
            let from = now();
            self.cluster.migrate(self.slot, node).await;
            journal.fault("slot-moves", Effect::Away, from);
        }
        Ok(())
    }
}
