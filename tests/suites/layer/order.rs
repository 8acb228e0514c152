//! The layer among others: time-outs, traces, caught panics, concurrency limits, and another
//! layer of ours.

use std::convert::Infallible;
use std::future::pending;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use futures_util::FutureExt;
use futures_util::future::join;
use http::header::RETRY_AFTER;
use http::{HeaderName, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use leasehold::layer::{KeyBy, key_by};
use leasehold::{LockLayer, Locks, Rate, path_key};
use tokio::sync::{Barrier, Notify};
use tokio::time::{Instant, sleep};
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{Any, CorsLayer};
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;
use tracing::Span;

use super::{Later, counting, is_free, request, text};

const SECOND: Duration = Duration::from_secs(1);

fn one_second() -> TimeoutLayer {
    TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, SECOND)
}

/// A mutex for each path, without its slash.
fn by_path(
    locks: &Locks,
) -> LockLayer<KeyBy<impl Fn(&http::request::Parts) -> Option<String> + use<>>> {
    let name = |parts: &http::request::Parts| Some(parts.uri.path()[1..].to_owned());
    LockLayer::mutex(locks, key_by(name))
}

async fn stuck(_: Request<()>) -> Result<Response<Later>, Infallible> {
    pending().await
}

#[tokio::test(start_paused = true)]
async fn a_time_out_outside_counts_the_wait_and_ends_it() {
    let locks = Locks::in_memory();
    let lease = locks.mutex("a").lock().await.unwrap();
    let calls = Arc::default();
    let service = ServiceBuilder::new()
        .layer(one_second())
        .layer(LockLayer::mutex(&locks, "a").wait(10 * SECOND))
        .service(counting(&calls));
    let begun = Instant::now();
    let response = service.oneshot(request("/")).await.unwrap();
    assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
    assert_eq!(begun.elapsed().as_secs(), 1);
    lease.release().await.unwrap();
    assert!(is_free(&locks, "a").await, "the request is no longer in the queue");
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_time_out_outside_stops_the_handler_and_frees_its_lock() {
    let locks = Locks::in_memory();
    let service = ServiceBuilder::new()
        .layer(one_second())
        .layer(LockLayer::mutex(&locks, "a"))
        .service(service_fn(stuck));
    let response = service.oneshot(request("/")).await.unwrap();
    assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
    assert!(is_free(&locks, "a").await);
}

#[tokio::test(start_paused = true)]
async fn a_time_out_inside_does_not_count_the_wait() {
    let locks = Locks::in_memory();
    let lease = locks.mutex("a").lock().await.unwrap();
    let layers = ServiceBuilder::new()
        .layer(LockLayer::mutex(&locks, "a").wait(10 * SECOND))
        .layer(one_second());
    let waiting = layers.clone().service(counting(&Arc::default())).oneshot(request("/"));
    let holder = async {
        sleep(5 * SECOND).await;
        lease.release().await.unwrap();
    };
    let (response, ()) = join(waiting, holder).await;
    assert_eq!(response.unwrap().status(), StatusCode::OK);

    let response = layers.service(service_fn(stuck)).oneshot(request("/")).await.unwrap();
    assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
    assert!(is_free(&locks, "a").await);
}

/// Outside, CORS answers a preflight before it takes anything, and a script can read a refusal.
#[tokio::test]
async fn cors_belongs_outside_of_a_rate() {
    for (is_outside, preflight_status, next) in [(true, 200, 200), (false, 200, 429)] {
        let cors = CorsLayer::new()
            .allow_origin(Any)
            .allow_headers(Any)
            .expose_headers([RETRY_AFTER, HeaderName::from_static("ratelimit")]);
        let rate = LockLayer::rate(&Locks::in_memory(), "r", Rate::per_hour(1));
        let app = Router::new().route("/", get(async || "done"));
        let app =
            if is_outside { app.layer(rate).layer(cors) } else { app.layer(cors).layer(rate) };
        let ask = async |method| {
            let request = Request::builder().method(method).header("origin", "http://a");
            let request = request.header("access-control-request-method", "GET");
            app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
        };
        assert_eq!(ask(Method::OPTIONS).await.status(), preflight_status);
        assert_eq!(ask(Method::GET).await.status(), next);
        let refused = ask(Method::GET).await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        let headers = refused.headers();
        assert_eq!(headers.contains_key("access-control-allow-origin"), is_outside);
        assert_eq!(headers.contains_key("access-control-expose-headers"), is_outside);
    }
}

type Seen = Arc<Mutex<Vec<u16>>>;

/// Notes the status of each response.
fn note<B>(seen: &Seen) -> impl Fn(&Response<B>, Duration, &Span) + Clone + use<B> {
    let seen = seen.clone();
    move |response, _, _| seen.lock().unwrap().push(response.status().as_u16())
}

#[tokio::test]
async fn a_trace_outside_sees_refusals_and_one_inside_sees_the_handlers_answers() {
    let locks = Locks::in_memory();
    let (outside, inside) = (Seen::default(), Seen::default());
    let handler = async |_: Request<String>| Ok::<_, Infallible>(text("done"));
    let service = ServiceBuilder::new()
        .layer(TraceLayer::new_for_http().on_response(note(&outside)))
        .layer(LockLayer::mutex(&locks, "a"))
        .layer(TraceLayer::new_for_http().on_response(note(&inside)))
        .service(service_fn(handler));
    let ask = async || service.clone().oneshot(Request::new(String::new())).await.unwrap();
    let first = ask().await;
    assert!(!is_free(&locks, "a").await, "a body that is traced holds the lock, too");
    let second = ask().await;
    assert_eq!(second.status(), StatusCode::CONFLICT);
    first.into_body().collect().await.unwrap();
    assert!(is_free(&locks, "a").await);
    assert_eq!(*outside.lock().unwrap(), [200, 409]);
    assert_eq!(*inside.lock().unwrap(), [200]);
}

async fn panics(request: Request<()>) -> Result<Response<Later>, Infallible> {
    assert_eq!(request.uri().path(), "/never", "the handler panics");
    Ok(text("never"))
}

#[tokio::test]
async fn a_caught_panic_frees_the_lock_outside_and_inside() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, "a");
    let catch = CatchPanicLayer::new();
    let outside =
        ServiceBuilder::new().layer(catch).layer(layer.clone()).service(service_fn(panics));
    let response = outside.oneshot(request("/")).await.unwrap();
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert!(is_free(&locks, "a").await, "the panic has dropped the lease");
    drop(response);

    let inside = ServiceBuilder::new().layer(layer).layer(catch).service(service_fn(panics));
    let response = inside.oneshot(request("/")).await.unwrap();
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert!(is_free(&locks, "a").await, "the answer 500 was ready with its head");
}

/// A handler that says that it runs, and then waits until it may end.
#[derive(Clone, Default)]
struct Gate {
    runs: Arc<Notify>,
    may_end: Arc<Notify>,
}

impl Gate {
    async fn pass(self) -> Response<Later> {
        self.runs.notify_one();
        self.may_end.notified().await;
        text("done")
    }
}

#[tokio::test]
async fn a_request_that_waits_for_an_outer_limit_holds_no_lock() {
    let locks = Locks::in_memory();
    let gate = Gate::default();
    let service = ServiceBuilder::new()
        .layer(ConcurrencyLimitLayer::new(1))
        .layer(by_path(&locks))
        .service(service_fn(|_: Request<()>| gate.clone().pass().map(Ok::<_, Infallible>)));
    let first = service.clone().oneshot(request("/a"));
    let second = async {
        gate.runs.notified().await;
        let mut second = Box::pin(service.clone().oneshot(request("/b")));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(!is_free(&locks, "a").await && is_free(&locks, "b").await);
        gate.may_end.notify_one();
        let ends = async {
            gate.runs.notified().await;
            gate.may_end.notify_one();
        };
        join(second, ends).await.0
    };
    let (first, second) = join(first, second).await;
    assert_eq!(
        (first.unwrap().status(), second.unwrap().status()),
        (StatusCode::OK, StatusCode::OK)
    );
}

/// In one stack the layer reserves a place before it asks for the lock, and keeps it meanwhile.
#[tokio::test]
async fn a_request_that_waits_for_its_lock_uses_up_an_inner_limit() {
    let locks = Locks::in_memory();
    let service = ServiceBuilder::new()
        .layer(by_path(&locks).wait(60 * SECOND))
        .layer(ConcurrencyLimitLayer::new(1))
        .service(counting(&Arc::default()));
    let held = locks.mutex("a").lock().await.unwrap();
    let mut waits = Box::pin(service.clone().oneshot(request("/a")));
    assert!(waits.as_mut().now_or_never().is_none());
    let mut other = Box::pin(service.oneshot(request("/b")));
    assert!(other.as_mut().now_or_never().is_none(), "the limit is used up");
    assert!(is_free(&locks, "b").await, "but it has not asked for its lock");
    held.release().await.unwrap();
    let (waits, other) = join(waits, other).await;
    assert_eq!(
        (waits.unwrap().status(), other.unwrap().status()),
        (StatusCode::OK, StatusCode::OK)
    );
}

/// axum's routers are always ready. There, a limit further inside is asked under the lock.
#[tokio::test]
async fn with_axum_a_request_that_waits_for_an_inner_limit_holds_its_lock() {
    let locks = Locks::in_memory();
    let gate = Gate::default();
    let passes = gate.clone();
    let handler = get(async move || passes.pass().await.map(|_| Body::empty()));
    let app = Router::new()
        .route("/{id}", handler)
        .layer(ConcurrencyLimitLayer::new(1))
        .layer(LockLayer::mutex(&locks, path_key("{id}")));
    let get = |path| Request::get(path).body(Body::empty()).unwrap();
    let first = tokio::spawn(app.clone().oneshot(get("/a")));
    gate.runs.notified().await;
    let mut second = Box::pin(app.oneshot(get("/b")));
    assert!(second.as_mut().now_or_never().is_none());
    assert!(!is_free(&locks, "b").await, "it holds its lock while it waits for the limit");
    gate.may_end.notify_one();
    first.await.unwrap().unwrap();
    let done = async {
        gate.runs.notified().await;
        gate.may_end.notify_one();
    };
    let (second, ()) = join(second, done).await;
    assert_eq!(second.unwrap().status(), StatusCode::OK);
    assert!(is_free(&locks, "a").await && is_free(&locks, "b").await);
}

#[tokio::test]
async fn two_of_our_layers_hold_both_locks_and_a_refusal_gives_the_outer_one_back() {
    let locks = Locks::in_memory();
    let calls = Arc::default();
    let service = ServiceBuilder::new()
        .layer(LockLayer::semaphore(&locks, "all", 2))
        .layer(by_path(&locks))
        .service(counting(&calls));
    let all = locks.semaphore("all", 2);
    let ask = async |path| service.clone().oneshot(request(path)).await.unwrap();

    let a = ask("/a").await;
    assert!(!is_free(&locks, "a").await);
    assert_eq!(ask("/a").await.status(), StatusCode::CONFLICT);
    let b = ask("/b").await;
    assert_eq!(b.status(), StatusCode::OK, "the refused request has given its permit back");
    assert_eq!(ask("/c").await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(is_free(&locks, "c").await);
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    a.into_body().collect().await.unwrap();
    assert!(is_free(&locks, "a").await);
    b.into_body().collect().await.unwrap();
    assert!(all.try_acquire_many(2).await.is_ok(), "both layers released at the body's end");
}

/// Two requests that take the same two locks in different orders stop each other until the wait
/// of one is over.
#[tokio::test(start_paused = true)]
async fn two_layers_in_different_orders_wait_for_each_other() {
    let locks = Locks::in_memory();
    let both_hold_one = Arc::new(Barrier::new(2));
    let route = |outer: &'static str, inner: &'static str| {
        let layer = |key| LockLayer::mutex(&locks, key).wait(SECOND);
        let (inner, both) = (layer(inner).layer(counting(&Arc::default())), both_hold_one.clone());
        layer(outer).layer(service_fn(move |request: Request<()>| {
            let (inner, both) = (inner.clone(), both.clone());
            async move {
                both.wait().await;
                inner.oneshot(request).await
            }
        }))
    };
    let begun = Instant::now();
    let (one, other) = (route("a", "b"), route("b", "a"));
    let (one, other) = join(one.oneshot(request("/")), other.oneshot(request("/"))).await;
    // The first refusal gives its lock back, maybe just in time for the other request.
    let statuses = [one.unwrap().status(), other.unwrap().status()];
    assert!(statuses.contains(&StatusCode::CONFLICT), "{statuses:?}");
    assert_eq!(begun.elapsed().as_secs(), 1);
    assert!(is_free(&locks, "a").await && is_free(&locks, "b").await);
}
