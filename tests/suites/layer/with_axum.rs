//! Keys from axum's routes, and the lease as an argument.

use axum::body::Body;
use axum::extract::{FromRequestParts, Path};
use axum::response::IntoResponse;
use axum::routing::put;
use axum::{Router, middleware};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use leasehold::{
    Fault, LeaseHandle, LeaseSetHandle, LockError, LockLayer, Locks, distributed_lock, path_key,
};
use tower::{Layer, ServiceExt};

use super::{is_free, problem};

fn put_request(path: &str) -> Request<Body> {
    Request::put(path).body(Body::empty()).unwrap()
}

async fn status(app: &Router, path: &str) -> StatusCode {
    app.clone().oneshot(put_request(path)).await.unwrap().status()
}

async fn refusal(app: &Router, path: &str) -> String {
    let response = app.clone().oneshot(put_request(path)).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{path}");
    problem(response).await["detail"].as_str().unwrap().to_owned()
}

/// The mistake is the server's, and its words are in the log.
async fn is_misconfigured(app: &Router, path: &str) {
    let response = app.clone().oneshot(put_request(path)).await.unwrap();
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR, "{path}");
    let problem = problem(response).await;
    assert!(problem["type"].as_str().unwrap().ends_with("=misconfigured"), "{path}: {problem}");
    assert!(!problem["detail"].as_str().unwrap().contains("id"), "{path}: {problem}");
}

fn orders(locks: &Locks) -> Router {
    let layer = LockLayer::mutex(locks, path_key("order:{id}"));
    Router::new().route("/orders/{id}", put(async || "changed").route_layer(layer))
}

#[tokio::test]
async fn the_paths_parameters_make_the_key() {
    let locks = Locks::in_memory();
    let app = orders(&locks);
    let _lease = locks.mutex("order:42").lock().await.unwrap();
    assert_eq!(status(&app, "/orders/42").await, StatusCode::CONFLICT);
    assert_eq!(status(&app, "/orders/%34%32").await, StatusCode::CONFLICT, "the same, encoded");
    assert_eq!(status(&app, "/orders/43").await, StatusCode::OK);
}

#[tokio::test]
async fn a_value_cannot_name_another_lock() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, path_key("{a}:{b}"));
    let app = Router::new().route(
        "/{a}/{b}",
        put(async |lease: LeaseHandle| lease.key().name().to_owned()).layer(layer),
    );
    let mut keys = Vec::new();
    for path in
        ["/x:y/z", "/x/y:z", "/x%3Ay/z", "/x%2Fy/z", "/x%252Fy/z", "/x%7By%7D/z", "/x%20y/z"]
    {
        let response = app.clone().oneshot(put_request(path)).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let key = response.into_body().collect().await.unwrap().to_bytes();
        keys.push(String::from_utf8(key.into()).unwrap());
    }
    assert_eq!(
        keys,
        ["x%3Ay:z", "x:y%3Az", "x%3Ay:z", "x%2Fy:z", "x%252Fy:z", "x%7By%7D:z", "x%20y:z"],
    );
}

#[tokio::test]
async fn a_slash_in_a_value_is_escaped() {
    let locks = Locks::in_memory();
    let app = orders(&locks);
    let _lease = locks.mutex("order:a%2Fb").lock().await.unwrap();
    assert_eq!(status(&app, "/orders/a%2Fb").await, StatusCode::CONFLICT);
    assert_eq!(status(&app, "/orders/a").await, StatusCode::OK);
    assert_eq!(status(&app, "/orders/a%252Fb").await, StatusCode::OK);
    assert_eq!(status(&app, "/orders/a/b").await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_parameter_that_the_route_does_not_have_is_500() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, path_key("order:{id}"));
    let handler = || put(async || "never");
    let app = Router::new()
        .route("/none", handler())
        .route("/{order_id}/other", handler())
        .route("/{id}/twice/{id}", handler())
        .route_layer(layer.clone());
    for path in ["/none", "/1/other", "/1/twice/2"] {
        is_misconfigured(&app, path).await;
    }
    assert_eq!(status(&app, "/nowhere/at/all/1").await, StatusCode::NOT_FOUND);

    let around = layer.layer(orders(&locks));
    let response = around.oneshot(put_request("/orders/1")).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let problem = problem(response).await;
    assert!(problem["detail"].as_str().unwrap().contains("not on a route"));
}

#[tokio::test]
async fn a_value_that_makes_no_key_is_400() {
    let app = orders(&Locks::in_memory());
    assert!(refusal(&app, "/orders/%ff").await.contains("UTF-8"));
    assert!(refusal(&app, &format!("/orders/{}", "x".repeat(600))).await.contains("512"));
    assert_eq!(status(&app, "/orders/%00").await, StatusCode::OK, "it is escaped");
}

#[tokio::test]
async fn nested_routes_share_their_parameters() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, path_key("{tenant}:{path}"));
    let inner = Router::new().route("/files/{*path}", put(async || "put").layer(layer));
    let app = Router::new().nest("/tenants/{tenant}", inner);
    let _lease = locks.mutex("t:a%2Fb").lock().await.unwrap();
    assert_eq!(status(&app, "/tenants/t/files/a/b").await, StatusCode::CONFLICT);
    assert_eq!(status(&app, "/tenants/u/files/a/b").await, StatusCode::OK);
}

#[tokio::test]
async fn route_layer_ignores_requests_without_a_route() {
    let locks = Locks::in_memory();
    let _lease = locks.mutex("order:1").lock().await.unwrap();
    let get = Request::get("/orders/1").body(Body::empty()).unwrap();
    let response = orders(&locks).oneshot(get).await.unwrap();
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);

    // axum puts a router's layers around the answer 405 as well.
    let layer = LockLayer::mutex(&locks, path_key("order:{id}"));
    let app = Router::new().route("/orders/{id}", put(async || "changed")).route_layer(layer);
    let get = Request::get("/orders/1").body(Body::empty()).unwrap();
    let response = app.oneshot(get).await.unwrap();
    assert_eq!(response.status(), StatusCode::CONFLICT);
}

#[tokio::test]
async fn the_handler_finds_its_lease() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, path_key("order:{id}"));
    let handler = async |Path(id): Path<String>, lease: LeaseHandle| {
        assert!(lease.is_held());
        assert!(lease.fence().is_ok());
        assert_eq!(lease.key().name(), format!("order:{id}"));
    };
    let app = Router::new()
        .route("/orders/{id}", put(handler).layer(layer))
        .route("/free/{id}", put(handler))
        .route("/maybe", put(async |lease: Option<LeaseHandle>| assert!(lease.is_none())));
    assert_eq!(status(&app, "/orders/1").await, StatusCode::OK);
    assert_eq!(status(&app, "/maybe").await, StatusCode::OK);

    is_misconfigured(&app, "/free/1").await;
    let missing =
        LeaseSetHandle::from_request_parts(&mut Request::new(()).into_parts().0, &()).await;
    assert!(missing.unwrap_err().to_string().contains("no `LockLayer::all`"));
}

#[tokio::test]
async fn several_layers_hold_several_locks() {
    let locks = Locks::in_memory();
    let inside = locks.clone();
    let handler = async move |lease: LeaseHandle| {
        assert!(!is_free(&inside, "inner").await && !is_free(&inside, "outer").await);
        assert_eq!(lease.key().name(), "inner");
    };
    let app = Router::new()
        .route("/", put(handler))
        .layer(LockLayer::mutex(&locks, "inner"))
        .layer(LockLayer::mutex(&locks, "outer"))
        .layer(middleware::map_response(async |response: axum::response::Response| response));
    assert_eq!(status(&app, "/").await, StatusCode::OK);
    assert!(is_free(&locks, "inner").await && is_free(&locks, "outer").await);
}

#[distributed_lock(key = "order:{id}", wait = "10ms")]
async fn change(Path(id): Path<u64>) -> Result<&'static str, LockError> {
    Ok("changed")
}

/// A handler that acquires its lock itself answers as the layer does.
#[tokio::test]
async fn a_lock_error_of_a_handler_is_a_response() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let app = Router::new().route("/orders/{id}", put(change));
    let ask = async |path| locks.scope(app.clone().oneshot(put_request(path))).await.unwrap();

    assert_eq!(ask("/orders/7").await.status(), StatusCode::OK);
    let lease = locks.mutex("order:7").lock().await.unwrap();
    assert_eq!(ask("/orders/007").await.status(), StatusCode::CONFLICT, "it is the same order");
    let held = ask("/orders/7").await;
    assert_eq!(
        (held.status(), &held.headers()["retry-after"]),
        (StatusCode::CONFLICT, &"1".parse().unwrap())
    );
    let told = problem(held).await;
    assert_eq!(told["title"], "Lock held by another request");
    assert!(!told.to_string().contains("order:7"), "{told}");
    lease.release().await.unwrap();

    faults.always(Fault::LoseCommand);
    let failed = ask("/orders/7").await;
    assert_eq!(failed.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(problem(failed).await["title"], "Lock store not available");
    faults.heal();

    let lost = lost(&locks).await.into_response();
    assert_eq!(lost.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(!lost.headers().contains_key("retry-after"), "part of the work may be done");
}

async fn lost(locks: &Locks) -> LockError {
    let lease = locks.mutex("a").lock().await.unwrap();
    let _ = locks.force_release("a").await.unwrap();
    lease.release().await.unwrap_err()
}
