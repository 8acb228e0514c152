//! A master dies, and the sentinels make a replica the master.

use leasehold_tests::sentinel::{Sentinel, until_linked};
use leasehold_tests::server::Server;
use redis_server_wrapper::{Direction, FaultProxy};

use super::counter::{Counter, NAME};
use super::{BOUND, BOUND_BEHIND, DEAD, after_another_took_over};

/// Lets a counter go on while the master is taken away.
async fn while_the_master_goes(away: impl AsyncFnOnce(&Server)) {
    let sentinel = Sentinel::start(2, DEAD).await;
    let counter = Counter::start(&sentinel.url()).await;
    let master = sentinel.master().await.expect("a master");
    away(master).await;
    sentinel.until_replaced(master).await;
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

/// The last token that a server knows.
async fn token(server: &Server) -> u64 {
    let key = format!("leasehold:lock:{{{NAME}}}");
    let record: Option<String> =
        redis::cmd("GET").arg(key).query_async(&mut server.redis().await).await.unwrap();
    record.map_or(0, |record| record[36..52].parse().unwrap())
}

/// The replica lacks the last writes when it becomes the master: it may grant a lock that
/// somebody has, and grants that it knows nothing of had tokens too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_the_replica_lacks_cost_no_update() {
    let sentinel = Sentinel::start(1, DEAD).await;
    let [master, replica] = sentinel.servers() else { panic!("there are two") };
    let proxy = FaultProxy::spawn(("127.0.0.1", master.port())).await.unwrap();
    let mut follow = redis::cmd("REPLICAOF");
    follow.arg("127.0.0.1").arg(proxy.addr().port());
    follow.exec_async(&mut replica.redis().await).await.unwrap();
    until_linked(replica).await;
    let counter = Counter::start(&sentinel.url()).await;
    proxy.set_stall(Direction::UpstreamToClient);
    counter.goes_on(100).await;
    assert!(token(replica).await < token(master).await);
    master.kill().await;
    drop(proxy);
    sentinel.until_replaced(master).await;
    after_another_took_over(counter, BOUND_BEHIND).await;
}
