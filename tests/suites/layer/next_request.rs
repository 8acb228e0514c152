//! A client that has read its whole answer, and is alone on its lock, is not refused: whichever of
//! the servers gets its next request, and however far away Redis is.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::stream;
use http::{Method, StatusCode};
use leasehold::tower::{HoldUntil, KeyBy, key_by};
use leasehold::{LockLayer, Locks};
use leasehold_tests::server::Server;
use redis_server_wrapper::{Delay, Direction, FaultProxy};
use tokio::net::TcpListener;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;

const KINDS: [&str; 3] = ["mutex", "semaphore", "writer"];

/// The kinds of bodies, and the method of their requests.
const BODIES: [&str; 12] = [
    "empty",
    "known",
    "stream",
    "sized_stream",
    "large",
    "head",
    "no_content",
    "compressed",
    "compressed_inside",
    "until_head",
    "error",
    "panic",
];

fn chunks(count: usize) -> Body {
    let chunk = Ok::<_, Infallible>(Bytes::from_static(&[b'a'; 256]));
    Body::from_stream(stream::iter(vec![chunk; count]))
}

fn answer(body: &'static str) -> Response {
    match body {
        "empty" => ().into_response(),
        "stream" => chunks(3).into_response(),
        "sized_stream" => ([("content-length", "768")], chunks(3)).into_response(),
        "large" => vec![b'a'; 1 << 18].into_response(),
        "no_content" => StatusCode::NO_CONTENT.into_response(),
        "error" => StatusCode::BAD_GATEWAY.into_response(),
        "panic" => std::panic::resume_unwind(Box::new("on purpose")),
        _ => "a text that is long enough to be compressed, which it is, if the layer is there"
            .into_response(),
    }
}

fn layer(
    locks: &Locks,
    kind: &str,
) -> LockLayer<KeyBy<impl Fn(&http::request::Parts) -> Option<String> + use<>>> {
    let key = key_by(|parts| Some(parts.uri.path().to_owned()));
    match kind {
        "mutex" => LockLayer::mutex(locks, key),
        "semaphore" => LockLayer::semaphore(locks, key, 1),
        _ => LockLayer::rw_lock(locks, key),
    }
}

/// A server with a client of its own, as another process would have it.
async fn serve(redis: &str) -> SocketAddr {
    let locks = Locks::connect(redis).await.unwrap();
    let mut app = Router::new();
    for kind in KINDS {
        for body in BODIES {
            let mut layer = layer(&locks, kind);
            if body == "until_head" {
                layer = layer.hold_until(HoldUntil::Head);
            }
            let mut route = any(move || async move { answer(body) });
            if body == "compressed_inside" {
                route = route.layer(CompressionLayer::new());
            }
            route = route.layer(layer);
            if body == "compressed" {
                route = route.layer(CompressionLayer::new());
            }
            app = app.route(&format!("/{kind}/{body}"), route.layer(CatchPanicLayer::new()));
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// How many requests go to each route. `NEXT_REQUESTS` makes it more.
fn requests() -> u32 {
    std::env::var("NEXT_REQUESTS").ok().and_then(|text| text.parse().ok()).unwrap_or(8)
}

/// Sends requests one after another, each to the next server. Returns the refused ones, and the
/// time of all.
async fn ask(servers: &[SocketAddr], kind: &str, body: &str) -> (u32, Duration) {
    let client = reqwest::Client::new();
    let method = if body == "head" { Method::HEAD } else { Method::POST };
    let (mut refused, begun) = (0, Instant::now());
    for server in servers.iter().cycle().take(requests() as usize) {
        let request = client.request(method.clone(), format!("http://{server}/{kind}/{body}"));
        let response = request.header("accept-encoding", "gzip").send().await.unwrap();
        let status = response.status();
        refused += u32::from(status.is_client_error());
        let is_compressed = response.headers().contains_key("content-encoding");
        assert_eq!(is_compressed && !status.is_client_error(), body.starts_with("compressed"));
        response.bytes().await.unwrap();
    }
    (refused, begun.elapsed())
}

async fn refusals(redis: &Server, server_count: usize, round_trip: Duration) {
    let proxy = FaultProxy::spawn(("127.0.0.1", redis.port())).await.unwrap();
    if !round_trip.is_zero() {
        proxy.set_delay(Direction::UpstreamToClient, Delay::Fixed(round_trip));
    }
    let url = format!("redis://{}/", proxy.addr());
    let servers = join_all((0..server_count).map(|_| serve(&url))).await;
    let mut refused = BTreeMap::new();
    for body in BODIES {
        let mut took = Duration::ZERO;
        for kind in KINDS {
            let (count, time) = ask(&servers, kind, body).await;
            took += time;
            if count > 0 {
                refused.insert((body, kind), count);
            }
        }
        let each = took / (requests() * 3);
        println!("{server_count} servers, Redis {round_trip:?} farther: {body} takes {each:?}");
    }
    assert!(refused.is_empty(), "{server_count} servers, {round_trip:?}: {refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_does_not_refuse_its_only_client() {
    let redis = Server::start();
    for micros in [0, 500, 2000] {
        refusals(&redis, 1, Duration::from_micros(micros)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_do_not_refuse_their_only_client() {
    let redis = Server::start();
    for micros in [0, 500, 2000] {
        refusals(&redis, 2, Duration::from_micros(micros)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_servers_do_not_refuse_their_only_client() {
    let redis = Server::start();
    for micros in [0, 500, 2000] {
        refusals(&redis, 4, Duration::from_micros(micros)).await;
    }
}
