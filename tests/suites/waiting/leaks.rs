//! Nothing is left after everybody has finished.

use std::time::Duration;

use leasehold::{Locks, Wait};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::until;

use super::{clients, waiter};

/// All keys except the clients' records.
async fn keys(redis: &mut redis::aio::MultiplexedConnection) -> Vec<String> {
    let all: Vec<String> = redis::cmd("KEYS").arg("*").query_async(redis).await.unwrap();
    all.into_iter().filter(|key| !key.starts_with("leasehold:client:")).collect()
}

/// No key except the clients' records is left, and no subscription, connection or task.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_after_all_waits() {
    let server = Server::start_skewed();
    let mut redis = server.redis().await;
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    {
        let connected = Locks::connect(&server.url()).await.unwrap();
        let mut clients = clients(&server, 6).await;
        clients.push(connected);
        let mut work = tokio::task::JoinSet::new();
        for (n, locks) in (0..).zip(&clients) {
            let locks = locks.clone();
            work.spawn(async move {
                for round in 0..5 {
                    let name = ["a", "b"][round % 2];
                    let lease = locks.mutex(name).wait(Wait::Forever).lock().await.unwrap();
                    // Some give up while they wait, some drop what they have.
                    let short = locks.mutex("a").wait(Duration::from_millis(3)).lock().await;
                    drop(short);
                    if n % 2 == 0 {
                        drop(lease);
                    } else {
                        lease.release().await.map(drop).unwrap();
                    }
                    let many = locks.semaphore("s", 3).wait(Wait::Forever);
                    many.acquire_many(1 + n % 3).await.unwrap().release().await.unwrap();
                }
            });
        }
        work.join_all().await;
        let dropped = waiter(clients[0].clone(), "a");
        dropped.abort();
        let _ = dropped.await;
    }
    // The records of the locks are free, for a minute; nobody waits, or holds. One key stands for
    // all records that were deleted.
    for key in keys(&mut redis).await.into_iter().filter(|key| key != "leasehold:tokens") {
        let ends: i64 = redis::cmd("PTTL").arg(&key).query_async(&mut redis).await.unwrap();
        assert!((0..=60_000).contains(&ends), "{key} ends in {ends} ms");
        assert!(key.starts_with("leasehold:lock:"), "{key}");
    }
    let mut unlink = redis::cmd("UNLINK");
    unlink.arg("leasehold:tokens").exec_async(&mut redis).await.unwrap();
    server.jump(Duration::from_secs(61));
    // The server removes expired keys ten times a second.
    let size = redis::cmd("DBSIZE");
    until("one key is left", async || size.query_async(&mut redis).await == Ok(1)).await;
    assert_eq!(keys(&mut redis).await, [""; 0], "the only key left is a client's record");

    // Background tasks have ended, except the test's own.
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    until("the tasks have ended", async || alive() <= tasks).await;
    until("no connection is left", async || {
        let list: String = redis::cmd("CLIENT").arg("LIST").query_async(&mut redis).await.unwrap();
        list.lines().count() == 1
    })
    .await;
    let channels: Vec<String> =
        redis::cmd("PUBSUB").arg("CHANNELS").query_async(&mut redis).await.unwrap();
    assert_eq!(channels, [""; 0]);
}
