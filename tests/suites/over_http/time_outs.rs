//! A client whose request took too long, and that has read its whole answer, is not refused because of
//! that request, at whichever server.

use std::future::pending;
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use leasehold::{LockLayer, Locks};
use leasehold_tests::server::Server;
use redis_server_wrapper::{Delay, Direction, FaultProxy};
use tokio::net::TcpListener;

const TIMEOUT: Duration = Duration::from_millis(20);

/// An app of its own with this lock, which is a round trip of so much away from Redis.
async fn serve(url: &str) -> String {
    let locks = Locks::connect(url).await.unwrap();
    let lock = LockLayer::mutex(&locks, "a").timeout(TIMEOUT);
    let app = Router::new()
        .route("/stuck", post(async || pending::<&str>().await))
        .route("/ok", post(async || "ok"))
        .layer(lock);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_request_finds_the_lock_free() {
    let redis = Server::start();
    let proxy = FaultProxy::spawn(("127.0.0.1", redis.port())).await.unwrap();
    proxy.set_delay(Direction::ClientToUpstream, Delay::Fixed(Duration::from_millis(5)));
    let far = serve(&format!("redis://{}/", proxy.addr())).await;
    let near = serve(&redis.url()).await;
    let client = reqwest::Client::new();
    let ask = async |address: &str, path: &str| {
        let answer = client.post(format!("{address}/{path}")).send().await.unwrap();
        let status = answer.status().as_u16();
        answer.bytes().await.unwrap();
        status
    };
    for n in 0..25 {
        assert_eq!(ask(&far, "stuck").await, 504);
        assert_eq!(ask(&near, "ok").await, 200, "the request after {n} others");
        assert_eq!(ask(&near, "stuck").await, 504);
        assert_eq!(ask(&far, "ok").await, 200, "the request after {n} others");
    }
}
