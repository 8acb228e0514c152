//! `ping`: whether the store answers, and writes.

use std::time::{Duration, Instant};

use leasehold::{LockError, Locks};
use leasehold_tests::cluster::Cluster;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::{OwnTime, until};

use super::errors::run;
use super::sentinel::pair;

/// A ping fails in a second.
const SOON: Duration = Duration::from_secs(5);

/// The text of the error, which must come in time.
async fn refused(locks: &Locks) -> String {
    let time = OwnTime::begin();
    let error = locks.ping().await.unwrap_err();
    assert!(time.passed() < SOON, "{:?}", time.passed());
    assert!(matches!(error, LockError::Store { .. }), "{error:?}");
    assert!(error.to_string().starts_with("the lock store failed to answer"), "{error}");
    error.to_string()
}

async fn until_it_answers(locks: &Locks) {
    until("the server is back", async || locks.ping().await.is_ok()).await;
}

/// Nothing is held, and the one key is gone after a minute.
#[tokio::test]
async fn it_takes_no_lock() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    for _ in 0..3 {
        let begun = Instant::now();
        let took = locks.ping().await.unwrap();
        assert!(took <= begun.elapsed(), "{took:?}");
    }
    let mut list = locks.list("*");
    assert!(list.next().await.is_none());
    let mut redis = server.redis().await;
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut redis).await.unwrap();
    for key in keys.iter().filter(|key| key.contains("ping")) {
        let left: i64 = redis::cmd("TTL").arg(key).query_async(&mut redis).await.unwrap();
        assert!((0..=60).contains(&left), "{key}: {left}");
    }
    // Whoever holds a lock of that name loses nothing.
    let lease = locks.mutex("leasehold-ping").lock().await.unwrap();
    locks.ping().await.unwrap();
    lease.renew().await.unwrap();
}

#[tokio::test]
async fn it_fails_where_the_server_is_frozen_or_dead_and_then_answers() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let frozen = server.freeze().await;
    refused(&locks).await;
    drop(frozen);
    until_it_answers(&locks).await;
    server.kill().await;
    refused(&locks).await;
    let port = server.port();
    drop(server);
    let _again = Server::start_on(port);
    until_it_answers(&locks).await;
}

/// As after a failover that the client was not told of.
#[tokio::test]
async fn it_fails_where_nothing_can_be_written() {
    let [_master, replica] = pair().await;
    let locks = Locks::connect_lazy(&replica.url()).unwrap();
    refused(&locks).await;
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    locks.ping().await.unwrap();
    run(&mut server.redis().await, "ACL SETUSER default resetkeys ~another").await;
    let refused = refused(&locks).await;
    assert!(refused.contains("the user may not do this"), "{refused}");
}

#[tokio::test]
async fn it_needs_a_client_that_goes_on() {
    let locks = Locks::in_memory();
    locks.ping().await.unwrap();
    locks.shutdown().await;
    assert!(matches!(locks.ping().await, Err(LockError::ShutDown)));
    let nobody = Locks::connect_lazy("redis://127.0.0.1:1/").unwrap();
    refused(&nobody).await;
}

#[tokio::test]
async fn a_node_of_a_cluster_and_a_majority_of_a_quorum_answer() {
    let cluster = Cluster::start().await;
    Locks::connect(&cluster.url()).await.unwrap().ping().await.unwrap();
    let servers = [Server::start(), Server::start(), Server::start()];
    let builder = Locks::builder().longest_ttl(Duration::from_secs(1));
    let builder = builder.command_timeout(Duration::from_millis(500));
    let locks = builder.connect_quorum(servers.iter().map(Server::url)).await.unwrap();
    locks.ping().await.unwrap();
    servers[0].kill().await;
    locks.ping().await.unwrap();
    servers[1].kill().await;
    let error = locks.ping().await.unwrap_err();
    assert!(matches!(error, LockError::Quorum { .. }), "{error:?}");
}
