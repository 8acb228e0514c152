//! The layer over a store that fails.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use leasehold::layer::template_key;
use leasehold::{Fault, LockLayer, Locks};
use leasehold_tests::logs::LogRecorder;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::{until, work_for};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tower::{Layer, ServiceExt, service_fn};
use tracing::Level;

/// The status of a request through a layer, and how often the service behind
/// it was called.
async fn ask(layer: &LockLayer<&'static str>) -> (StatusCode, u32) {
    let calls = Arc::new(AtomicU32::new(0));
    let service = layer.layer(service_fn(|_: Request<()>| {
        calls.fetch_add(1, Ordering::Relaxed);
        async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("done")))) }
    }));
    let response = service.oneshot(Request::new(())).await.unwrap();
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        assert_eq!(response.headers()["retry-after"], "1");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
    }
    (response.status(), calls.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn the_layer_fails_closed_by_default() {
    for fault in [Fault::LoseCommand, Fault::Unreachable, Fault::Refuse] {
        let (locks, faults) = Locks::in_memory_with_faults();
        faults.always(fault);
        let closed = LockLayer::mutex(&locks, "a");
        assert_eq!(ask(&closed).await, (StatusCode::SERVICE_UNAVAILABLE, 0), "{fault:?}");
        assert_eq!(ask(&closed.fail_open()).await, (StatusCode::OK, 1), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn fail_open_covers_failures_only() {
    let locks = Locks::in_memory();
    let _lease = locks.mutex("a").lock().await.unwrap();
    let open = LockLayer::mutex(&locks, "a").fail_open();
    assert_eq!(ask(&open).await, (StatusCode::CONFLICT, 0));
    let wrong = LockLayer::semaphore(&locks, "a", 3).fail_open();
    assert_eq!(ask(&wrong).await, (StatusCode::INTERNAL_SERVER_ERROR, 0));
    locks.shutdown().await;
    assert_eq!(ask(&open).await, (StatusCode::SERVICE_UNAVAILABLE, 0), "nothing has failed");
}

/// An outage that other requests have found opens nothing that an operator has closed.
#[tokio::test(start_paused = true)]
async fn an_outage_opens_nothing_that_is_closed() {
    let (locks, faults) = Locks::in_memory_with_faults();
    locks.limits().name("tenant:closed").set(0).await.unwrap();
    let layer = LockLayer::semaphore(&locks, template_key("tenant:{header:x-tenant}"), 3);
    let layer = layer.fail_open();
    let ask = async |tenant: &str| {
        let service = layer.layer(service_fn(async |_: Request<()>| {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("done"))))
        }));
        let request = Request::builder().header("x-tenant", tenant).body(()).unwrap();
        service.oneshot(request).await.unwrap().status()
    };
    assert_eq!((ask("open").await, ask("closed").await.as_u16()), (StatusCode::OK, 503));
    faults.always(Fault::Unreachable);
    for _ in 0..3 {
        assert_eq!((ask("open").await, ask("closed").await.as_u16()), (StatusCode::OK, 503));
    }
}

/// The release goes on in the background.
#[tokio::test(start_paused = true)]
async fn a_response_ends_although_its_release_fails() {
    for fault in [Fault::LoseCommand, Fault::LoseReply, Fault::Unreachable, Fault::Refuse] {
        let (locks, faults) = Locks::in_memory_with_faults();
        let layer = LockLayer::mutex(&locks, "a").max_hold(None);
        let failing = faults.clone();
        let service = layer.layer(service_fn(move |_: Request<()>| {
            failing.always(fault);
            async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("done")))) }
        }));
        let response = service.oneshot(Request::new(())).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{fault:?}");
        faults.heal();
        let begun = tokio::time::Instant::now();
        let next = locks.mutex("a").wait(Duration::from_secs(60)).lock().await;
        assert!(next.is_ok(), "{fault:?}");
        if fault != Fault::Refuse {
            assert!(begun.elapsed() < Duration::from_secs(10), "{fault:?}: not only by its TTL");
        }
    }
}

/// Asks once, and polls the answer once: it is there if the request waits for nothing.
fn ask_at_once(layer: &LockLayer<&'static str>) -> Option<(StatusCode, u32)> {
    ask(layer).now_or_never()
}

/// Asks every tenth of a second until a request is under its lock, which others hold.
async fn until_limited(layer: &LockLayer<&'static str>) -> u32 {
    let mut passed = 0;
    while ask(layer).await.0 == StatusCode::OK {
        passed += 1;
        work_for(Duration::from_millis(100)).await;
    }
    passed
}

const BEGINS: &str = "requests pass without their lock until the lock store answers again";
const EACH: &str = "a request passes without its lock";
const ENDS: &str = "the lock store answers again; requests wait for their lock as before";

#[tokio::test(start_paused = true)]
async fn in_an_outage_only_the_first_request_waits_for_the_store() {
    let (log, _guard) = LogRecorder::start(Level::INFO);
    for fault in [Fault::Unreachable, Fault::LoseCommand, Fault::LoseReply] {
        let (locks, faults) = Locks::in_memory_with_faults();
        let layer = LockLayer::semaphore(&locks, "a", 1).fail_open();
        let _ = log.take();
        faults.always(fault);
        let begun = Instant::now();
        assert_eq!(ask(&layer).await, (StatusCode::OK, 1));
        assert!(begun.elapsed() >= Duration::from_secs(1), "it waits for the store");
        let mut passed = 1;
        for _ in 0..50 {
            assert_eq!(ask_at_once(&layer.clone()), Some((StatusCode::OK, 1)), "{fault:?}");
            passed += 1;
        }
        // It is looked at, in vain.
        for _ in 0..300 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(ask_at_once(&layer), Some((StatusCode::OK, 1)), "{fault:?}");
            passed += 1;
        }
        assert_eq!(log.text().matches(BEGINS).count(), 1, "{}", log.text());

        faults.heal();
        let _held = locks.semaphore("a", 1).wait(Duration::from_secs(60)).acquire().await.unwrap();
        let healed = Instant::now();
        passed += until_limited(&layer).await;
        assert!(healed.elapsed() < Duration::from_secs(6), "{:?}", healed.elapsed());
        assert_eq!(ask(&layer).await, (StatusCode::TOO_MANY_REQUESTS, 0));
        let said = log.take();
        assert!(said.contains(ENDS) && said.contains(&format!("passed={passed}")), "{said}");
        assert!(!said.contains(EACH), "{said}");
    }
}

/// What the layer knew is old, so the request does not pass.
#[tokio::test(start_paused = true)]
async fn a_layer_that_nobody_calls_runs_nothing_and_forgets_the_outage() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let layer = LockLayer::mutex(&locks, "a").fail_open();
    assert_eq!(ask(&layer).await, (StatusCode::OK, 1));
    let tasks = || Handle::current().metrics().num_alive_tasks();
    faults.always(Fault::Unreachable);
    assert_eq!(ask(&layer).await, (StatusCode::OK, 1));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = tasks();
    assert_eq!(ask_at_once(&layer), Some((StatusCode::OK, 1)));
    assert_eq!(tasks(), before + 1, "one look");
    assert_eq!(ask_at_once(&layer), Some((StatusCode::OK, 1)));
    assert_eq!(tasks(), before + 1, "one at a time");
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(tasks() <= before, "nothing goes on");

    faults.heal();
    let lease = locks.mutex("a").lock().await.unwrap();
    assert_eq!(ask(&layer).await, (StatusCode::CONFLICT, 0));
    assert_eq!(ask(&layer).await, (StatusCode::CONFLICT, 0));
    drop(lease);
    faults.always(Fault::Unreachable);
    let begun = Instant::now();
    assert_eq!(ask(&layer).await, (StatusCode::OK, 1));
    assert!(begun.elapsed() >= Duration::from_secs(1), "another outage, that nobody knows yet");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_is_no_outage() {
    let (log, _guard) = LogRecorder::start(Level::INFO);
    let (locks, faults) = Locks::in_memory_with_faults();
    let layer = LockLayer::mutex(&locks, "refusing").fail_open();
    faults.always(Fault::Refuse);
    for _ in 0..3 {
        assert_eq!(ask(&layer).await, (StatusCode::OK, 1));
    }
    // The rest is left out for 10 s.
    let said = log.take();
    assert!(said.matches(EACH).count() == 1 && !said.contains(BEGINS), "{said}");
    faults.heal();
    let _lease = locks.mutex("refusing").lock().await.unwrap();
    assert_eq!(ask(&layer).await, (StatusCode::CONFLICT, 0), "at once");
}

/// Nothing passes that the store is not needed to refuse.
#[tokio::test(start_paused = true)]
async fn in_an_outage_mistakes_are_refused_as_ever() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let layer = LockLayer::mutex(&locks, "a").fail_open();
    let owned = layer.clone().owner_by(|_| Some(String::new()));
    faults.always(Fault::Unreachable);
    assert_eq!(ask(&layer).await, (StatusCode::OK, 1));
    assert_eq!(ask(&owned).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(ask_at_once(&layer), Some((StatusCode::OK, 1)));
    locks.shutdown().await;
    assert_eq!(ask(&layer).await, (StatusCode::SERVICE_UNAVAILABLE, 0));
}

#[tokio::test]
async fn requests_pass_at_once_while_a_real_server_is_stopped() {
    let (log, _guard) = LogRecorder::start(Level::INFO);
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let layer = LockLayer::semaphore(&locks, "a", 1).fail_open();
    assert_eq!(ask(&layer).await, (StatusCode::OK, 1));
    let frozen = server.freeze().await;
    assert_eq!(ask_at_once(&layer), None, "it waits for the server");
    assert_eq!(ask(&layer).await, (StatusCode::OK, 1));
    for _ in 0..50 {
        assert_eq!(ask_at_once(&layer), Some((StatusCode::OK, 1)));
    }
    drop(frozen);
    let other = Locks::connect(&server.url()).await.unwrap();
    let _held = other.semaphore("a", 1).wait(Duration::from_secs(60)).acquire().await.unwrap();
    until_limited(&layer).await;
    assert_eq!(ask(&layer).await, (StatusCode::TOO_MANY_REQUESTS, 0));
    let said = log.take();
    assert!(said.contains(BEGINS) && said.contains(ENDS), "{said}");
}

/// It answers looks, and refuses locks. One request at a time finds that out.
#[tokio::test]
async fn requests_pass_at_once_while_a_real_server_is_full() {
    let (log, _guard) = LogRecorder::start(Level::INFO);
    let server = Server::start();
    let mut redis = server.redis().await;
    let locks = Locks::connect(&server.url()).await.unwrap();
    let layer = LockLayer::semaphore(&locks, "a", 1).fail_open();
    assert_eq!(ask(&layer).await, (StatusCode::OK, 1));
    let _held = locks.semaphore("a", 1).wait(Duration::from_secs(60)).acquire().await.unwrap();
    redis::cmd("CONFIG").arg(&["SET", "maxmemory", "1"]).exec_async(&mut redis).await.unwrap();
    assert_eq!(ask(&layer).await, (StatusCode::OK, 1));
    // The first asks for its lock after a second, and the next after two more.
    let (begun, mut late) = (Instant::now(), 0);
    until("two requests have asked for their lock", async || {
        let mut asking = Box::pin(ask(&layer));
        let at_once = (&mut asking).now_or_never();
        late += u32::from(at_once.is_none());
        let answer = if let Some(answer) = at_once { answer } else { asking.await };
        assert_eq!(answer, (StatusCode::OK, 1));
        late == 2
    })
    .await;
    assert!(begun.elapsed() > Duration::from_millis(1_500), "{:?}", begun.elapsed());
    let said = log.take();
    assert!(said.matches(BEGINS).count() == 1 && !said.contains(ENDS), "{said}");
    redis::cmd("CONFIG").arg(&["SET", "maxmemory", "0"]).exec_async(&mut redis).await.unwrap();
    until_limited(&layer).await;
    assert!(log.take().contains(ENDS));
}
