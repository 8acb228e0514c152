//! Turns on a real server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::Locks;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::{OwnTime, until};
use tokio::task::JoinSet;

const TASKS: usize = 32;
const TIMES: usize = 100;

/// Each task takes the lock this often. Returns the number of script calls. The tasks belong to
/// these clients in turn.
async fn calls(server: &Server, clients: &[Locks], name: &'static str) -> u64 {
    let before = server.script_calls().await;
    let (inside, last) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let mut tasks = JoinSet::new();
    for locks in clients.iter().cycle().take(TASKS) {
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
    server.script_calls().await - before
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_in_one_process_costs_the_server_little() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let (cost, grants) = (calls(&server, &[locks], "a").await, (TASKS * TIMES) as u64);
    println!("{cost} script calls for {grants} grants");
    assert!(cost <= grants / 5, "{cost} script calls");
    let without = Locks::builder().hand_over_in_process(false).connect(&server.url()).await;
    let cost = calls(&server, &[without.unwrap()], "b").await;
    assert!(cost >= grants * 2, "{cost} script calls");
}

/// Both clients get the lock again and again, although only one has turns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_with_and_without_turns_share_a_lock() {
    let server = Server::start();
    let with = Locks::connect(&server.url()).await.unwrap();
    let without = Locks::builder().hand_over_in_process(false).connect(&server.url()).await;
    calls(&server, &[with, without.unwrap()], "a").await;
}

/// The thread of the next waiter is blocked, so it can't take its hand-off. The hand-off is
/// cancelled all the same, and others are granted.
#[tokio::test]
async fn a_turn_ends_while_the_runtime_is_blocked() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let locks = Locks::connect(&server.url()).await.unwrap();
    let held = locks.mutex("m").lock().await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let mutex = locks.mutex("m");
        tasks.push(tokio::spawn(async move { mutex.lock().await }));
    }
    let queue = redis::cmd("ZCARD").arg("leasehold:queue:{m}").to_owned();
    until("one waits there", async || queue.query_async(&mut redis).await == Ok(1)).await;
    held.release().await.unwrap();
    let (second, first) = (tasks.pop().unwrap(), tasks.pop().unwrap());
    let lease = first.await.unwrap().unwrap();
    let url = server.url();
    let elsewhere = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (time, other) = (OwnTime::begin(), Locks::connect(&url).await.unwrap());
            let lease = other.mutex("m").lock().await.unwrap();
            lease.release().await.unwrap();
            time.passed()
        })
    });
    drop(lease);
    let took = elsewhere.join().unwrap();
    // The TTL is half a minute, and so is the wait for it.
    assert!(took < Duration::from_secs(8), "{took:?}");
    // Its hand-off is gone, so it asks the server.
    second.await.unwrap().unwrap().release().await.unwrap();
}
