//! The current lease of a request's work.

use std::convert::Infallible;
use std::task::Poll;

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use leasehold::layer::key_by;
use leasehold::{LeaseHandle, LockLayer, Locks};
use tower::{Layer, ServiceExt, service_fn};

use super::{request, text};

/// The name of the current lock.
fn current() -> Option<String> {
    LeaseHandle::current().map(|lease| lease.key().name().to_owned())
}

const A: Option<&str> = Some("a");

#[tokio::test]
async fn the_lock_is_current_in_the_call_its_future_and_the_body() {
    let locks = Locks::in_memory();
    let service = LockLayer::mutex(&locks, "a").layer(service_fn(|request: Request<()>| {
        assert_eq!(current().as_deref(), A, "in the call");
        async move {
            for _ in 0..3 {
                assert_eq!(current().as_deref(), A, "at each poll");
                tokio::task::yield_now().await;
            }
            let given = request.extensions().get::<LeaseHandle>().unwrap().fence().unwrap();
            assert_eq!(LeaseHandle::current().unwrap().fence().unwrap(), given);
            let mut frames = 0;
            let frames = stream::poll_fn(move |_| {
                assert_eq!(current().as_deref(), A, "at each frame");
                frames += 1;
                let frame = || Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"a")));
                Poll::Ready((frames < 3).then(frame))
            });
            Ok::<_, Infallible>(Response::new(StreamBody::new(frames)))
        }
    }));
    let response = service.oneshot(request("/")).await.unwrap();
    assert_eq!(current(), None, "not around the response");
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        frame.unwrap();
        assert_eq!(current(), None, "nor between its frames");
    }
}

#[tokio::test]
async fn the_innermost_lock_is_current_and_then_the_outer_again() {
    let locks = Locks::in_memory();
    let handler = service_fn(async |_: Request<()>| {
        assert_eq!(current().as_deref(), Some("inner"));
        Ok::<_, Infallible>(text("done"))
    });
    let inner = LockLayer::mutex(&locks, "inner").layer(handler);
    let between = service_fn(move |request: Request<()>| {
        let inner = inner.clone();
        async move {
            assert_eq!(current().as_deref(), Some("outer"));
            let response = inner.oneshot(request).await;
            assert_eq!(current().as_deref(), Some("outer"));
            response
        }
    });
    let outer = LockLayer::mutex(&locks, "outer").layer(between);
    assert_eq!(outer.oneshot(request("/")).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn a_request_without_a_lock_has_none() {
    let layer = LockLayer::mutex(&Locks::in_memory(), key_by(|_| None::<String>));
    let service = layer.layer(service_fn(async |_: Request<()>| {
        assert_eq!(current(), None);
        Ok::<_, Infallible>(text("done"))
    }));
    assert_eq!(service.oneshot(request("/")).await.unwrap().status(), StatusCode::OK);
}

/// The work of another task is not the request's.
#[tokio::test]
async fn a_spawned_task_has_the_lock_only_in_a_scope() {
    let locks = Locks::in_memory();
    let service = LockLayer::mutex(&locks, "a").layer(service_fn(async |_: Request<()>| {
        let lease = LeaseHandle::current().unwrap();
        assert_eq!(tokio::spawn(async { current() }).await.unwrap(), None);
        let scoped = tokio::spawn(lease.scope(async { current() })).await.unwrap();
        assert_eq!(scoped.as_deref(), A);
        Ok::<_, Infallible>(text("done"))
    }));
    assert_eq!(service.oneshot(request("/")).await.unwrap().status(), StatusCode::OK);
}
