//! Locks that stay with their process after a request.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use leasehold::layer::RequestKey;
use leasehold::store::memory::MemoryStore;
use leasehold::{Fault, LockLayer, Locks};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::{OwnTime, until};
use tokio::time::Instant;
use tower::{Layer, ServiceExt};

use super::counting;

const LINGER: Duration = Duration::from_secs(5);

/// Sends a request through the layer, and reads the answer to its end.
async fn send(layer: &LockLayer<impl RequestKey>, method: Method) -> StatusCode {
    let request = Request::builder().method(method).uri("/").body(()).unwrap();
    let response = layer.layer(counting(&Arc::default())).oneshot(request).await.unwrap();
    let status = response.status();
    response.into_body().collect().await.unwrap();
    status
}

async fn get(layer: &LockLayer<impl RequestKey>) -> StatusCode {
    send(layer, Method::GET).await
}

#[tokio::test(start_paused = true)]
async fn the_second_request_needs_no_store() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let layers = [
        LockLayer::mutex(&locks, "one").linger(LINGER),
        LockLayer::semaphore(&locks, "many", 8).linger(LINGER),
        LockLayer::rw_lock(&locks, "read").linger(LINGER),
    ];
    for layer in &layers {
        assert_eq!(get(layer).await, StatusCode::OK);
        faults.always(Fault::Unreachable);
        for _ in 0..20 {
            assert_eq!(get(layer).await, StatusCode::OK, "{layer:?}");
        }
        faults.heal();
    }
    let write = LockLayer::rw_lock(&locks, "write").linger(LINGER);
    assert_eq!(send(&write, Method::PUT).await, StatusCode::OK);
    faults.always(Fault::Unreachable);
    assert_eq!(send(&write, Method::PUT).await, StatusCode::OK);
    assert_eq!(get(&write).await, StatusCode::SERVICE_UNAVAILABLE, "a reader has to ask");
    faults.heal();
    assert_eq!(get(&write).await, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_request_of_another_process_gets_the_idle_lock() {
    let store = Arc::new(MemoryStore::default());
    let (here, elsewhere) = (Locks::over(store.clone()), Locks::over(store));
    for locks in [&here, &elsewhere, &here] {
        for layer in [LockLayer::mutex(locks, "one"), LockLayer::semaphore(locks, "two", 1)] {
            let layer = layer.linger(LINGER);
            assert_eq!(get(&layer).await, StatusCode::OK, "it does not wait");
        }
        let layer = LockLayer::rw_lock(locks, "page").linger(LINGER);
        for method in [Method::GET, Method::PUT, Method::GET] {
            assert_eq!(send(&layer, method).await, StatusCode::OK);
        }
    }
}

/// What users who ask for speed expect: a limit that is not reached costs the server nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_send_almost_no_commands() {
    let server = Server::start();
    let (here, elsewhere) = (
        Locks::connect(&server.url()).await.unwrap(),
        Locks::connect(&server.url()).await.unwrap(),
    );
    let semaphore = |locks| LockLayer::semaphore(locks, "many", 64).linger(LINGER);
    let mutex = |locks| LockLayer::mutex(locks, "one").linger(LINGER);
    let (many, one) = (semaphore(&here), mutex(&here));
    let round = async || {
        let all = join_all((0..16).map(|_| get(&many))).await;
        assert!(all.iter().all(|status| *status == StatusCode::OK), "{all:?}");
        assert_eq!(get(&one).await, StatusCode::OK);
    };
    for _ in 0..20 {
        round().await;
    }
    let begun = Instant::now();
    server.forget_stats().await;
    for _ in 0..200 {
        round().await;
    }
    let (calls, requests) = (server.script_calls().await, 200 * 17);
    println!("{calls} commands for {requests} requests");
    // Twice a second the server is asked again whether a lease may stay, however many requests use
    // it. There are 17 leases, and a busy machine takes seconds.
    let asked_again = u64::try_from(17 * begun.elapsed().as_millis() / 500).unwrap();
    let calls = calls.saturating_sub(asked_again);
    assert!(calls * 50 < requests, "{calls} more commands for {requests} requests");

    let time = OwnTime::begin();
    assert_eq!(get(&mutex(&elsewhere)).await, StatusCode::OK);
    // All 64 at once: the idle permits of the other process are among them.
    let all = semaphore(&elsewhere).wait(LINGER);
    let all = join_all((0..64).map(|_| get(&all))).await;
    assert!(all.iter().all(|status| *status == StatusCode::OK));
    assert!(time.passed() < LINGER, "they were recalled: {:?}", time.passed());
    assert_eq!(get(&one).await, StatusCode::OK);
}

/// A reader and a writer of two processes take turns, however long each may keep the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_and_writers_of_two_processes_take_turns() {
    let server = Server::start();
    let (here, elsewhere) = (
        Locks::connect(&server.url()).await.unwrap(),
        Locks::connect(&server.url()).await.unwrap(),
    );
    let layer = |locks| LockLayer::rw_lock(locks, "page").linger(LINGER).wait(LINGER);
    let time = OwnTime::begin();
    for _ in 0..5 {
        assert_eq!(get(&layer(&here)).await, StatusCode::OK);
        assert_eq!(get(&layer(&elsewhere)).await, StatusCode::OK);
        assert_eq!(send(&layer(&elsewhere), Method::PUT).await, StatusCode::OK);
        assert_eq!(send(&layer(&here), Method::PUT).await, StatusCode::OK);
        until("it lingers again", async || {
            assert_eq!(send(&layer(&here), Method::PUT).await, StatusCode::OK);
            here.inspect("page").await.unwrap().held > 0
        })
        .await;
    }
    assert!(time.passed() < LINGER, "nobody waits for the end of a linger");
}
