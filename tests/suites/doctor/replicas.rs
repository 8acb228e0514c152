//! Faults of replicas, sentinels and clusters.

use std::time::Duration;

use leasehold::Locks;
use leasehold::Severity::{Problem, Warning};
use leasehold_tests::cluster::Cluster;
use leasehold_tests::sentinel::Sentinel;

use super::server::{good, mend, replica_of, run, until};
use super::{nothing, only};

#[tokio::test]
async fn too_few_replicas_for_the_client_are_found() {
    let server = good();
    let sync = Locks::builder().sync_replicas(1, Duration::from_secs(1));
    let locks = sync.connect(&server.url()).await.unwrap();
    only(&locks.diagnose().await, "sync-replicas", Problem);
    let _replica = replica_of(&server).await;
    nothing(&until(&locks, 0).await);
}

#[tokio::test]
async fn a_replica_that_lags_is_found() {
    let server = good();
    let replica = replica_of(&server).await;
    let locks = Locks::connect(&server.url()).await.unwrap();
    until(&locks, 0).await;
    let frozen = replica.freeze().await;
    let finding = only(&until(&locks, 1).await, "replica-lag", Warning);
    assert!(finding.found.contains(&replica.port().to_string()), "{finding:#?}");
    drop(frozen);
    nothing(&until(&locks, 0).await);
}

#[tokio::test]
async fn a_failover_that_does_not_end_is_found() {
    let server = good();
    let replica = replica_of(&server).await;
    let locks = Locks::connect(&server.url()).await.unwrap();
    until(&locks, 0).await;
    let frozen = replica.freeze().await;
    let mut redis = server.redis().await;
    // So that the replica has something to catch up on.
    run(&mut redis, "SET something new").await;
    run(&mut redis, "FAILOVER TIMEOUT 600000").await;
    let finding = only(&locks.diagnose().await, "failover", Problem);
    mend(&mut redis, &finding).await;
    drop(frozen);
    nothing(&until(&locks, 0).await);
}

#[tokio::test]
async fn sentinels_without_a_replica_are_found() {
    let sentinel = Sentinel::start(0, Duration::from_secs(15)).await;
    let master = &sentinel.servers()[0];
    run(&mut master.redis().await, "CONFIG SET appendonly yes").await;
    let locks = Locks::connect(&sentinel.url()).await.unwrap();
    let finding = only(&locks.diagnose().await, "replicas", Warning);
    assert_eq!(finding.server, format!("127.0.0.1:{}", master.port()));
    let _replica = replica_of(master).await;
    nothing(&until(&locks, 0).await);
}

/// The owner of a slot gives it up, and knows that no other node has it.
#[tokio::test]
async fn slots_without_a_node_are_found() {
    let cluster = Cluster::start().await;
    for node in cluster.nodes() {
        run(&mut node.redis().await, "CONFIG SET appendonly yes").await;
    }
    let locks = Locks::connect(&cluster.url()).await.unwrap();
    nothing(&locks.diagnose().await);
    let mut redis = cluster.nodes()[1].redis().await;
    run(&mut redis, "CLUSTER DELSLOTS 6000").await;
    let found = until(&locks, 1).await;
    let finding = only(&found, "cluster-slots", Problem);
    assert!(finding.found.starts_with("1 of 16384 slots"), "{finding:#?}");
    assert!(finding.server.ends_with(&cluster.nodes()[1].port().to_string()), "{finding:#?}");
    run(&mut redis, "CLUSTER ADDSLOTS 6000").await;
    nothing(&until(&locks, 0).await);
}

/// A node that nobody can reach: the others say so, each for itself.
#[tokio::test]
async fn nodes_that_fail_are_found() {
    let cluster = Cluster::start_with(1, Duration::from_secs(1)).await;
    for node in cluster.nodes() {
        run(&mut node.redis().await, "CONFIG SET appendonly yes").await;
    }
    let locks = Locks::connect(&cluster.url()).await.unwrap();
    nothing(&until(&locks, 0).await);
    let replica = &cluster.nodes()[3];
    replica.kill().await;
    let found = super::server::until_all(&locks, "cluster-nodes", 3).await;
    assert!(found.iter().all(|it| it.severity == Warning), "{found:#?}");
    assert!(found[0].found.contains(&replica.port().to_string()), "{found:#?}");
}
