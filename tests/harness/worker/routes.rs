//! An app of its own process: a route for each kind of lock and each kind of body.

use std::convert::Infallible;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use leasehold::layer::{HoldUntil, KeyBy, key_by};
use leasehold::{LockLayer, Locks};
use tokio::net::TcpListener;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;

use super::{Failure, ready};

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

/// Serves the routes until the input ends. Prints its address first.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(super) async fn serve(redis: &str) -> Result<(), Failure> {
    let locks = Locks::connect(redis).await?;
    let mut app = Router::new();
    for kind in leasehold_tests::routes::KINDS {
        for body in leasehold_tests::routes::BODIES {
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
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, app).await });
    ready();
    Ok(())
}
