//! A waiter whose runtime is blocked when its turn comes, or whose future is not polled.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::{Lease, Locks};
use leasehold_tests::backend::light_client;
use leasehold_tests::kinds::{Guard, Kind, Taking};
use leasehold_tests::polls::is_pending;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::{OwnTime, until};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{LIVE, queued, until_queued, waiter};

const TTL: Duration = Duration::from_secs(30);

/// Each lock, and the kind of request for it.
fn kinds(owner: &'static str) -> [(&'static str, Kind); 4] {
    [
        ("mutex", Kind::Mutex),
        ("reentrant", Kind::Reentrant(owner)),
        ("semaphore", Kind::Permits(2)),
        ("rw", Kind::Write),
    ]
}

async fn granted(taking: Taking) -> Lease {
    match taking.await.expect("it is served") {
        Guard::One(lease) => lease,
        Guard::All(_) => unreachable!("it is of one lock"),
    }
}

/// The store keeps the waiter's turn for as long as its heartbeat lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_runtime_keeps_its_turn() {
    let server = Server::start();
    let (url, mut redis) = (server.url(), server.redis().await);
    let (holder, behind) = (light_client(&server).await, light_client(&server).await);
    let mut held = Vec::new();
    for (name, kind) in kinds("holder") {
        held.push(granted(kind.lock(&holder, name, TTL)).await);
    }
    let (stand_still, told_to) = oneshot::channel();
    let (block, blocks) = oneshot::channel();
    let (go_on, goes_on) = mpsc::channel();
    let blocked = thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let locks = Locks::connect(&url).await.unwrap();
            let taking = |(name, kind): (_, Kind)| granted(kind.lock(&locks, name, TTL));
            let mut all = join_all(kinds("blocked").map(taking));
            tokio::select! {
                _ = &mut all => panic!("they are held"),
                told = told_to => told.unwrap(),
            }
            block.send(()).unwrap();
            goes_on.recv().unwrap();
            all.await
        })
    });
    for (name, _) in kinds("") {
        until_queued(&mut redis, name, 1).await;
    }
    stand_still.send(()).unwrap();
    blocks.await.unwrap();
    let mut others = Vec::new();
    for (name, kind) in kinds("behind") {
        others.push(tokio::spawn(granted(kind.lock(&behind, name, TTL))));
        until_queued(&mut redis, name, 2).await;
    }
    for lease in held {
        lease.release().await.unwrap();
    }
    // Each asks every other second; an offer lasts for one.
    let asks = server.script_calls().await;
    until("the others ask once more", async || server.script_calls().await >= asks + 4).await;
    let passed: Vec<_> = others.iter().map(JoinHandle::is_finished).collect();
    assert_eq!(passed, [false; 4], "the waiter behind is granted first");
    go_on.send(()).unwrap();
    let leases = tokio::task::spawn_blocking(|| blocked.join().unwrap()).await.unwrap();
    assert!(leases.iter().all(Lease::is_held));
    assert!(others.iter().all(|other| !other.is_finished()));
    for lease in leases {
        lease.release().await.unwrap();
    }
    for other in others {
        other.await.unwrap().release().await.unwrap();
    }
}

/// It delays others for its heartbeat, and not for its TTL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unpolled_future_delays_others_for_its_heartbeat() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let (holder, locks) = (light_client(&server).await, light_client(&server).await);
    let held = holder.mutex("a").ttl(TTL).lock().await.unwrap();
    let mut silent = Kind::Mutex.lock(&locks, "a", TTL);
    until("it is in the queue", async || {
        assert!(is_pending(&mut silent).await);
        queued(&mut redis, "a").await == 1
    })
    .await;
    let other = waiter(holder.clone(), "a");
    until_queued(&mut redis, "a", 2).await;
    let time = OwnTime::begin();
    held.release().await.unwrap();
    let other = other.await.unwrap();
    assert!(time.passed() < LIVE + Duration::from_secs(3), "{:?}", time.passed());
    // It comes back to its place when it is polled.
    let silent = tokio::spawn(granted(silent));
    until_queued(&mut redis, "a", 1).await;
    other.release().await.unwrap();
    assert!(silent.await.unwrap().is_held());
}
