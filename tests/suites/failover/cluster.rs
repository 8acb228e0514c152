//! A cluster's master dies, and its replica takes its slots over.

use leasehold::Locks;
use leasehold_tests::cluster::Cluster;
use leasehold_tests::server::Server;

use super::counter::{Counter, NAME};
use super::{BOUND, DEAD};

async fn clients(cluster: &Cluster) -> Vec<Locks> {
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(Locks::connect(&cluster.url()).await.unwrap());
    }
    clients
}

/// Lets a counter go on while the master of its lock is taken away.
async fn while_the_master_goes(away: impl AsyncFnOnce(&Server)) {
    let cluster = Cluster::start_with(1, DEAD).await;
    let clients = clients(&cluster).await;
    let counter = Counter::start(&clients);
    counter.goes_on(100).await;
    let slot = cluster.slot(NAME).await;
    let master = cluster.master_of(slot).await.expect("a master");
    away(master).await;
    cluster.until_taken_over(slot, master).await;
    let waited = counter.goes_on(1).await;
    println!("the first grant came {waited:?} after the replica had taken over");
    assert!(waited < BOUND, "{waited:?}");
    counter.goes_on(100).await;
    counter.all_are_served().await;
    counter.end_exact().await;
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
