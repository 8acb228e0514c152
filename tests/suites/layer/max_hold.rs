//! The longest time that a request may hold its lock.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, StreamBody};
use leasehold::layer::Refusal;
use leasehold::{LeaseHandle, LeaseState, LockLayer, Locks, LossReason};
use tokio::time::{Instant, sleep, timeout};
use tower::{Layer, ServiceExt, service_fn};

use super::{ask, problem, request, text};

const MINUTE: Duration = Duration::from_secs(60);

/// A handler that never answers. An hour of it is enough for the tests.
async fn stuck(_: Request<()>) -> Result<Response<Empty<Bytes>>, Infallible> {
    timeout(60 * MINUTE, pending()).await.expect("it is stopped before")
}

fn of_method(method: Method) -> Request<()> {
    Request::builder().method(method).body(()).unwrap()
}

/// A layer of each kind, and the method of a request that takes the lock exclusively or shared.
fn of_each_kind(locks: &Locks) -> [(LockLayer<&'static str>, Method); 4] {
    [
        (LockLayer::mutex(locks, "mutex"), Method::POST),
        (LockLayer::semaphore(locks, "semaphore", 1), Method::POST),
        (LockLayer::rw_lock(locks, "written"), Method::PUT),
        (LockLayer::rw_lock(locks, "read"), Method::GET),
    ]
}

/// True if the lock is free for an exclusive holder, whatever its kind.
async fn is_free(locks: &Locks, key: &'static str) -> bool {
    match key {
        "mutex" => locks.mutex(key).try_lock().await.is_ok(),
        "semaphore" => locks.semaphore(key, 1).try_acquire().await.is_ok(),
        _ => locks.rw_lock(key).try_write().await.is_ok(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_stuck_request_is_stopped_after_ten_minutes_and_its_lock_is_free() {
    let locks = Locks::in_memory();
    for (layer, method) in of_each_kind(&locks) {
        let begun = Instant::now();
        let key = format!("{layer:?}");
        let response = layer.layer(service_fn(stuck)).oneshot(of_method(method)).await.unwrap();
        assert_eq!(begun.elapsed().as_secs() / 60, 9, "a moment before the end, by the clock");
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE, "{key}");
        assert!(!response.headers().contains_key("retry-after"), "part of it may be done");
        let problem = problem(response).await;
        assert!(problem["detail"].as_str().unwrap().contains("lost while the request ran"));
    }
    for key in ["mutex", "semaphore", "written", "read"] {
        assert!(is_free(&locks, key).await, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_custom_max_hold_is_kept_and_reported() {
    let locks = Locks::in_memory();
    for (layer, method) in of_each_kind(&locks) {
        let layer = layer.max_hold(Duration::from_secs(45)).on_refused(async |refusal, _| {
            assert!(matches!(refusal, Refusal::Lost(LossReason::MaxHold)), "{refusal:?}");
            refusal.to_response()
        });
        let begun = Instant::now();
        let response = layer.layer(service_fn(stuck)).oneshot(of_method(method)).await.unwrap();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        let held = begun.elapsed();
        assert!(held > Duration::from_secs(40) && held <= Duration::from_secs(45), "{held:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_max_hold_a_request_may_take_any_time() {
    let locks = Locks::in_memory();
    for (layer, method) in of_each_kind(&locks) {
        let service = layer.max_hold(None).layer(service_fn(async |_: Request<()>| {
            sleep(60 * MINUTE).await;
            assert!(LeaseHandle::current().unwrap().is_held());
            Ok::<_, Infallible>(text("done"))
        }));
        let response = service.oneshot(of_method(method)).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
    }
}

/// The stream is sent to its end, and does not count any more.
#[tokio::test(start_paused = true)]
async fn a_long_stream_goes_on_without_its_lock() {
    let locks = Locks::in_memory();
    let layer = LockLayer::semaphore(&locks, "a", 1);
    let service = layer.layer(service_fn(async |_: Request<()>| {
        let minutes = stream::iter(0..15).then(async |_| {
            sleep(MINUTE).await;
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(b".")))
        });
        Ok::<_, Infallible>(Response::new(StreamBody::new(Box::pin(minutes))))
    }));
    let mut body = service.oneshot(request("/")).await.unwrap().into_body();
    for minute in 1..=15 {
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), ".");
        let status = ask(&layer, "/").await.status();
        let expected = if minute < 10 { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK };
        assert_eq!(status, expected, "after {minute} minutes");
    }
    assert!(body.frame().await.is_none());
}

/// The end of a stream releases its own lease, not the next holder's.
#[tokio::test(start_paused = true)]
async fn a_stream_that_outlives_its_lock_leaves_the_next_holders_alone() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, "a").max_hold(MINUTE);
    let service = layer.layer(service_fn(async |_: Request<()>| {
        let lease = LeaseHandle::current().unwrap();
        let end = stream::once(async move {
            assert_eq!(lease.lost().await, LossReason::MaxHold);
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"lost")))
        });
        Ok::<_, Infallible>(Response::new(StreamBody::new(Box::pin(end))))
    }));
    let mut body = service.oneshot(request("/")).await.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "lost");
    let next = locks.mutex("a").lock().await.unwrap();
    assert!(body.frame().await.is_none());
    drop(body);
    sleep(5 * MINUTE).await;
    assert_eq!(next.state(), LeaseState::Held);
    next.release().await.unwrap();
}
