//! Refused requests that a function of the program answers: what it gets, when it runs, and what is
//! left of it.

use std::convert::Infallible;
use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use leasehold::layer::{OnLost, Refusal, key_by};
use leasehold::{Fault, LeaseHandle, LockLayer, Locks};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tower::limit::ConcurrencyLimit;
use tower::{Layer, ServiceExt, service_fn};

use super::{Later, ask, counting, is_free, request};

/// Counts its copies.
struct Counted(Arc<AtomicUsize>);

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Ordering::SeqCst);
        Self(self.0.clone())
    }
}

/// Who sends a request; the layer that authenticates puts it there.
#[derive(Clone, Debug, PartialEq)]
struct Caller(&'static str);

fn payment() -> Request<()> {
    let head = Request::post("/payments?in=eur").header("idempotency-key", "k-1");
    head.extension(Caller("ann")).body(()).unwrap()
}

fn assert_is_payment(parts: &Parts) {
    assert_eq!((parts.method.as_str(), parts.uri.to_string()), ("POST", "/payments?in=eur".into()));
    assert_eq!(parts.headers["idempotency-key"], "k-1");
    assert_eq!(parts.extensions.get(), Some(&Caller("ann")));
    assert!(parts.extensions.get::<LeaseHandle>().is_none(), "its lease is none or lost");
}

async fn stuck(_: Request<()>) -> Result<Response<Later>, Infallible> {
    pending().await
}

async fn body_of<B>(response: Response<B>) -> String
where
    B: http_body::Body<Error: std::fmt::Debug>,
{
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

/// Before the lock is asked for, when it is not free, and when the inner service has the request.
#[tokio::test(start_paused = true)]
async fn it_gets_the_refusal_and_the_head_of_the_request() {
    let locks = Locks::in_memory();
    let key = key_by(|parts| match parts.headers.get("no-key") {
        Some(_) => Err("it has none"),
        None => Ok("a"),
    });
    let layer = LockLayer::mutex(&locks, key).max_hold(Duration::from_secs(5)).on_refused(
        async |refusal, parts| {
            assert_is_payment(&parts);
            let why = match refusal {
                Refusal::NoKey(_) => "no key",
                Refusal::Held(_) => "held",
                Refusal::Lost(_) => "lost",
                other => panic!("{other:?}"),
            };
            Response::new(why)
        },
    );
    let service = layer.layer(service_fn(stuck));
    let mut without_key = payment();
    without_key.headers_mut().insert("no-key", "1".parse().unwrap());
    assert_eq!(body_of(service.clone().oneshot(without_key).await.unwrap()).await, "no key");

    let held = locks.mutex("a").lock().await.unwrap();
    assert_eq!(body_of(service.clone().oneshot(payment()).await.unwrap()).await, "held");
    held.release().await.unwrap();
    assert_eq!(body_of(service.oneshot(payment()).await.unwrap()).await, "lost");
}

/// An `async move` closure uses what it has captured. Several answers are made at the same time.
#[tokio::test]
async fn it_may_wait_and_use_what_it_has_captured() {
    let locks = Locks::in_memory();
    let _held = locks.mutex("a").lock().await.unwrap();
    let (asked, mut are_asked) = mpsc::unbounded_channel();
    let database = Arc::new(Semaphore::new(0));
    let connections = database.clone();
    let layer = LockLayer::mutex(&locks, "a").on_refused(async move |refusal, parts| {
        asked.send(()).unwrap();
        connections.acquire().await.unwrap().forget();
        let status = refusal.status();
        Response::builder().status(status).body(parts.uri.path().to_owned()).unwrap()
    });
    let service = layer.layer(counting(&Arc::default()));
    let answers =
        ["/1", "/2", "/3"].map(|path| tokio::spawn(service.clone().oneshot(request(path))));
    for _ in &answers {
        are_asked.recv().await.unwrap();
    }
    assert!(answers.iter().all(|answer| !answer.is_finished()));
    database.add_permits(answers.len());
    for (answer, path) in answers.into_iter().zip(["/1", "/2", "/3"]) {
        let answer = answer.await.unwrap().unwrap();
        assert_eq!(answer.status(), StatusCode::CONFLICT);
        assert_eq!(body_of(answer).await, path);
    }
}

/// A request that gets its lock has its head copied only if its loss would be answered by the program.
#[tokio::test]
async fn the_head_is_copied_for_a_later_loss_alone() {
    let locks = Locks::in_memory();
    let plain = LockLayer::mutex(&locks, "a");
    let own = plain.clone().on_refused(async |refusal, parts: Parts| {
        assert!(parts.extensions.get::<Counted>().is_some());
        refusal.to_response()
    });
    let copies = async |layer: &LockLayer<&'static str>, content_type: &str| {
        let copies = Arc::new(AtomicUsize::new(0));
        let request = Request::post("/").header("content-type", content_type);
        let request = request.extension(Counted(copies.clone())).body(()).unwrap();
        let response = layer.layer(counting(&Arc::default())).oneshot(request).await.unwrap();
        (response.status().as_u16(), copies.load(Ordering::SeqCst))
    };
    let lasts = own.clone().on_lost(OnLost::Finish);
    assert_eq!(copies(&plain, "text/plain").await, (200, 0));
    assert_eq!(copies(&own, "text/plain").await, (200, 1));
    assert_eq!(copies(&lasts, "text/plain").await, (200, 0));
    assert_eq!(copies(&own, "application/grpc").await, (200, 0));
    let _held = locks.mutex("a").lock().await.unwrap();
    for layer in [&plain, &own, &lasts] {
        assert_eq!(copies(layer, "text/plain").await, (409, 0));
    }
}

/// While an answer is made, its request holds no place: neither before the lock nor before the inner
/// service. Nothing is left of an answer that is dropped.
#[tokio::test(start_paused = true)]
async fn an_answer_holds_nothing_and_can_be_dropped() {
    let locks = Locks::in_memory();
    let held = locks.mutex("a").lock().await.unwrap();
    let database = Arc::new(Semaphore::new(1));
    let connections = database.clone();
    let layer = LockLayer::mutex(&locks, "a").wait(Duration::from_secs(1)).max_waiters(1);
    let layer = layer.on_refused(async move |_, _| {
        let _connection = connections.acquire().await.unwrap();
        pending::<Response<String>>().await
    });
    let calls = Arc::default();
    let places = Arc::new(Semaphore::new(1));
    let inner = || ConcurrencyLimit::with_semaphore(counting(&calls), places.clone());

    let mut refused = Box::pin(layer.layer(inner()).oneshot(request("/")));
    assert!(timeout(Duration::from_secs(5), &mut refused).await.is_err(), "it has no answer yet");
    assert_eq!(database.available_permits(), 0, "the answer is under way");
    assert_eq!(places.available_permits(), 1);
    let mut waits = Box::pin(layer.layer(inner()).oneshot(request("/")));
    assert!((&mut waits).now_or_never().is_none());
    assert_eq!(places.available_permits(), 0, "it waits with a place of the inner service");
    held.release().await.unwrap();
    assert_eq!(waits.await.unwrap().status(), StatusCode::OK);
    assert!(is_free(&locks, "a").await);

    drop(refused);
    assert_eq!(database.available_permits(), 1);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

/// The handler is dropped and its lock is free before the loss is answered.
#[tokio::test(start_paused = true)]
async fn a_loss_is_answered_without_the_lock() {
    let locks = Locks::in_memory();
    let other = locks.clone();
    let layer = LockLayer::mutex(&locks, "a").max_hold(Duration::from_secs(5)).on_refused(
        async move |refusal, _| {
            assert!(matches!(refusal, Refusal::Lost(_)), "{refusal:?}");
            let lease = other.mutex("a").try_lock().await.unwrap();
            lease.release().await.unwrap();
            Response::new("it was free")
        },
    );
    let response = layer.layer(service_fn(stuck)).oneshot(request("/")).await.unwrap();
    assert_eq!(body_of(response).await, "it was free");
}

/// The panic is the caller's, as that of a handler. The next request is answered as ever.
#[tokio::test]
async fn a_panic_goes_on_and_leaves_nothing() {
    let locks = Locks::in_memory();
    let held = locks.mutex("a").lock().await.unwrap();
    let layer = LockLayer::mutex(&locks, "a").on_refused(async |refusal, parts| {
        tokio::task::yield_now().await;
        assert_eq!(parts.uri.path(), "/fine", "a mistake of the program");
        refusal.to_response()
    });
    let panicked = AssertUnwindSafe(ask(&layer, "/wrong")).catch_unwind().await;
    assert!(panicked.is_err());
    assert_eq!(ask(&layer, "/fine").await.status(), StatusCode::CONFLICT);
    held.release().await.unwrap();
    assert_eq!(ask(&layer, "/wrong").await.status(), StatusCode::OK);
}

/// In an outage each request is refused. One that passes without its lock is not refused.
#[tokio::test(start_paused = true)]
async fn in_an_outage_it_answers_what_does_not_pass() {
    let (locks, faults) = Locks::in_memory_with_faults();
    faults.always(Fault::Unreachable);
    let layer = LockLayer::mutex(&locks, "a").on_refused(async |refusal, parts| {
        assert!(matches!(refusal, Refusal::Unavailable(_)), "{refusal:?}");
        Response::new(parts.uri.path().to_owned())
    });
    for path in ["/1", "/2"] {
        assert_eq!(body_of(ask(&layer, path).await).await, path);
        assert_eq!(body_of(ask(&layer.clone().fail_open(), path).await).await, "done");
    }
}
