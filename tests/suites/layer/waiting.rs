//! Requests that wait for their lock.

use std::convert::Infallible;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use leasehold::{LockLayer, Locks};
use tokio::time::{sleep, timeout};
use tower::{Layer, Service, ServiceExt};

use super::{ask, is_free, request, retry_after, text};

#[tokio::test(start_paused = true)]
async fn requests_queue_if_they_are_told_to() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, "a").wait(Duration::from_secs(5));
    let lease = locks.mutex("a").lock().await.unwrap();
    let release = async {
        sleep(Duration::from_secs(2)).await;
        lease.release().await.unwrap();
    };
    let (response, ()) = tokio::join!(ask(&layer, "/"), release);
    assert_eq!(response.status(), StatusCode::OK);

    // That response holds the lock now.
    let late = ask(&layer, "/").await;
    assert_eq!(late.status(), StatusCode::CONFLICT);
    assert_eq!(retry_after(&late), 1, "who waited in vain knows nothing better");
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_the_queue() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, "a").wait(Duration::from_secs(5));
    let lease = locks.mutex("a").lock().await.unwrap();
    let gone = timeout(Duration::from_millis(20), ask(&layer, "/")).await;
    assert!(gone.is_err());
    lease.release().await.unwrap();
    assert!(is_free(&locks, "a").await);
}

/// A service whose clones are not ready, as those of a concurrency limit.
struct Once {
    is_ready: bool,
}

impl Clone for Once {
    fn clone(&self) -> Self {
        Self { is_ready: false }
    }
}

impl Service<Request<()>> for Once {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(self.is_ready, "called without being made ready");
        self.is_ready = false;
        std::future::ready(Ok(text("done")))
    }
}

#[tokio::test]
async fn the_service_that_was_made_ready_is_the_one_that_is_called() {
    let locks = Locks::in_memory();
    let mut service = LockLayer::mutex(&locks, "a").layer(Once { is_ready: false });
    for _ in 0..2 {
        let response = service.ready().await.unwrap().call(request("/")).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
    }
}
