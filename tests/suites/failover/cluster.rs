//! A cluster's master dies, and its replica takes its slots over.

use leasehold_tests::cluster::Cluster;
use leasehold_tests::server::Server;

use super::counter::{Counter, NAME};
use super::{BOUND, DEAD, after_another_took_over};

/// Lets a counter go on while the master of its lock is taken away.
async fn while_the_master_goes(away: impl AsyncFnOnce(&Server)) {
    let cluster = Cluster::start_with(1, DEAD).await;
    let counter = Counter::start(&cluster.url()).await;
    let slot = cluster.slot(NAME).await;
    let master = cluster.master_of(slot).await.expect("a master");
    away(master).await;
    cluster.until_taken_over(slot, master).await;
    after_another_took_over(counter, BOUND).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_killed_costs_no_update() {
    while_the_master_goes(async |master| master.kill().await).await;
}

/// Nothing tells that it is gone: its connections stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_frozen_costs_no_update() {
    let mut frozen = None;
    while_the_master_goes(async |master| frozen = Some(master.freeze().await)).await;
}
