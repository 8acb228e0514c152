//! What the layer reads of the body of a request that waits, and what the handler gets of it.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::routing::post;
use bytes::Bytes;
use futures_util::stream::iter;
use futures_util::{FutureExt, StreamExt};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use http_body::Frame;
use http_body_util::{BodyExt, Collected, StreamBody};
use leasehold::{LockLayer, Locks};
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};
use tower_http::limit::RequestBodyLimitLayer;

use super::{problem, text};

const WAIT: Duration = Duration::from_secs(5);
const FRAME: usize = 1000;

fn layer(locks: &Locks) -> LockLayer<&'static str> {
    LockLayer::mutex(locks, "a").wait(WAIT)
}

/// A body of so many frames, and how many of them were asked for.
fn frames(count: u8) -> (Body, Arc<AtomicUsize>) {
    let given = Arc::<AtomicUsize>::default();
    let counter = given.clone();
    let frame = move |n| {
        counter.fetch_add(1, Ordering::SeqCst);
        Ok::<_, Infallible>(Bytes::from(vec![n; FRAME]))
    };
    (Body::from_stream(iter(0..count).map(frame)), given)
}

/// All that `frames` gives.
fn whole(count: u8) -> Vec<u8> {
    (0..count).flat_map(|n| vec![n; FRAME]).collect()
}

/// A handler that gives back what it gets.
async fn echo(request: Request<Body>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(request.into_body()))
}

async fn until_waiting(locks: &Locks) {
    while locks.inspect("a").await.unwrap().waiting == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_body_is_read_up_to_a_limit_and_the_handler_gets_it_whole() {
    let locks = Locks::in_memory();
    for (most, read) in
        [(0, 0), (1, 1), (FRAME, 1), (3 * FRAME, 3), (3 * FRAME + 1, 4), (99_999, 9)]
    {
        let held = locks.mutex("a").lock().await.unwrap();
        let (body, given) = frames(9);
        let service = layer(&locks).read_ahead(most).layer(service_fn(echo));
        let answer = tokio::spawn(service.oneshot(Request::post("/").body(body).unwrap()));
        until_waiting(&locks).await;
        assert_eq!(given.load(Ordering::SeqCst), read, "{most} bytes");
        held.release().await.unwrap();
        let body = answer.await.unwrap().unwrap().into_body();
        assert_eq!(body.collect().await.unwrap().to_bytes(), whole(9), "{most} bytes");
    }
}

/// The handler also sees how much it is, and the trailers.
#[tokio::test(start_paused = true)]
async fn sizes_and_trailers_pass_through() {
    let locks = Locks::in_memory();
    let trailers = HeaderMap::from_iter([(http::header::ETAG, HeaderValue::from_static("a"))]);
    let frames = [Frame::data(Bytes::from("one")), Frame::trailers(trailers.clone())];
    let with_trailers = Body::new(StreamBody::new(iter(frames.map(Ok::<_, Infallible>))));
    for (body, size) in [(with_trailers, None), (Body::from("one"), Some(3))] {
        let held = locks.mutex("a").lock().await.unwrap();
        let handler = move |request: Request<Body>| async move {
            let body = request.into_body();
            assert_eq!(body.size_hint().exact(), size);
            assert!(!body.is_end_stream());
            let whole: Collected<Bytes> = body.collect().await.unwrap();
            assert_eq!(whole.trailers().is_some(), size.is_none());
            assert_eq!(whole.to_bytes(), "one");
            Ok::<_, Infallible>(text("done"))
        };
        let service = layer(&locks).layer(service_fn(handler));
        let answer = tokio::spawn(service.oneshot(Request::post("/").body(body).unwrap()));
        until_waiting(&locks).await;
        held.release().await.unwrap();
        assert_eq!(answer.await.unwrap().unwrap().status(), StatusCode::OK);
    }
}

/// Where the server sees the end of a connection by itself, and where the client asks first.
#[tokio::test(start_paused = true)]
async fn nothing_is_read_where_it_would_not_help() {
    let locks = Locks::in_memory();
    for (name, is_asked) in [("HTTP/2", false), ("Expect", true)] {
        let held = locks.mutex("a").lock().await.unwrap();
        let (body, given) = frames(2);
        let mut request = Request::post("/").body(body).unwrap();
        if is_asked {
            request.headers_mut().insert("expect", HeaderValue::from_static("100-continue"));
        } else {
            *request.version_mut() = Version::HTTP_2;
        }
        let answer = tokio::spawn(layer(&locks).layer(service_fn(echo)).oneshot(request));
        until_waiting(&locks).await;
        assert_eq!(given.load(Ordering::SeqCst), 0, "{name}");
        held.release().await.unwrap();
        let body = answer.await.unwrap().unwrap().into_body();
        assert_eq!(body.collect().await.unwrap().to_bytes(), whole(2));
    }
}

/// A request that gets its lock at once pays nothing: the handler gets the body that came.
#[tokio::test]
async fn nothing_is_read_before_a_lock_that_is_free() {
    let (body, given) = frames(2);
    let read = given.clone();
    let handler = move |request: Request<Body>| {
        assert_eq!(read.load(Ordering::SeqCst), 0);
        echo(request)
    };
    let service = layer(&Locks::in_memory()).layer(service_fn(handler));
    let answer = service.oneshot(Request::post("/").body(body).unwrap()).now_or_never();
    let body = answer.expect("at once").unwrap().into_body();
    assert_eq!(body.collect().await.unwrap().to_bytes(), whole(2));
}

/// A body that ends with an error after its first frame.
fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Body {
    let frames = [Ok(Bytes::from("one")), Err(error.into())];
    Body::from_stream(iter(frames))
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_ends_the_wait() {
    let locks = Locks::in_memory();
    let _held = locks.mutex("a").lock().await.unwrap();
    let body = broken(io::Error::from(io::ErrorKind::UnexpectedEof));
    let begun = tokio::time::Instant::now();
    let service = layer(&locks).max_waiters(1).layer(service_fn(echo));
    let answer = service.oneshot(Request::post("/").body(body).unwrap()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    problem(answer).await;
    assert!(begun.elapsed().is_zero());
    assert_eq!(locks.inspect("a").await.unwrap().waiting, 0);
}

/// It holds nothing, so it only matters that the function's future ends.
#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_ends_an_answer_of_the_program() {
    let locks = Locks::in_memory();
    let _held = locks.mutex("a").lock().await.unwrap();
    let layer = LockLayer::mutex(&locks, "a")
        .on_refused(async |_, _| std::future::pending::<Response<Bytes>>().await);
    let many = iter((0..200).map(|_| Ok(Bytes::from(vec![0; 1 << 16]))));
    let body = many.chain(iter([Err(io::Error::from(io::ErrorKind::ConnectionReset))]));
    let request = Request::post("/").body(Body::from_stream(body)).unwrap();
    let answer = layer.layer(service_fn(echo)).oneshot(request);
    let answer = tokio::time::timeout(WAIT, answer).await.expect("it ends").unwrap();
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
}

/// Only the handler knows the answer to a body that is too long, or late.
#[tokio::test(start_paused = true)]
async fn an_error_of_another_layer_reaches_the_handler() {
    let locks = Locks::in_memory();
    let held = locks.mutex("a").lock().await.unwrap();
    let app = Router::new().route("/", post(async |body: Bytes| body)).layer(
        ServiceBuilder::new()
            .layer(RequestBodyLimitLayer::new(FRAME))
            .map_request(|request: Request<_>| request.map(Body::new))
            .layer(layer(&locks)),
    );
    let request = Request::post("/").body(frames(3).0).unwrap();
    let answer = tokio::spawn(app.oneshot(request));
    until_waiting(&locks).await;
    held.release().await.unwrap();
    assert_eq!(answer.await.unwrap().unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE);
}
