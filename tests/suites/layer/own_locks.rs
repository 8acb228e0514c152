//! A request that asks for a lock that it holds already: an error of the server, at once.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use axum::routing::post;
use http::{Method, Request, StatusCode};
use leasehold::layer::OnLost;
use leasehold::{LeaseHandle, LockError, LockLayer, Locks, Wait, distributed_lock};
use leasehold_tests::logs::LogRecorder;
use tokio::time::Instant;
use tower::{Layer, ServiceExt, service_fn};
use tracing::Level;

use super::{counting, problem, request, text};

const MINUTE: Duration = Duration::from_secs(60);

/// A layer of this kind on the lock "own".
fn layer(locks: &Locks, kind: &str) -> LockLayer<&'static str> {
    match kind {
        "mutex" => LockLayer::mutex(locks, "own"),
        "permit" => LockLayer::semaphore(locks, "own", 1),
        _ => LockLayer::rw_lock(locks, "own"),
    }
}

fn of_method(method: Method) -> Request<()> {
    Request::builder().method(method).body(()).unwrap()
}

/// Whether two layers wait or not, and whatever the kind.
#[tokio::test(start_paused = true)]
async fn two_layers_on_one_lock_are_500_at_once() {
    for kind in ["mutex", "permit", "writer"] {
        for wait in [Wait::For(Duration::ZERO), Wait::For(MINUTE), Wait::Forever] {
            let locks = Locks::in_memory();
            let (logs, _guard) = LogRecorder::start(Level::INFO);
            let own = layer(&locks, kind).wait(wait);
            let service = own.clone().layer(own.layer(counting(&Arc::default())));
            let begun = Instant::now();
            let response = service.oneshot(of_method(Method::POST)).await.unwrap();
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR, "{kind}, {wait:?}");
            assert_eq!(begun.elapsed(), Duration::ZERO, "{kind}, {wait:?}");
            assert!(!response.headers().contains_key("retry-after"));
            assert_eq!(problem(response).await["title"], "Lock held by the request itself");
            let text = logs.text();
            assert!(text.contains("ERROR") && text.contains("lock=\"own\""), "{text}");
            assert!(text.contains("take the lock once"), "{text}");
        }
    }
}

#[distributed_lock(key = "own", wait = "1m")]
async fn change() -> Result<&'static str, LockError> {
    Ok("changed")
}

#[tokio::test(start_paused = true)]
async fn a_layer_and_its_handler_on_one_lock_are_500_at_once() {
    let locks = Locks::in_memory();
    let handler = post(change).route_layer(LockLayer::mutex(&locks, "own"));
    let app: Router = Router::new().route("/", handler);
    let begun = Instant::now();
    let request = Request::post("/").body(Body::empty()).unwrap();
    let response = locks.scope(app.oneshot(request)).await.unwrap();
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert!(!response.headers().contains_key("retry-after"));
    assert_eq!(problem(response).await["title"], "Lock held by the request itself");
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

/// What others hold is refused as ever, and so is what may be free in time.
#[tokio::test(start_paused = true)]
async fn what_can_be_granted_is_not_refused() {
    let locks = Locks::in_memory();
    // Two permits of two, and a third.
    let two = LockLayer::semaphore(&locks, "two", 2);
    let service = two.clone().layer(two.clone().layer(counting(&Arc::default())));
    let response = service.clone().oneshot(request("/")).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    drop(response);
    let other = locks.semaphore("two", 2).acquire().await.unwrap();
    let response = service.clone().oneshot(request("/")).await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS, "another has the second");
    drop(other);
    let response = two.layer(service).oneshot(request("/")).await.unwrap();
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR, "three of two");

    // A reader beside itself.
    let readers = LockLayer::rw_lock(&locks, "readers");
    let service = readers.clone().layer(readers.layer(counting(&Arc::default())));
    assert_eq!(service.oneshot(of_method(Method::GET)).await.unwrap().status(), StatusCode::OK);

    // Another client's lock of the same name is not the caller's.
    let (mine, theirs) = (Locks::in_memory(), Locks::in_memory());
    let service = LockLayer::mutex(&mine, "own").layer(counting(&Arc::default()));
    let service = LockLayer::mutex(&theirs, "own").layer(service);
    assert_eq!(service.oneshot(request("/")).await.unwrap().status(), StatusCode::OK);
}

/// A lease that may end before its caller does is waited for.
#[tokio::test(start_paused = true)]
async fn a_carried_scope_waits_first() {
    let locks = Locks::in_memory();
    let lease = locks.mutex("own").lock().await.unwrap();
    let again = locks.mutex("own").wait(MINUTE);
    let carried = tokio::spawn(lease.handle().scope(async move { again.lock().await.map(drop) }));
    tokio::task::yield_now().await;
    lease.release().await.unwrap();
    carried.await.unwrap().unwrap();

    // Work that goes on after a loss may acquire the lock anew.
    let inside = locks.clone();
    let layer = LockLayer::mutex(&locks, "own").max_hold(MINUTE).on_lost(OnLost::Finish);
    let service = layer.layer(service_fn(move |_: Request<()>| {
        let again = inside.mutex("own").wait(2 * MINUTE);
        async move {
            assert!(LeaseHandle::current().is_some());
            let second = again.lock().await.expect("the first lease is lost by then");
            drop(second);
            Ok::<_, Infallible>(text("done"))
        }
    }));
    assert_eq!(service.oneshot(request("/")).await.unwrap().status(), StatusCode::OK);
}

#[distributed_lock(key = "own", wait = "1m", on_lost = "finish")]
async fn finishes() -> Result<(), LockError> {
    change().await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_wait_for_itself_is_500_too() {
    let locks = Locks::in_memory();
    let begun = Instant::now();
    let error = locks.scope(finishes()).await.unwrap_err();
    assert_eq!(begun.elapsed(), MINUTE, "its lease could have been lost");
    assert_eq!(error.into_response().status(), StatusCode::INTERNAL_SERVER_ERROR);
    let lease = locks.mutex("own").lock().await.unwrap();
    let error = locks.scope(lease.run(change())).await.unwrap().unwrap_err();
    lease.release().await.unwrap();
    let text = error.to_string();
    let LockError::TimedOut { held_by_caller: true, waited, .. } = error else { panic!("{error}") };
    assert_eq!(waited, Duration::ZERO);
    assert!(text.starts_with("`own` was not acquired: the caller itself holds it"), "{text}");
    let held = locks.mutex("own").lock().await.unwrap();
    let tried = held.run(locks.mutex("own").try_lock()).await.unwrap().unwrap_err();
    assert!(matches!(tried, LockError::Busy { held_by_caller: true, .. }), "{tried}");
    let elsewhere = locks.mutex("own").try_lock().await.unwrap_err();
    assert!(matches!(elsewhere, LockError::Busy { held_by_caller: false, .. }), "{elsewhere}");
}
