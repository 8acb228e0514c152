//! The time that a request holds its lock.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use futures_util::{FutureExt, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, StreamBody};
use leasehold::{LeaseHandle, LockLayer, Locks};
use tokio::time::{sleep, timeout};
use tower::{Layer, ServiceExt, service_fn};

use super::{is_free, one_by_one, request, text};

#[tokio::test]
async fn the_lock_is_held_until_the_body_ends() {
    let locks = Locks::in_memory();
    let service = LockLayer::mutex(&locks, "a").layer(service_fn(async |_: Request<()>| {
        let frames = ["a", "b"].map(|text| Ok::<_, Infallible>(Frame::data(Bytes::from(text))));
        Ok::<_, Infallible>(Response::new(one_by_one(frames)))
    }));
    let mut body = service.oneshot(request("/")).await.unwrap().into_body();
    for text in ["a", "b"] {
        assert!(!is_free(&locks, "a").await);
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), text);
    }
    assert!(!is_free(&locks, "a").await);
    assert!(body.frame().await.is_none());
    assert!(is_free(&locks, "a").await, "released at the end, not at the drop");
    drop(body);
}

#[tokio::test]
async fn a_body_that_is_dropped_midway_releases() {
    let locks = Locks::in_memory();
    let service = LockLayer::mutex(&locks, "a").layer(service_fn(async |_: Request<()>| {
        let frames = || Ok::<_, Infallible>(Frame::data(Bytes::from("a")));
        Ok::<_, Infallible>(Response::new(StreamBody::new(stream::repeat_with(frames))))
    }));
    let mut body = service.oneshot(request("/")).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    assert!(!is_free(&locks, "a").await);
    drop(body);
    assert!(is_free(&locks, "a").await);
}

#[tokio::test]
async fn a_body_that_fails_releases() {
    let locks = Locks::in_memory();
    let service = LockLayer::mutex(&locks, "a").layer(service_fn(async |_: Request<()>| {
        let frames = [Ok(Frame::data(Bytes::from("a"))), Err("broken")];
        Ok::<_, Infallible>(Response::new(one_by_one(frames)))
    }));
    let mut body = service.oneshot(request("/")).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    assert!(!is_free(&locks, "a").await);
    assert_eq!(body.frame().await.unwrap().unwrap_err(), "broken");
    assert!(is_free(&locks, "a").await);
}

#[tokio::test]
async fn an_answer_without_a_body_releases_at_once() {
    let locks = Locks::in_memory();
    let service = LockLayer::mutex(&locks, "a").layer(service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    }));
    let response = service.oneshot(request("/")).await.unwrap();
    assert!(is_free(&locks, "a").await, "a server does not poll the body of a 204");
    drop(response);
}

/// A report of another limit: the permit stayed taken while somebody kept the finished future.
#[tokio::test]
async fn a_finished_future_that_is_kept_holds_nothing() {
    let locks = Locks::in_memory();
    let service = LockLayer::mutex(&locks, "a").layer(service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(one_by_one([Ok::<_, Infallible>(Frame::data(
            Bytes::new(),
        ))])))
    }));
    let mut answering = Box::pin(service.oneshot(request("/")));
    let mut body = (&mut answering).await.unwrap().into_body();
    assert!(!is_free(&locks, "a").await);
    while body.frame().await.is_some() {}
    assert!(is_free(&locks, "a").await);
    drop(answering);
}

#[tokio::test]
async fn axum_drops_the_body_of_a_head_and_so_releases() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, "a");
    let app = Router::new().route("/", get(async || "a page").layer(layer));
    let head = Request::head("/").body(Body::empty()).unwrap();
    let response = app.oneshot(head).await.unwrap();
    assert_eq!(response.headers()["content-length"], "6", "the size hint came through");
    assert!(is_free(&locks, "a").await);
    drop(response);
}

#[tokio::test]
async fn an_error_of_the_inner_service_passes_and_releases() {
    let locks = Locks::in_memory();
    let service = LockLayer::mutex(&locks, "a")
        .layer(service_fn(async |_: Request<()>| Err::<Response<Empty<Bytes>>, _>("broken")));
    assert_eq!(service.oneshot(request("/")).await.unwrap_err(), "broken");
    assert!(is_free(&locks, "a").await);
}

#[tokio::test]
async fn a_panic_of_the_handler_releases() {
    let locks = Locks::in_memory();
    let service = LockLayer::mutex(&locks, "a").layer(service_fn(async |request: Request<()>| {
        assert_eq!(request.uri().path(), "/never", "the handler panics");
        Ok::<_, Infallible>(text("never"))
    }));
    let task = tokio::spawn(service.oneshot(request("/")));
    assert!(task.await.unwrap_err().is_panic());
    assert!(is_free(&locks, "a").await);
}

/// Checks in its drop that the lock is still held.
struct UnderTheLock(Locks);

impl Drop for UnderTheLock {
    fn drop(&mut self) {
        assert!(!is_free(&self.0, "a").now_or_never().unwrap());
    }
}

#[tokio::test]
async fn a_client_that_goes_away_releases_after_its_handler_has_stopped() {
    let locks = Locks::in_memory();
    let inside = locks.clone();
    let service = LockLayer::mutex(&locks, "a").layer(service_fn(move |_: Request<()>| {
        let until_dropped = UnderTheLock(inside.clone());
        async move {
            let _until_dropped = until_dropped;
            pending::<Result<Response<Empty<Bytes>>, Infallible>>().await
        }
    }));
    let gone = timeout(Duration::from_millis(20), service.oneshot(request("/")));
    assert!(gone.await.is_err());
    assert!(is_free(&locks, "a").await);
}

#[tokio::test]
async fn a_body_that_is_dropped_releases_after_it() {
    let locks = Locks::in_memory();
    let inside = locks.clone();
    let service = LockLayer::mutex(&locks, "a").layer(service_fn(move |_: Request<()>| {
        let until_dropped = UnderTheLock(inside.clone());
        let frames = stream::once(async move {
            let _until_dropped = until_dropped;
            pending::<Result<Frame<Bytes>, Infallible>>().await
        });
        ready(Ok::<_, Infallible>(Response::new(StreamBody::new(frames))))
    }));
    drop(service.oneshot(request("/")).await.unwrap());
    assert!(is_free(&locks, "a").await);
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_renewed_while_the_handler_runs() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, "a").ttl(Duration::from_secs(1));
    let service = layer.layer(service_fn(async |request: Request<()>| {
        let lease = request.extensions().get::<LeaseHandle>().unwrap().clone();
        sleep(Duration::from_secs(10)).await;
        assert!(lease.is_held());
        Ok::<_, Infallible>(text("done"))
    }));
    assert_eq!(service.oneshot(request("/")).await.unwrap().status(), StatusCode::OK);
}
