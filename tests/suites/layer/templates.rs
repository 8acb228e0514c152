//! Keys from a template over the values of a request.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::routing::put;
use axum::{Extension, Router};
use http::{HeaderValue, Request, StatusCode};
use leasehold::layer::{TemplateKey, template_key};
use leasehold::{KeyPart, LeaseHandle, LockLayer, Locks};
use tokio::net::TcpListener;
use tower::{Layer, ServiceExt, service_fn};

use super::{counting, problem, request};

/// The name of the lock that a request takes, or the detail of its refusal.
async fn name_of(key: &TemplateKey, request: Request<()>) -> Result<String, String> {
    let layer = LockLayer::mutex(&Locks::in_memory(), key.clone()).fail_open();
    let service = layer.layer(service_fn(async |request: Request<()>| {
        let lease = request.extensions().get::<LeaseHandle>().expect("no request passes unlocked");
        Ok::<_, Infallible>(http::Response::new(lease.key().name().to_owned()))
    }));
    let response = service.oneshot(request).await.unwrap();
    match response.status() {
        StatusCode::OK => {
            let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap();
            Ok(String::from_utf8(body.to_bytes().into()).unwrap())
        }
        StatusCode::BAD_REQUEST => {
            Err(problem(response).await["detail"].as_str().unwrap().to_owned())
        }
        status => panic!("{status}"),
    }
}

fn with_header(value: &[u8]) -> Request<()> {
    let value = HeaderValue::from_bytes(value).unwrap();
    Request::get("/?page=7").header("x-tenant", value).body(()).unwrap()
}

#[tokio::test]
async fn values_from_everywhere_make_one_key() {
    #[derive(Clone, KeyPart)]
    struct UserId(u64);

    let locks = Locks::in_memory();
    let template = "a:{header:X-Tenant}:{query:page}:{path:id}:{peer}:{extension:user}";
    let key = template_key(template).extension::<UserId>("user");
    let layer = LockLayer::mutex(&locks, key);
    let handler = put(async |lease: LeaseHandle| lease.key().name().to_owned());
    let app = Router::new()
        .route("/orders/{id}", handler.route_layer(layer))
        .layer(Extension(UserId(42)))
        .layer(Extension("192.0.2.1".parse::<IpAddr>().unwrap()));
    let request = Request::put("/orders/9?page=7").header("x-tenant", "acme").body(Body::empty());
    let response = app.oneshot(request.unwrap()).await.unwrap();
    let name = axum::body::to_bytes(response.into_body(), 100).await.unwrap();
    assert_eq!(name, "a:acme:7:9:192.0.2.1:42");
}

#[tokio::test]
async fn different_values_never_make_one_key() {
    let key = template_key("{header:x-tenant}:{query:page}");
    let mut names = Vec::new();
    for (tenant, query) in
        [("a:b", "c"), ("a", "b:c"), ("a%3Ab", "c"), ("a%253Ab", "c"), ("a", "b%3Ac+")]
    {
        let request = Request::get(format!("/?page={query}")).header("x-tenant", tenant);
        names.push(name_of(&key, request.body(()).unwrap()).await.unwrap());
    }
    let expected = ["a%3Ab:c", "a:b%3Ac", "a%253Ab:c", "a%25253Ab:c", "a:b%3Ac%20"];
    assert_eq!(names, expected);
}

/// A request whose value can't be used must not run beside the holder of any lock.
#[tokio::test]
async fn a_value_that_cannot_be_used_is_400_and_never_let_through() {
    let key = template_key("{header:x-tenant}:{query:page}");
    for (value, why) in [
        ("ké".as_bytes(), "the header x-tenant is not ASCII"),
        (b"\xff", "the header x-tenant is not ASCII"),
        (b"", "`{header:x-tenant}` is empty"),
        (&[b'x'; 600], "the limit is 512"),
    ] {
        let refusal = name_of(&key, with_header(value)).await.unwrap_err();
        assert!(refusal.contains(why), "{value:?}: {refusal}");
    }
    let mut twice = with_header(b"a");
    twice.headers_mut().append("x-tenant", HeaderValue::from_static("a"));
    assert!(name_of(&key, twice).await.unwrap_err().contains("x-tenant is there more than once"));
    let without = name_of(&key, request("/?page=7")).await.unwrap_err();
    assert!(without.contains("the header x-tenant is missing"), "{without}");

    for (uri, why) in [
        ("/", "the query parameter `page` is missing"),
        ("/?page=", "`{query:page}` is empty"),
        ("/?page=%ff", "the query parameter `page` is not UTF-8"),
        ("/?page=1&page=1", "the query parameter `page` is there more than once"),
    ] {
        let request = Request::get(uri).header("x-tenant", "a").body(()).unwrap();
        let refusal = name_of(&key, request).await.unwrap_err();
        assert!(refusal.contains(why), "{uri}: {refusal}");
    }
}

#[tokio::test]
async fn a_missing_layer_is_no_mistake_of_the_client_and_calls_nothing() {
    let locks = Locks::in_memory();
    let misconfigured = (StatusCode::INTERNAL_SERVER_ERROR, "is misconfigured");
    for (key, (status, why)) in [
        (template_key("{peer}"), misconfigured),
        // A wrong path, under a layer around the router, is the client's.
        (template_key("{path:id}"), (StatusCode::BAD_REQUEST, "not on a route")),
        (template_key("{extension:user}").extension::<String>("user"), misconfigured),
    ] {
        let calls = Arc::default();
        let layer = LockLayer::semaphore(&locks, key, 4).fail_open();
        let response = layer.layer(counting(&calls)).oneshot(request("/")).await.unwrap();
        assert_eq!(response.status(), status);
        let problem = problem(response).await;
        assert!(problem["detail"].as_str().unwrap().contains(why), "{problem}");
        assert_eq!(calls.load(Ordering::SeqCst), 0);
    }
}

/// The peers are real: two addresses of this machine.
#[tokio::test]
async fn each_peer_has_a_lock_of_its_own_whatever_its_port() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, template_key("peer:{peer}"));
    let handler = put(async |lease: LeaseHandle| lease.key().name().to_owned());
    let app = Router::new().route("/", handler.route_layer(layer));
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    let server = tokio::spawn(async move { axum::serve(listener, app).await });

    let _held = locks.mutex("peer:127.0.0.1").lock().await.unwrap();
    for (peer, status) in [("127.0.0.1", 409), ("127.0.0.2", 200), ("127.0.0.1", 409)] {
        let peer: IpAddr = peer.parse().unwrap();
        let client = reqwest::Client::builder().local_address(peer).build().unwrap();
        let response = client.put(format!("http://127.0.0.1:{port}/")).send().await.unwrap();
        assert_eq!(response.status(), status, "{peer}");
    }
    server.abort();
}

#[test]
#[should_panic(expected = r#"write `template_key("{header:x-tenant}:{path:id}")`"#)]
fn a_template_in_place_of_a_name_panics_at_start() {
    let _ = LockLayer::mutex(&Locks::in_memory(), "{header:x-tenant}:{path:id}");
}

#[test]
#[should_panic(expected = r#"add `.extension::<Type>("user")`"#)]
fn an_extension_without_a_type_panics_at_start() {
    let _ = LockLayer::mutex(&Locks::in_memory(), template_key("{extension:user}"));
}
