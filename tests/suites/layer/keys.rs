//! The key of a request.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::{Request, StatusCode};
use leasehold::layer::key_by;
use leasehold::{KeyTemplate, LeaseHandle, LockLayer, Locks};
use tower::{Layer, ServiceExt, service_fn};

use super::{counting, problem, request, text};

#[tokio::test]
async fn a_request_without_a_key_passes_without_a_lock() {
    let locks = Locks::in_memory();
    let by_path = key_by(|parts| {
        parts
            .uri
            .path()
            .strip_prefix("/locked/")
            .map(|name| KeyTemplate::new().part("name", name).finish())
    });
    let service =
        LockLayer::mutex(&locks, by_path).layer(service_fn(|request: Request<()>| async move {
            assert_eq!(
                request.uri().path().starts_with("/locked"),
                request.extensions().get::<LeaseHandle>().is_some(),
            );
            Ok::<_, Infallible>(text("done"))
        }));
    let _lease = locks.mutex("a").lock().await.unwrap();
    for (path, status) in
        [("/", StatusCode::OK), ("/locked/b", StatusCode::OK), ("/locked/a", StatusCode::CONFLICT)]
    {
        let response = service.clone().oneshot(request(path)).await.unwrap();
        assert_eq!(response.status(), status, "{path}");
    }
}

#[tokio::test]
async fn an_invalid_key_is_400_and_says_why() {
    let locks = Locks::in_memory();
    let calls = Arc::default();
    let answer = async |key: Result<Option<&'static str>, &'static str>| {
        let layer = LockLayer::mutex(&locks, key_by(move |_| key)).fail_open();
        let response = layer.layer(counting(&calls)).oneshot(request("/")).await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        problem(response).await["detail"].as_str().unwrap().to_owned()
    };
    assert!(answer(Err("the header x-tenant is missing")).await.contains("x-tenant is missing"));
    assert!(answer(Ok(Some(""))).await.contains("it is empty"));
    assert_eq!(calls.load(Ordering::SeqCst), 0, "not even fail-open runs it unlocked");
}

/// The template would be one lock for all orders.
#[test]
#[should_panic(expected = "write `path_key(\"order:{id}\")`")]
fn a_template_in_place_of_a_name_panics_at_start() {
    let _ = LockLayer::mutex(&Locks::in_memory(), "order:{id}");
}
