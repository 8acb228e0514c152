//! The layer makes the inner service ready before it calls it, and gives back what the service
//! reserved.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use http::{Request, Response, StatusCode};
use leasehold::layer::key_by;
use leasehold::{LockLayer, Locks};
use tower::{Layer, Service, ServiceExt};

use super::{Later, request, text};

/// A service that reserves a permit when it is made ready, as a concurrency limit does. Its clones
/// do not have the permit.
#[derive(Default)]
struct Limited {
    places: Arc<()>,
    place: Option<Weak<()>>,
}

impl Clone for Limited {
    fn clone(&self) -> Self {
        Self { places: self.places.clone(), place: None }
    }
}

impl Service<Request<()>> for Limited {
    type Response = Response<Later>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.place.get_or_insert_with(|| Arc::downgrade(&self.places));
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        self.place.take().expect("it is called after it was made ready");
        ready(Ok(text("done")))
    }
}

#[tokio::test]
async fn the_service_that_was_made_ready_is_the_one_that_is_called() {
    let locks = Locks::in_memory();
    let mut service = LockLayer::mutex(&locks, "a").layer(Limited::default());
    for _ in 0..2 {
        let response = service.ready().await.unwrap().call(request("/")).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn a_refused_request_gives_its_permit_back() {
    let locks = Locks::in_memory();
    let _lease = locks.mutex("/held").lock().await.unwrap();
    let key = key_by(|parts| Some(parts.uri.path().replace("/none", "")));
    let inner = Limited::default();
    let places = inner.places.clone();
    let mut service = LockLayer::mutex(&locks, key).layer(inner);
    for (path, status) in [("/held", StatusCode::CONFLICT), ("/none", StatusCode::BAD_REQUEST)] {
        let ready = service.ready().await.unwrap();
        assert_eq!(Arc::weak_count(&places), 1);
        assert_eq!(ready.call(request(path)).await.unwrap().status(), status);
        assert_eq!(Arc::weak_count(&places), 0, "{path}");
    }
}
