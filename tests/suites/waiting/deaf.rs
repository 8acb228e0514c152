//! Messages are hints: without any of them, waiting takes longer, and works.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{Locks, Wait};
use leasehold_tests::backend::light_client;
use leasehold_tests::server::Server;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{ASK_AGAIN, until_queued};

/// Lets nobody publish from now on: every message is lost, and nobody is told.
async fn drop_all_messages(server: &Server) {
    let mut forbid = redis::cmd("ACL");
    forbid.arg(&["SETUSER", "default", "-publish", "-spublish"]);
    forbid.exec_async(&mut server.redis().await).await.unwrap();
}

/// A thousand contended grants, none later than the poll bound.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_grants_without_a_message() {
    const LOCKS: usize = 250;
    let server = Server::start();
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(light_client(&server).await);
    }
    drop_all_messages(&server).await;
    let redis = server.redis().await;

    let mut grants = tokio::task::JoinSet::new();
    for n in 0..LOCKS {
        let name = format!("lock:{n}");
        let first = clients[0].mutex(&*name).lock().await.unwrap();
        let freed = Arc::new(Mutex::new(None));
        for locks in &clients[1..] {
            let (locks, name, freed) = (locks.clone(), name.clone(), freed.clone());
            grants.spawn(async move {
                let lease = locks.mutex(name).wait(Wait::Forever).lock().await.unwrap();
                let late = freed.lock().await.map(|freed: Instant| freed.elapsed());
                *freed.lock().await = Some(Instant::now());
                lease.release().await.unwrap();
                late.expect("it was held when this one came")
            });
        }
        let mut redis = redis.clone();
        tokio::spawn(async move {
            until_queued(&mut redis, &name, 4).await;
            *freed.lock().await = Some(Instant::now());
            first.release().await.unwrap();
        });
    }
    let late = grants.join_all().await;
    assert_eq!(late.len(), LOCKS * 4);
    let latest = late.iter().max().unwrap();
    println!("{} grants without a message, the latest {latest:?} after the release", late.len());
    assert!(*latest < ASK_AGAIN + Duration::from_secs(1), "{latest:?}");
}

/// The connection is lost, and with it the hint: the waiter does not wait until it
/// would have asked again.
#[tokio::test]
async fn a_lost_connection_makes_who_waits_ask_at_once() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let (holder, locks) = (light_client(&server).await, light_client(&server).await);
    for _ in 0..5 {
        let held = holder.mutex("a").lock().await.unwrap();
        let waits = super::waiter(locks.clone(), "a");
        until_queued(&mut redis, "a", 1).await;
        // Both are subscribed, and so of this type.
        let mut kill = redis::cmd("CLIENT");
        kill.arg(&["KILL", "TYPE", "pubsub"]).exec_async(&mut redis).await.unwrap();
        let begun = Instant::now();
        held.release().await.unwrap();
        waits.await.unwrap().release().await.unwrap();
        assert!(begun.elapsed() < ASK_AGAIN / 2, "{:?}", begun.elapsed());
    }
}

/// Nobody may publish or subscribe: who waits asks often, and in its turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_right_to_messages_all_are_served_in_order() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let mut rights = redis::cmd("ACL");
    rights.arg(&["SETUSER", "u", "on", ">p", "~*", "resetchannels", "+@all"]);
    rights.arg(&["-subscribe", "-psubscribe", "-ssubscribe", "-publish", "-spublish"]);
    rights.exec_async(&mut redis).await.unwrap();
    let url = format!("redis://u:p@127.0.0.1:{}/", server.port());
    let holder = Locks::connect(&url).await.unwrap();
    let held = holder.mutex("a").lock().await.unwrap();
    let (order, mut grants) = tokio::sync::mpsc::unbounded_channel();
    for n in 0..10 {
        let (locks, order) = (Locks::connect(&url).await.unwrap(), order.clone());
        tokio::spawn(async move {
            let lease = locks.mutex("a").wait(Wait::Forever).lock().await.unwrap();
            order.send(n).unwrap();
            lease.release().await.unwrap();
        });
        until_queued(&mut redis, "a", n + 1).await;
    }
    drop(order);
    let begun = Instant::now();
    held.release().await.unwrap();
    for n in 0..10 {
        assert_eq!(grants.recv().await, Some(n));
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "at most 200 ms each: {took:?}");
}
