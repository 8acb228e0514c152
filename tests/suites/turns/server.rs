//! Turns on a real server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold::Locks;
use leasehold_tests::server::Server;
use tokio::task::JoinSet;

const TASKS: u32 = 32;
const TIMES: u32 = 100;

/// Each task takes the lock so often; how many script calls that cost.
async fn calls(server: &Server, locks: Locks, name: &'static str) -> u64 {
    let before = server.stats("evalsha").await.0;
    let (inside, last) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (mutex, inside, last) = (locks.mutex(name), inside.clone(), last.clone());
        tasks.spawn(async move {
            for _ in 0..TIMES {
                let lease = mutex.lock().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are in it");
                let token = lease.fence().unwrap().get();
                assert!(last.swap(token, Ordering::SeqCst) < token, "tokens grow");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                lease.release().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    server.stats("evalsha").await.0 - before
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_in_one_process_costs_the_server_little() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let cost = calls(&server, locks, "a").await;
    println!("{cost} script calls for {} grants", TASKS * TIMES);
    assert!(cost <= u64::from(TASKS * TIMES / 5), "{cost} script calls");
    let without = Locks::builder().hand_over_in_process(false).connect(&server.url()).await;
    let cost = calls(&server, without.unwrap(), "b").await;
    assert!(cost >= u64::from(TASKS * TIMES * 2), "{cost} script calls");
}
