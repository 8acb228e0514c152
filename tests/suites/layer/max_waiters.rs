//! The limit of requests that wait for their lock.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, join_all};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use leasehold::layer::{LeaseBody, Refusal, RequestKey, key_by};
use leasehold::{LockKey, LockLayer, Locks, Wait};
use leasehold_tests::server::Server;
use tower::{Layer, ServiceExt};

use super::{Later, ask, counting, problem, request, retry_after};

const WAIT: Duration = Duration::from_secs(5);

type Answer = Response<LeaseBody<Later>>;

/// A request that is waiting.
fn waiting<'a>(layer: &'a LockLayer<impl RequestKey>, path: &'a str) -> LocalBoxFuture<'a, Answer> {
    let service = layer.layer(counting(&std::sync::Arc::default()));
    let mut answer: LocalBoxFuture<'a, Answer> =
        Box::pin(async move { service.oneshot(request(path)).await.unwrap() });
    if let Some(answer) = (&mut answer).now_or_never() {
        panic!("it is answered at once, with {}", answer.status());
    }
    answer
}

/// The answer to a request that gets one at once.
fn at_once(layer: &LockLayer<impl RequestKey>, path: &str) -> Answer {
    ask(layer, path).now_or_never().expect("it does not wait")
}

fn by_path(locks: &Locks) -> LockLayer<impl RequestKey + use<>> {
    LockLayer::mutex(locks, key_by(|parts| LockKey::new(parts.uri.path()))).wait(WAIT)
}

#[tokio::test(start_paused = true)]
async fn a_request_over_the_limit_is_refused_at_once() {
    let locks = Locks::in_memory();
    for (layer, status) in [
        (LockLayer::mutex(&locks, "mutex"), StatusCode::SERVICE_UNAVAILABLE),
        (LockLayer::rw_lock(&locks, "rw_lock"), StatusCode::SERVICE_UNAVAILABLE),
        (LockLayer::semaphore(&locks, "semaphore", 1), StatusCode::TOO_MANY_REQUESTS),
    ] {
        for wait in [Wait::For(WAIT), Wait::Forever] {
            let layer = layer.clone().wait(wait).max_waiters(3);
            let writing = Request::put("/").body(()).unwrap();
            let service = layer.layer(counting(&std::sync::Arc::default()));
            let held = service.oneshot(writing).await.unwrap();
            let queue = [(); 3].map(|()| waiting(&layer, "/"));

            let refused = at_once(&layer, "/");
            assert_eq!(refused.status(), status);
            assert_eq!(retry_after(&refused), 1);
            let problem = problem(refused).await;
            assert_eq!(problem["retry_after"], 1);
            assert_eq!(
                problem["detail"],
                "Too many requests wait for the lock that this one needs."
            );

            drop(held);
            for answer in queue {
                assert_eq!(answer.await.status(), StatusCode::OK, "it is served in its turn");
            }
            // All slots are free again.
            let lease = ask(&layer, "/").await;
            assert_eq!(lease.status(), StatusCode::OK);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_frees_its_slot() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, "a").wait(WAIT).max_waiters(1);
    let _held = locks.mutex("a").lock().await.unwrap();
    for _ in 0..3 {
        let gone = waiting(&layer, "/");
        assert_eq!(at_once(&layer, "/").status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(gone);
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_or_a_time_out_frees_the_slot() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, "a").wait(WAIT).max_waiters(1);
    let lease = locks.mutex("a").lock().await.unwrap();
    let first = waiting(&layer, "/");
    lease.release().await.unwrap();
    let first = first.await;
    assert_eq!(first.status(), StatusCode::OK);

    // That request holds the lock, and no longer waits.
    let second = waiting(&layer, "/");
    assert_eq!(at_once(&layer, "/").status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(second.await.status(), StatusCode::CONFLICT, "its wait is over");
    drop(waiting(&layer, "/"));
}

#[tokio::test(start_paused = true)]
async fn each_key_has_its_own_slots() {
    let locks = Locks::in_memory();
    let layer = by_path(&locks).max_waiters(1);
    let _held = (locks.mutex("/a").lock().await.unwrap(), locks.mutex("/b").lock().await.unwrap());
    let _queue = (waiting(&layer, "/a"), waiting(&layer, "/b"));
    for path in ["/a", "/b"] {
        assert_eq!(at_once(&layer, path).status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
    }
    assert_eq!(at_once(&layer, "/c").status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn clones_of_a_layer_count_together() {
    let locks = Locks::in_memory();
    let layer = by_path(&locks).max_waiters(1);
    let _held = locks.mutex("/a").lock().await.unwrap();
    let clone = layer.clone();
    let _first = waiting(&layer, "/a");
    assert_eq!(at_once(&clone, "/a").status(), StatusCode::SERVICE_UNAVAILABLE);
    // Another layer counts its own requests.
    let another = by_path(&locks).max_waiters(1);
    let _second = waiting(&another, "/a");
}

#[tokio::test(start_paused = true)]
async fn an_immediate_grant_needs_no_slot() {
    let locks = Locks::in_memory();
    let layer = LockLayer::semaphore(&locks, "a", 3).wait(WAIT).max_waiters(1);
    let held = [(); 3].map(|()| at_once(&layer, "/"));
    assert!(held.iter().all(|answer| answer.status() == StatusCode::OK));
    let _fourth = waiting(&layer, "/");
    assert_eq!(at_once(&layer, "/").status(), StatusCode::TOO_MANY_REQUESTS);
}

/// Without a wait the layer refuses at once: the lock is held, or the semaphore is full.
#[tokio::test(start_paused = true)]
async fn with_a_limit_of_zero_nobody_waits() {
    let locks = Locks::in_memory();
    let _held = locks.mutex("a").lock().await.unwrap();
    for layer in [
        LockLayer::mutex(&locks, "a"),
        LockLayer::mutex(&locks, "a").max_waiters(1),
        LockLayer::mutex(&locks, "a").wait(WAIT).max_waiters(0),
        LockLayer::mutex(&locks, "a").wait(Wait::Forever).max_waiters(0),
    ] {
        let answers = join_all((0..5).map(|_| ask(&layer, "/"))).await;
        assert!(answers.iter().all(|answer| answer.status() == StatusCode::CONFLICT));
    }
    let free = LockLayer::mutex(&locks, "b").wait(WAIT).max_waiters(0);
    assert_eq!(at_once(&free, "/").status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn by_default_256_wait_beyond_the_permits() {
    let locks = Locks::in_memory();
    for (layer, permits, most, status) in [
        (LockLayer::mutex(&locks, "mutex"), 1, 256, StatusCode::SERVICE_UNAVAILABLE),
        (LockLayer::semaphore(&locks, "semaphore", 4), 4, 260, StatusCode::TOO_MANY_REQUESTS),
    ] {
        let layer = layer.wait(WAIT);
        let _held: Vec<_> = (0..permits).map(|_| at_once(&layer, "/")).collect();
        let mut queue = Vec::new();
        for _ in 0..most {
            // As in a server, each request comes in a turn of its own.
            tokio::task::yield_now().await;
            queue.push(waiting(&layer, "/"));
        }
        assert_eq!(at_once(&layer, "/").status(), status);
    }
}

#[tokio::test(start_paused = true)]
async fn a_custom_answer_sees_the_key() {
    let locks = Locks::in_memory();
    let layer = by_path(&locks).max_waiters(1).on_refused(async |refusal, _| {
        let Refusal::Crowded { key, .. } = refusal else { return refusal.to_response() };
        let mut response = Response::new(format!("too many for {}", key.name()).into());
        *response.status_mut() = StatusCode::IM_A_TEAPOT;
        response
    });
    let _held = locks.mutex("/a").lock().await.unwrap();
    let _first = waiting(&layer, "/a");
    let refused = at_once(&layer, "/a");
    assert_eq!(refused.status(), StatusCode::IM_A_TEAPOT);
    let body = refused.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "too many for /a");
}

/// Over Redis a request counts as waiting until its first answer arrives. As many requests as
/// permits come at once, and none is refused.
#[tokio::test]
async fn a_burst_that_fits_a_semaphore_is_not_refused() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let layer = LockLayer::semaphore(&locks, "a", 400).wait(Duration::from_secs(30));
    let answers = join_all((0..400).map(|_| ask(&layer, "/"))).await;
    assert!(answers.iter().all(|answer| answer.status() == StatusCode::OK));

    // A limit below the permits applies to requests that acquire.
    let layer = LockLayer::semaphore(&locks, "b", 400).wait(WAIT).max_waiters(100);
    let answers = join_all((0..400).map(|_| ask(&layer, "/"))).await;
    let granted = answers.iter().filter(|answer| answer.status() == StatusCode::OK).count();
    assert!((100..400).contains(&granted), "{granted} of 400 were granted");
}
