//! The layer around a real gRPC server: refusals are statuses, which a real client reads.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::BodyExt;
use leasehold::layer::{RequestKey, template_key};
use leasehold::{Fault, Lease, LockLayer, Locks, Rate};
use tokio::net::TcpListener;
use tonic::service::Routes;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::server::health_reporter;
use tower::layer::layer_fn;
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};

use super::{counting, is_free, problem};

/// Serves gRPC's health service under the layer, and connects a client to it. A handler that is
/// `stuck` never answers.
async fn serve<K>(layer: LockLayer<K>, stuck: bool) -> HealthClient<Channel>
where
    K: RequestKey + Send + Sync + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_, health) = health_reporter();
    let maybe_stuck = layer_fn(move |routes: Routes| {
        service_fn(move |call: Request<tonic::body::Body>| {
            let routes = routes.clone();
            async move {
                if stuck {
                    pending::<()>().await;
                }
                routes.oneshot(call).await
            }
        })
    });
    let layers = ServiceBuilder::new().layer(layer).layer(maybe_stuck).into_inner();
    let server = Server::builder().layer(layers).add_service(health);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    let server = Endpoint::from_shared(format!("http://{address}")).unwrap();
    HealthClient::new(server.connect().await.unwrap())
}

/// A call for the whole server, which is healthy.
fn check() -> tonic::Request<HealthCheckRequest> {
    tonic::Request::new(HealthCheckRequest { service: String::new() })
}

async fn refusal<K>(layer: LockLayer<K>) -> Status
where
    K: RequestKey + Send + Sync + 'static,
{
    serve(layer, false).await.check(check()).await.unwrap_err()
}

/// When the client may try again, in milliseconds. A negative number means not at all.
fn pushback(status: &Status) -> &str {
    status.metadata().get("grpc-retry-pushback-ms").unwrap().to_str().unwrap()
}

async fn until_free(locks: &Locks, key: &str) -> Lease {
    locks.mutex(key).wait(Duration::from_secs(20)).lock().await.expect("it is freed")
}

#[tokio::test]
async fn a_call_holds_its_lock_and_keeps_its_trailers() {
    let locks = Locks::in_memory();
    let mut client = serve(LockLayer::mutex(&locks, "a"), false).await;
    for _ in 0..3 {
        // The status of a call that went well is in the trailers.
        client.check(check()).await.unwrap();
    }
    drop(until_free(&locks, "a").await);

    let events = client.watch(check()).await.unwrap();
    assert!(!is_free(&locks, "a").await, "a stream holds its lock");
    assert_eq!(client.check(check()).await.unwrap_err().code(), Code::Aborted);
    drop(events);
    drop(until_free(&locks, "a").await);
}

#[tokio::test]
async fn refusals_are_statuses() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let held = locks.mutex("a").lock().await.unwrap();
    let status = refusal(LockLayer::mutex(&locks, "a")).await;
    assert_eq!(status.code(), Code::Aborted);
    assert_eq!(status.message(), "Another request holds the lock that this one needs.");
    assert_eq!(pushback(&status), "1000");

    let full = locks.semaphore("b", 1).acquire().await.unwrap();
    let status = refusal(LockLayer::semaphore(&locks, "b", 1)).await;
    assert_eq!((status.code(), pushback(&status)), (Code::ResourceExhausted, "1000"));

    let status = refusal(LockLayer::mutex(&locks, template_key("{header:x-tenant}"))).await;
    assert_eq!((status.code(), pushback(&status)), (Code::InvalidArgument, "-1"));
    assert!(status.message().contains("the header x-tenant is missing"), "{status}");

    let status = refusal(LockLayer::semaphore(&locks, "a", 1)).await;
    assert_eq!((status.code(), pushback(&status)), (Code::Internal, "-1"));

    faults.always(Fault::Unreachable);
    let status = refusal(LockLayer::mutex(&locks, "c")).await;
    assert_eq!((status.code(), pushback(&status)), (Code::Unavailable, "1000"));
    faults.heal();
    drop((held, full));
}

/// A client may send a call again by itself if it is told `UNAVAILABLE`. Part of this one is done.
#[tokio::test]
async fn a_lost_lock_is_not_a_status_that_is_tried_again() {
    let locks = Locks::in_memory();
    let mut client = serve(LockLayer::mutex(&locks, "a"), true).await;
    let call = tokio::spawn(async move { client.check(check()).await });
    while locks.inspect("a").await.unwrap().holders.is_empty() {
        tokio::task::yield_now().await;
    }
    let _ = locks.force_release("a").await.unwrap();
    let status = call.await.unwrap().unwrap_err();
    assert_eq!((status.code(), pushback(&status)), (Code::Unknown, "-1"));
    assert!(status.message().contains("lost while the request ran"), "{status}");
}

/// The template's values are there for gRPC, too: metadata are headers.
#[tokio::test]
async fn metadata_make_a_key() {
    let locks = Locks::in_memory();
    let key = template_key("call:{header:x-tenant}");
    let mut client = serve(LockLayer::mutex(&locks, key), false).await;
    let _held = locks.mutex("call:acme").lock().await.unwrap();
    for (tenant, code) in [("acme", Code::Aborted), ("other", Code::Ok)] {
        let mut request = check();
        request.metadata_mut().insert("x-tenant", tenant.parse().unwrap());
        let code_of = client.check(request).await.map_or_else(|status| status.code(), |_| Code::Ok);
        assert_eq!(code_of, code, "{tenant}");
    }
}

#[tokio::test]
async fn a_refusal_by_a_rate_has_its_fields() {
    let layer = LockLayer::rate(&Locks::in_memory(), "calls", Rate::per_minute(1));
    let mut client = serve(layer, false).await;
    client.check(check()).await.unwrap();
    let refused = client.check(check()).await.unwrap_err();
    let field = refused.metadata().get("ratelimit").unwrap().to_str().unwrap();
    assert!(field.contains(";r=0;"), "{field}");
}

/// Other requests on the same layer get the statuses of HTTP, and `on_refused` answers them alone.
#[tokio::test]
async fn only_calls_of_grpc_get_its_statuses() {
    let locks = Locks::in_memory();
    let _held = locks.mutex("a").lock().await.unwrap();
    let layer = LockLayer::mutex(&locks, "a");
    let of_type = |text: &str| Request::post("/").header("content-type", text).body(()).unwrap();
    for content_type in ["application/json", "application/grpc-web+proto"] {
        let service = layer.layer(counting(&Arc::default()));
        let response = service.oneshot(of_type(content_type)).await.unwrap();
        assert_eq!(response.status(), StatusCode::CONFLICT, "{content_type}");
        problem(response).await;
    }
    let layer = layer.on_refused(async |refusal, _| {
        let mut response = refusal.to_response();
        *response.status_mut() = StatusCode::LOCKED;
        response
    });
    for (content_type, status) in
        [("application/grpc+proto", StatusCode::OK), ("text/plain", StatusCode::LOCKED)]
    {
        let service = layer.layer(counting(&Arc::default()));
        let response = service.oneshot(of_type(content_type)).await.unwrap();
        assert_eq!(response.status(), status, "{content_type}");
        if status == StatusCode::OK {
            assert_eq!(response.headers()["grpc-status"], "10");
            assert_eq!(response.headers()["content-type"], "application/grpc");
            assert!(response.into_body().collect().await.unwrap().to_bytes().is_empty());
        }
    }
}
