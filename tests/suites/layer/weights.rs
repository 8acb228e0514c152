//! The weight of a request under a semaphore, and the limit that holds for it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use leasehold::layer::{Refusal, RequestKey};
use leasehold::{Fault, LockLayer, Locks};
use tower::{Layer, ServiceExt, service_fn};

use super::{Later, counting, problem, text};

/// The weight is in a header; without one it is 1.
fn by_header<K: RequestKey + 'static>(layer: LockLayer<K>) -> LockLayer<K> {
    layer.weight_by(|parts| match parts.headers.get("x-pages") {
        None => Ok(1),
        Some(pages) => pages
            .to_str()
            .ok()
            .and_then(|pages| pages.parse::<u32>().ok())
            .ok_or("the header x-pages is no number"),
    })
}

fn with_pages(pages: &str) -> Request<()> {
    Request::get("/").header("x-pages", pages).body(()).unwrap()
}

#[tokio::test]
async fn a_request_takes_its_weight_of_the_limit() {
    let locks = Locks::in_memory();
    let layer = by_header(LockLayer::semaphore(&locks, "pages", 8));
    let service = layer.layer(service_fn(async |_: Request<()>| Ok::<_, Infallible>(text("done"))));
    let ask = async |pages| service.clone().oneshot(with_pages(pages)).await.unwrap();
    let five = ask("5").await;
    assert_eq!(five.status(), StatusCode::OK);
    assert_eq!(ask("4").await.status(), StatusCode::TOO_MANY_REQUESTS);
    let three = ask("3").await;
    assert_eq!(three.status(), StatusCode::OK);
    assert!(locks.semaphore("pages", 8).try_acquire().await.is_err(), "all is taken");
    drop(five);
    assert_eq!(ask("6").await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(ask("5").await.status(), StatusCode::OK);
    drop(three);
    assert_eq!(ask("8").await.status(), StatusCode::OK);
}

/// A semaphore would never grant it, so it is the client's mistake, and not a full semaphore.
#[tokio::test]
async fn a_weight_that_cannot_be_granted_is_400_and_calls_nothing() {
    let locks = Locks::in_memory();
    for (pages, why) in [
        ("0", "0 is not between 1 and 8"),
        ("9", "9 is not between 1 and 8"),
        ("4294967295", "4294967295 is not between 1 and 8"),
        ("-1", "the header x-pages is no number"),
        ("many", "the header x-pages is no number"),
    ] {
        let calls = Arc::default();
        let layer = by_header(LockLayer::semaphore(&locks, "pages", 8)).fail_open();
        let layer = layer.on_refused(async |refusal, _| {
            assert!(matches!(refusal, Refusal::NoWeight(_)), "{refusal:?}");
            refusal.to_response()
        });
        let response = layer.layer(counting(&calls)).oneshot(with_pages(pages)).await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{pages}");
        assert!(!response.headers().contains_key("retry-after"));
        let problem = problem(response).await;
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            detail.starts_with("The request does not say how much") && detail.contains(why),
            "{detail}"
        );
        assert_eq!(calls.load(Ordering::SeqCst), 0);
    }
}

/// An idle permit serves only a request of the same weight.
#[tokio::test(start_paused = true)]
async fn an_idle_permit_keeps_its_weight() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let layer = by_header(LockLayer::semaphore(&locks, "pages", 8)).linger(Duration::from_secs(5));
    let service = layer
        .layer(service_fn(async |_: Request<()>| Ok::<Response<Later>, Infallible>(text("done"))));
    let ask = async |pages| {
        let response = service.clone().oneshot(with_pages(pages)).await.unwrap();
        let status = response.status();
        response.into_body().collect().await.unwrap();
        status
    };
    assert_eq!(ask("3").await, StatusCode::OK);
    assert_eq!(ask("8").await, StatusCode::OK, "the idle permit is given back for it");
    faults.always(Fault::Unreachable);
    assert_eq!(ask("8").await, StatusCode::OK);
    assert_eq!(ask("2").await, StatusCode::SERVICE_UNAVAILABLE, "it has to ask the store");
}

#[test]
#[should_panic(expected = "`weight_by` is for semaphores")]
fn a_weight_of_a_mutex_panics_at_start() {
    let _ = by_header(LockLayer::mutex(&Locks::in_memory(), "a"));
}

#[test]
#[should_panic(expected = "`weight_by` is for semaphores")]
fn a_weight_of_a_read_write_lock_panics_at_start() {
    let _ = by_header(LockLayer::rw_lock(&Locks::in_memory(), "a"));
}

/// The plan of a request, as the layer that authenticates leaves it.
#[derive(Clone)]
struct Plan(u32);

fn with_plan(plan: Option<u32>) -> Request<()> {
    let mut request = Request::get("/").body(()).unwrap();
    if let Some(limit) = plan {
        request.extensions_mut().insert(Plan(limit));
    }
    request
}

fn by_plan<K: RequestKey + 'static>(layer: LockLayer<K>) -> LockLayer<K> {
    layer.limit_by(|parts| parts.extensions.get::<Plan>().map(|plan| plan.0))
}

/// Each request is checked by its own limit, and all that is held counts.
#[tokio::test]
async fn a_request_keeps_to_its_own_limit() {
    let locks = Locks::in_memory();
    let service = by_plan(LockLayer::semaphore(&locks, "calls", 1))
        .layer(service_fn(async |_: Request<()>| Ok::<_, Infallible>(text("done"))));
    let ask = async |plan| service.clone().oneshot(with_plan(plan)).await.unwrap();
    let one = ask(None).await;
    assert_eq!(one.status(), StatusCode::OK);
    assert_eq!(ask(None).await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(ask(Some(1)).await.status(), StatusCode::TOO_MANY_REQUESTS);
    let two = ask(Some(3)).await;
    let three = ask(Some(3)).await;
    assert_eq!([two.status(), three.status()], [StatusCode::OK; 2]);
    assert_eq!(ask(Some(3)).await.status(), StatusCode::TOO_MANY_REQUESTS);
    // A lowered limit stops nobody, and lets nobody in.
    drop(one);
    assert_eq!(ask(Some(2)).await.status(), StatusCode::TOO_MANY_REQUESTS);
    drop(two);
    assert_eq!(ask(None).await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(ask(Some(2)).await.status(), StatusCode::OK);
    drop(three);
}

#[tokio::test]
async fn a_limit_that_nobody_may_have_is_400_and_calls_nothing() {
    let locks = Locks::in_memory();
    let calls = Arc::default();
    let layer = by_plan(LockLayer::semaphore(&locks, "calls", 1)).fail_open();
    let layer = layer.on_refused(async |refusal, _| {
        assert!(matches!(refusal, Refusal::NoLimit(_)), "{refusal:?}");
        refusal.to_response()
    });
    let response = layer.layer(counting(&calls)).oneshot(with_plan(Some(0))).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let detail = problem(response).await["detail"].to_string();
    assert!(detail.contains("which limit holds for it: 0 is not between"), "{detail}");
    let fails = LockLayer::semaphore(&locks, "calls", 1).limit_by(|_| Err::<u32, _>("no plan"));
    let response = fails.layer(counting(&calls)).oneshot(with_plan(None)).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    // A weight above the request's own limit can never be granted.
    let heavy = by_plan(by_header(LockLayer::semaphore(&locks, "calls", 8)));
    let mut request = with_pages("3");
    request.extensions_mut().insert(Plan(2));
    let response = heavy.layer(counting(&calls)).oneshot(request).await.unwrap();
    let detail = problem(response).await["detail"].to_string();
    assert!(detail.contains("3 is not between 1 and 2"), "{detail}");
}

/// A permit was checked by the limit of the request that took it.
#[tokio::test(start_paused = true)]
async fn an_idle_permit_serves_no_request_of_another_limit() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let layer = by_plan(LockLayer::semaphore(&locks, "calls", 2)).linger(Duration::from_secs(5));
    let service = layer
        .layer(service_fn(async |_: Request<()>| Ok::<Response<Later>, Infallible>(text("done"))));
    let ask = async |plan| {
        let response = service.clone().oneshot(with_plan(plan)).await.unwrap();
        let status = response.status();
        response.into_body().collect().await.unwrap();
        status
    };
    assert_eq!(ask(Some(4)).await, StatusCode::OK);
    faults.always(Fault::Unreachable);
    assert_eq!(ask(Some(4)).await, StatusCode::OK);
    assert_eq!(ask(None).await, StatusCode::SERVICE_UNAVAILABLE, "it has to ask the store");
}

#[test]
#[should_panic(expected = "`limit_by` is for semaphores")]
fn a_limit_of_a_mutex_panics_at_start() {
    let _ = by_plan(LockLayer::mutex(&Locks::in_memory(), "a"));
}
