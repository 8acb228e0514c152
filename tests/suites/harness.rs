//! Tests of the harness itself. If it did not start and end servers as it says, the other suites
//! would prove less.

use std::process::Command;
use std::time::Duration;

use leasehold_tests::cluster::Cluster;
use leasehold_tests::masters::Masters;
use leasehold_tests::process::Process;
use leasehold_tests::sentinel::Sentinel;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::until;
use redis::aio::MultiplexedConnection;

/// The time after which a server is declared dead.
const DEAD: Duration = Duration::from_secs(1);

async fn set(redis: &mut MultiplexedConnection, value: u32) {
    redis::cmd("SET").arg("{a}").arg(value).exec_async(redis).await.unwrap();
}

async fn get(server: &Server) -> Option<u32> {
    redis::cmd("GET").arg("{a}").query_async(&mut server.redis().await).await.unwrap()
}

/// The same from a server that may end the connection.
async fn try_get(server: &Server) -> redis::RedisResult<u32> {
    redis::cmd("GET").arg("{a}").query_async(&mut server.try_redis().await?).await
}

/// Waits until a replica has the value.
async fn replicated(redis: &mut MultiplexedConnection) {
    let mut wait = redis::cmd("WAIT");
    let got: u32 = wait.arg(1).arg(0).query_async(redis).await.unwrap();
    assert!(got >= 1);
}

/// SIGKILL ends the test's process.
#[tokio::test]
async fn nothing_is_left_of_a_server_whose_test_is_killed() {
    let mut worker =
        Process::start(Command::new(env!("CARGO_BIN_EXE_worker")).args(["-", "serve"]));
    let port: u16 = worker.line().expect("a port").parse().unwrap();
    let folder = worker.line().expect("a folder");
    assert!(std::fs::exists(&folder).unwrap());
    worker.kill();
    until("its folder is gone", async || !std::fs::exists(&folder).unwrap()).await;
    drop(Server::start_on(port));
}

#[tokio::test]
async fn sentinels_replace_a_master_that_is_killed() {
    let sentinel = Sentinel::start(2, DEAD).await;
    let master = sentinel.master().await.expect("a master");
    assert_eq!(master.port(), sentinel.servers()[0].port());
    let mut redis = master.redis().await;
    set(&mut redis, 7).await;
    replicated(&mut redis).await;
    master.kill().await;
    let next = sentinel.until_replaced(master).await;
    set(&mut next.redis().await, 8).await;
}

#[tokio::test]
async fn sentinels_replace_a_master_that_is_frozen() {
    let sentinel = Sentinel::start(1, DEAD).await;
    let master = sentinel.master().await.expect("a master");
    let frozen = master.freeze().await;
    let next = sentinel.until_replaced(master).await;
    set(&mut next.redis().await, 8).await;
    // It comes back as a replica, and ends its connections for that.
    drop(frozen);
    until("it follows", async || try_get(master).await.ok() == Some(8)).await;
}

#[tokio::test]
async fn a_replica_takes_a_slot_over() {
    let cluster = Cluster::start_with(1, DEAD).await;
    let slot = cluster.slot("a").await;
    let master = cluster.master_of(slot).await.expect("a master");
    let mut redis = master.redis().await;
    set(&mut redis, 7).await;
    replicated(&mut redis).await;
    master.kill().await;
    let next = cluster.until_taken_over(slot, master).await;
    assert_eq!(get(next).await, Some(7));
}

#[tokio::test]
async fn a_slot_moves_with_its_keys() {
    let cluster = Cluster::start().await;
    let slot = cluster.slot("a").await;
    let master = cluster.master_of(slot).await.expect("a master");
    set(&mut master.redis().await, 7).await;
    for to in cluster.nodes() {
        cluster.migrate(slot, to).await;
        assert_eq!(get(to).await, Some(7));
        assert_eq!(cluster.master_of(slot).await.map(Server::port), Some(to.port()));
    }
}

#[tokio::test]
async fn masters_know_nothing_of_each_other() {
    let mut masters = Masters::start(3);
    for (value, node) in (0..).zip(masters.nodes()) {
        set(&mut node.redis().await, value).await;
    }
    masters.restart_empty(1).await;
    let frozen = masters.freeze(0).await;
    assert!(masters.nodes()[0].try_redis().await.is_err());
    drop(frozen);
    masters.kill(2).await;
    assert!(masters.nodes()[2].try_redis().await.is_err());
    assert_eq!(get(&masters.nodes()[0]).await, Some(0));
    assert_eq!(get(&masters.nodes()[1]).await, None);
}
