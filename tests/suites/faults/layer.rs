//! The layer over a store that fails.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use leasehold::{Fault, LockLayer, Locks};
use tower::{Layer, ServiceExt, service_fn};

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
