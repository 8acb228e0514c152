//! Refused requests, and their answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{Response, StatusCode};
use http_body_util::BodyExt;
use leasehold::layer::{Refusal, key_by};
use leasehold::{LockError, LockKey, LockLayer, Locks, Released};
use tokio::time::advance;
use tower::{Layer, ServiceExt};

use super::{ask, counting, problem, request, retry_after};

#[tokio::test(start_paused = true)]
async fn a_held_mutex_is_409_and_may_be_free_in_a_second() {
    let locks = Locks::in_memory();
    let mutex = locks.mutex("a").ttl(Duration::from_secs(20)).hold_at_least(Duration::from_secs(9));
    let _lease = mutex.lock().await.unwrap();
    advance(Duration::from_millis(2500)).await;

    let response = ask(&LockLayer::mutex(&locks, "a"), "/").await;
    assert_eq!(response.status(), StatusCode::CONFLICT);
    assert_eq!(retry_after(&response), 1, "its lease is renewed, or released before it ends");
    let problem = problem(response).await;
    assert_eq!(problem["retry_after"], 1);
    assert!(problem["detail"].as_str().unwrap().contains("Another request holds the lock"));
}

#[tokio::test(start_paused = true)]
async fn a_kept_mutex_is_free_when_the_answer_says() {
    let locks = Locks::in_memory();
    let lease = locks.mutex("a").hold_at_least(Duration::from_secs(20)).lock().await.unwrap();
    advance(Duration::from_millis(2500)).await;
    assert_eq!(lease.release().await.unwrap(), Released::Kept);

    let response = ask(&LockLayer::mutex(&locks, "a"), "/").await;
    assert_eq!(response.status(), StatusCode::CONFLICT);
    assert_eq!(retry_after(&response), 18, "17.5 s, rounded up");
    assert_eq!(problem(response).await["retry_after"], 18);
    advance(Duration::from_secs(18)).await;
    assert_eq!(ask(&LockLayer::mutex(&locks, "a"), "/").await.status(), StatusCode::OK);
}

/// An operator closes a route, and lowers the limit of another below what a request takes.
#[tokio::test(start_paused = true)]
async fn a_closed_semaphore_is_503_and_says_so() {
    let locks = Locks::in_memory();
    let waiting = LockLayer::semaphore(&locks, "a", 2).wait(Duration::from_secs(60));
    let held = locks.semaphore("a", 2).acquire_many(2).await.unwrap();
    let close = async {
        tokio::task::yield_now().await;
        locks.limits().name("a").by("ann").why("a secret reason").set(0).await.unwrap();
    };
    let (waits, ()) = tokio::join!(ask(&waiting, "/"), close);
    assert_eq!(waits.status(), StatusCode::SERVICE_UNAVAILABLE, "it does not wait on");
    drop(held);
    for layer in [waiting.clone(), waiting.fail_open()] {
        let response = ask(&layer, "/").await;
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(response.headers().get("retry-after").is_none());
        let problem = problem(response).await;
        assert_eq!(problem["title"], "Closed by an operator");
        assert!(!problem.to_string().contains("secret"), "{problem}");
    }
    locks.limits().name("a").set(1).await.unwrap();
    let heavy = LockLayer::semaphore(&locks, "a", 2).weight_by(|_| 2);
    let detail = problem(ask(&heavy, "/").await).await["detail"].to_string();
    assert!(detail.contains("this one takes more"), "{detail}");
    assert_eq!(ask(&LockLayer::semaphore(&locks, "a", 2), "/").await.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_full_semaphore_is_429() {
    let locks = Locks::in_memory();
    let layer = LockLayer::semaphore(&locks, "a", 2).ttl(Duration::from_secs(20));
    let first = ask(&layer, "/").await;
    let second = ask(&layer, "/").await;
    assert_eq!((first.status(), second.status()), (StatusCode::OK, StatusCode::OK));

    let third = ask(&layer, "/").await;
    assert_eq!(third.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(retry_after(&third), 1);
    assert_eq!(problem(third).await["retry_after"], 1);

    drop(first);
    assert_eq!(ask(&layer, "/").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_refused_request_never_calls_the_inner_service() {
    let locks = Locks::in_memory();
    let calls = Arc::default();
    let service = LockLayer::mutex(&locks, "a").layer(counting(&calls));
    let bad = LockLayer::mutex(&locks, key_by(|_| Err::<String, _>("no"))).layer(counting(&calls));

    let lease = locks.mutex("a").lock().await.unwrap();
    let response = service.clone().oneshot(request("/")).await.unwrap();
    assert_eq!(response.status(), StatusCode::CONFLICT);
    assert_eq!(bad.oneshot(request("/")).await.unwrap().status(), StatusCode::BAD_REQUEST);
    assert_eq!(calls.load(Ordering::SeqCst), 0);

    lease.release().await.unwrap();
    assert_eq!(service.oneshot(request("/")).await.unwrap().status(), StatusCode::OK);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn no_refusal_names_the_lock() {
    let locks = Locks::in_memory();
    let _lease = locks.mutex("personal").lock().await.unwrap();
    let _permit = locks.semaphore("personal permits", 1).acquire().await.unwrap();
    for response in [
        ask(&LockLayer::mutex(&locks, "personal"), "/").await,
        ask(&LockLayer::semaphore(&locks, "personal", 1), "/").await,
        ask(&LockLayer::semaphore(&locks, "personal permits", 1), "/").await,
        ask(&LockLayer::mutex(&locks, key_by(|_| Some("personal\n"))), "/").await,
    ] {
        assert!(response.status() != StatusCode::OK);
        let problem = problem(response).await.to_string();
        assert!(!problem.contains("personal"), "{problem}");
    }
}

#[tokio::test]
async fn server_errors_are_500() {
    let locks = Locks::in_memory();
    let _lease = locks.mutex("a").lock().await.unwrap();
    // Another kind of lock has the name.
    let response = ask(&LockLayer::semaphore(&locks, "a", 1), "/").await;
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert!(!response.headers().contains_key("retry-after"));
    problem(response).await;
}

#[tokio::test]
async fn custom_answers_replace_the_built_in_ones() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, key_by(|parts| LockKey::new(parts.uri.path())))
        .on_refused(async |refusal, _| {
            let Refusal::Held(LockError::Busy { key, .. }) = refusal else {
                return refusal.to_response().map(Vec::from);
            };
            let mut response = Response::new(key.name().into());
            *response.status_mut() = StatusCode::LOCKED;
            response
        });
    let _lease = locks.mutex("/a").lock().await.unwrap();
    let response = ask(&layer, "/a").await;
    assert_eq!(response.status(), StatusCode::LOCKED);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "/a");

    let too_long = ask(&layer, &format!("/{}", "x".repeat(600))).await;
    assert_eq!(too_long.status(), StatusCode::BAD_REQUEST);
    problem(too_long).await;
}
