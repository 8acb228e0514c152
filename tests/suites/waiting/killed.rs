//! A process killed while its tasks wait: the cost for all others.

use std::process::Command;
use std::time::Duration;

use leasehold::{Lease, LockError, Wait};
use leasehold_tests::backend::light_client;
use leasehold_tests::process::Process;
use leasehold_tests::server::Server;
use tokio::time::Instant;

use super::until_queued;

const TTL: Duration = Duration::from_secs(2);

/// It costs the TTL and little more, however many of its tasks waited. The process holds a mutex,
/// the last permit and a reentrant mutex, and eight of its tasks wait for each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_costs_others_its_ttl_and_little_more() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let locks = light_client(&server).await;
    let _permits = locks.semaphore("semaphore", 4).acquire_many(3).await.unwrap();
    let ttl_ms = TTL.as_millis().to_string();
    let mut crowd = Command::new(env!("CARGO_BIN_EXE_worker"));
    let mut crowd = Process::start(crowd.args([&server.url(), "crowd", &ttl_ms, "8"]));
    assert_eq!(crowd.line().as_deref(), Some("ready"));
    let queues = [("mutex", 1), ("semaphore", 4), ("reentrant", 8)];
    for (name, count) in queues {
        until_queued(&mut redis, name, count).await;
    }
    let mutex = locks.mutex("mutex").wait(Wait::Forever);
    let semaphore = locks.semaphore("semaphore", 4).wait(Wait::Forever);
    let reentrant = locks.reentrant_mutex("reentrant").owner("next").wait(Wait::Forever);
    let waits = tokio::spawn(async move {
        let timed = async |granted: Result<Lease, LockError>| (granted.unwrap(), Instant::now());
        tokio::join!(
            async { timed(mutex.lock().await).await },
            async { timed(semaphore.acquire().await).await },
            async { timed(reentrant.lock().await).await },
        )
    });
    for (name, count) in queues {
        until_queued(&mut redis, name, count + 1).await;
    }
    crowd.kill();
    let killed = Instant::now();
    let (mutex, semaphore, reentrant) = waits.await.unwrap();
    let took = [mutex, semaphore, reentrant].map(|(_, granted)| granted - killed);
    println!("mutex, semaphore and reentrant mutex: {took:?}");
    // It is a second and a half on a machine that has nothing else to do.
    assert!(took.iter().all(|took| *took < TTL + Duration::from_millis(2500)), "{took:?}");
}
