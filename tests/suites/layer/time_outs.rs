//! The layer's own time-out: the lock is free before the client has its answer.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use leasehold::layer::{OnLost, Refusal, key_by};
use leasehold::{LockLayer, Locks, Rate};
use tokio::time::{Instant, sleep};
use tower::{Layer, ServiceExt, service_fn};

use super::{Later, ask, is_free, problem, request, text};

const SECOND: Duration = Duration::from_secs(1);

async fn stuck(_: Request<()>) -> Result<Response<Later>, Infallible> {
    pending().await
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_takes_too_long_is_stopped_and_the_lock_is_free() {
    let locks = Locks::in_memory();
    for layer in [
        LockLayer::mutex(&locks, "a"),
        LockLayer::mutex(&locks, "a").on_lost(OnLost::Finish),
        LockLayer::mutex(&locks, "a").once(60 * SECOND),
        LockLayer::semaphore(&locks, "permits", 1),
        LockLayer::rw_lock(&locks, "rows"),
    ] {
        for _ in 0..2 {
            let begun = Instant::now();
            let service = layer.clone().timeout(SECOND).layer(service_fn(stuck));
            let answer = service.oneshot(request("/")).await.unwrap();
            assert_eq!(begun.elapsed().as_secs(), 1);
            assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
            assert!(!answer.headers().contains_key("retry-after"), "part of the work may be done");
            let problem = problem(answer).await;
            assert!(problem["type"].as_str().unwrap().ends_with("?problem=timeout"), "{problem}");
        }
    }
    assert!(is_free(&locks, "a").await);
}

/// Neither the wait for the lock counts, nor the body.
#[tokio::test(start_paused = true)]
async fn the_time_is_the_handlers_alone() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, "a").wait(10 * SECOND).timeout(SECOND);
    let lease = locks.mutex("a").lock().await.unwrap();
    let slow = layer.layer(service_fn(async |_: Request<()>| {
        sleep(SECOND * 9 / 10).await;
        Ok::<_, Infallible>(text("done"))
    }));
    let waits = tokio::spawn(slow.oneshot(request("/")));
    sleep(5 * SECOND).await;
    lease.release().await.unwrap();
    let answer = waits.await.unwrap().unwrap();
    sleep(5 * SECOND).await;
    assert!(!is_free(&locks, "a").await, "the body holds it");
    assert_eq!(answer.status(), StatusCode::OK);
}

/// Also of requests that hold nothing.
#[tokio::test(start_paused = true)]
async fn a_request_without_a_lock_is_stopped_too() {
    let locks = Locks::in_memory();
    let unlocked = LockLayer::mutex(&locks, key_by(|_| None::<String>)).timeout(SECOND);
    let answer = unlocked.layer(service_fn(stuck)).oneshot(request("/")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
    let rate = LockLayer::rate(&locks, "r", Rate::per_second(9)).timeout(SECOND);
    let answer = rate.layer(service_fn(stuck)).oneshot(request("/")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn the_program_may_answer_it() {
    let locks = Locks::in_memory();
    for on_lost in [OnLost::Cancel, OnLost::Finish] {
        let free = locks.clone();
        let layer = LockLayer::mutex(&locks, "a").timeout(SECOND).on_lost(on_lost).on_refused(
            async move |refusal, parts| {
                assert!(matches!(refusal, Refusal::TookTooLong), "{refusal:?}");
                assert!(is_free(&free, "a").await);
                Response::builder().status(418).body(parts.uri.path().to_owned()).unwrap()
            },
        );
        let answer = layer.layer(service_fn(stuck)).oneshot(request("/")).await.unwrap();
        assert_eq!(answer.status(), StatusCode::IM_A_TEAPOT);
        assert_eq!(ask(&layer, "/").await.status(), StatusCode::OK);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_of_grpc_has_exceeded_its_deadline() {
    let layer = LockLayer::mutex(&Locks::in_memory(), "a").timeout(SECOND);
    let mut call = request("/");
    call.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    let answer = layer.layer(service_fn(stuck)).oneshot(call).await.unwrap();
    assert_eq!(answer.headers()["grpc-status"], "4");
    assert_eq!(answer.headers()["grpc-retry-pushback-ms"], "-1");
}

#[test]
#[should_panic(expected = "a `timeout` of 0")]
fn no_time_at_all_panics_when_the_app_is_built() {
    let _ = LockLayer::mutex(&Locks::in_memory(), "a").timeout(Duration::ZERO);
}
