//! Requests that read together, or one that writes.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{Method, Request, Response, StatusCode};
use leasehold::layer::{LeaseBody, RequestKey};
use leasehold::{LeaseHandle, LockLayer, Locks, path_key};
use tokio::time::{Instant, advance, sleep};
use tower::{Layer, ServiceExt, service_fn};

use super::{Later, counting, problem, retry_after, text};

fn request<B: Default>(method: &str, path: &str) -> Request<B> {
    Request::builder().method(method).uri(path).body(B::default()).unwrap()
}

/// Sends a request to a service that says "done", through the layer.
async fn ask(layer: &LockLayer<impl RequestKey>, method: &str) -> Response<LeaseBody<Later>> {
    layer.layer(counting(&Arc::default())).oneshot(request(method, "/")).await.unwrap()
}

const READ: [&str; 4] = ["GET", "HEAD", "OPTIONS", "TRACE"];
const WRITE: [&str; 7] = ["POST", "PUT", "PATCH", "DELETE", "CONNECT", "PURGE", "get"];

#[tokio::test]
async fn safe_methods_read_and_all_others_write() {
    let locks = Locks::in_memory();
    let layer = LockLayer::rw_lock(&locks, "a");
    for method in READ.into_iter().filter(|method| *method != "HEAD") {
        let reader = ask(&layer, method).await;
        assert_eq!(reader.status(), StatusCode::OK, "{method}");
        assert!(locks.rw_lock("a").try_read().await.is_ok(), "{method} reads");
        assert!(locks.rw_lock("a").try_write().await.is_err(), "{method} reads");
        for other in READ {
            assert_eq!(
                ask(&layer, other).await.status(),
                StatusCode::OK,
                "{other} beside {method}"
            );
        }
        assert_eq!(ask(&layer, "CONNECT").await.status(), StatusCode::CONFLICT, "beside {method}");
        assert_eq!(ask(&layer, "PUT").await.status(), StatusCode::CONFLICT, "beside {method}");
    }
    // No body is sent for a HEAD or a CONNECT.
    for method in WRITE.into_iter().filter(|method| *method != "CONNECT") {
        let writer = ask(&layer, method).await;
        assert_eq!(writer.status(), StatusCode::OK, "{method}");
        assert!(locks.rw_lock("a").try_read().await.is_err(), "{method} writes");
        for other in READ.iter().chain(&WRITE) {
            let response = ask(&layer, other).await;
            assert_eq!(response.status(), StatusCode::CONFLICT, "{other} beside {method}");
        }
    }
    assert!(locks.rw_lock("a").try_write().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_like_that_of_a_mutex() {
    let locks = Locks::in_memory();
    let layer = LockLayer::rw_lock(&locks, "a").ttl(Duration::from_secs(20));
    let calls = Arc::default();
    let service = layer.layer(counting(&calls));
    let first = service.clone().oneshot(request("GET", "/")).await.unwrap();
    advance(Duration::from_millis(2500)).await;

    let response = service.clone().oneshot(request("POST", "/")).await.unwrap();
    assert_eq!((response.status(), retry_after(&response)), (StatusCode::CONFLICT, 1));
    let problem = problem(response).await;
    assert!(problem["detail"].as_str().unwrap().contains("Another request holds the lock"));
    assert_eq!(calls.load(Ordering::SeqCst), 1, "a refused request is not handled");

    drop(first);
    let writer = service.clone().oneshot(request("POST", "/")).await.unwrap();
    assert_eq!(writer.status(), StatusCode::OK);
    let response = service.oneshot(request("GET", "/")).await.unwrap();
    assert_eq!((response.status(), retry_after(&response)), (StatusCode::CONFLICT, 1));
}

#[tokio::test]
async fn another_kind_of_lock_under_the_name_is_500() {
    let locks = Locks::in_memory();
    let _lease = locks.mutex("a").lock().await.unwrap();
    for method in ["GET", "PUT"] {
        let response = ask(&LockLayer::rw_lock(&locks, "a"), method).await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_are_let_in_in_order_readers_together() {
    let locks = Locks::in_memory();
    let layer = LockLayer::rw_lock(&locks, "a").wait(Duration::from_secs(10));
    let service = layer.layer(service_fn(async |request: Request<()>| {
        let lease = request.extensions().get::<LeaseHandle>().unwrap();
        assert_eq!(lease.fence().is_ok(), *request.method() == Method::PUT, "a writer's token");
        sleep(Duration::from_secs(1)).await;
        Ok::<_, Infallible>(text("done"))
    }));
    let begun = Instant::now();
    let send = async |method: &str| {
        let response = service.clone().oneshot(request(method, "/")).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        begun.elapsed().as_secs()
    };
    let took = tokio::join!(send("GET"), send("GET"), send("PUT"), send("GET"), send("GET"));
    assert_eq!(took, (1, 1, 2, 3, 3));
}

#[tokio::test]
async fn an_axum_route_has_a_lock_for_each_value() {
    let locks = Locks::in_memory();
    let layer = LockLayer::rw_lock(&locks, path_key("page:{id}"));
    let handler = get(async || "a page").put(async |lease: LeaseHandle| {
        assert!(lease.fence().is_ok());
    });
    let app = Router::new().route("/pages/{id}", handler.route_layer(layer));
    let status = async |method, path| {
        app.clone().oneshot(request::<Body>(method, path)).await.unwrap().status()
    };
    let reader = locks.rw_lock("page:1").read().await.unwrap();
    assert_eq!(status("GET", "/pages/1").await, StatusCode::OK);
    assert_eq!(status("HEAD", "/pages/1").await, StatusCode::OK);
    assert_eq!(status("PUT", "/pages/1").await, StatusCode::CONFLICT);
    assert_eq!(status("PUT", "/pages/2").await, StatusCode::OK);
    assert_eq!(status("DELETE", "/pages/1").await, StatusCode::METHOD_NOT_ALLOWED);
    reader.release().await.unwrap();
    assert_eq!(status("PUT", "/pages/1").await, StatusCode::OK);
}
