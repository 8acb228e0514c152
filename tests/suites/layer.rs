//! The Tower layer: keys, the time that a lock is held, and refusals.

mod by_hand;
mod current;
mod grpc;
mod holding;
mod identities;
mod keys;
mod lingering;
mod losing;
mod max_hold;
mod max_waiters;
#[cfg(feature = "servers")]
mod next_request;
mod once;
mod options;
mod order;
mod own_answers;
mod own_locks;
mod rates;
mod readers;
mod readiness;
mod reading_ahead;
mod refusals;
mod sets;
mod streams;
mod templates;
mod time_outs;
mod waiting;
mod weights;
mod with_axum;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full, StreamBody};
use leasehold::layer::{LeaseBody, RequestKey};
use leasehold::{LockLayer, Locks};
use serde_json::Value;
use tower::{Layer, Service, ServiceExt, service_fn};

/// A body that is not ready with the head, nor with that of a second layer: until it is read, it
/// holds its lock.
#[derive(Debug, Default)]
struct Later {
    text: Full<Bytes>,
    asked: u8,
}

impl Body for Later {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.asked < 2 {
            self.asked += 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Pin::new(&mut self.text).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.text.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.text.size_hint()
    }
}

fn text(text: &'static str) -> Response<Later> {
    let text = Full::new(Bytes::from_static(text.as_bytes()));
    Response::new(Later { text, asked: 0 })
}

/// Frames that are ready one by one, each after the last was read.
fn one_by_one<T: Send + 'static>(
    frames: impl IntoIterator<Item = T, IntoIter: Send + 'static>,
) -> StreamBody<Pin<Box<dyn Stream<Item = T> + Send>>> {
    StreamBody::new(Box::pin(stream::iter(frames).then(async |frame| {
        tokio::task::yield_now().await;
        frame
    })))
}

fn request(path: &str) -> Request<()> {
    Request::builder().uri(path).body(()).unwrap()
}

async fn is_free(locks: &Locks, key: &str) -> bool {
    locks.mutex(key).try_lock().await.is_ok()
}

/// A service that counts its calls.
fn counting(
    calls: &Arc<AtomicUsize>,
) -> impl Service<Request<()>, Response = Response<Later>, Error = Infallible, Future: Send + 'static>
+ Clone
+ Send
+ use<> {
    let calls = calls.clone();
    service_fn(move |_: Request<()>| {
        calls.fetch_add(1, Ordering::SeqCst);
        async { Ok(text("done")) }
    })
}

/// Sends a request to a service that says "done", through the layer.
async fn ask(layer: &LockLayer<impl RequestKey>, path: &str) -> Response<LeaseBody<Later>> {
    layer.layer(counting(&Arc::default())).oneshot(request(path)).await.unwrap()
}

async fn problem<B>(response: Response<B>) -> Value
where
    B: http_body::Body<Error: std::fmt::Debug>,
{
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let problem: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(problem["status"], status.as_u16());
    assert_documented(&problem);
    problem
}

/// Fails unless the guide's table has a row with the problem's status, type and title. RFC 9457
/// wants the status's own phrase as the title of a problem without a type.
fn assert_documented(problem: &Value) {
    let of = |member: &str| problem[member].as_str().unwrap_or_default();
    if problem["type"].is_null() {
        return assert_eq!(of("title"), "Internal Server Error", "{problem}");
    }
    let (_, kind) = of("type").split_once("?problem=").expect("a type of ours");
    let begins = |row: &&str| row.starts_with(&format!("| {}", problem["status"]));
    let names = format!(" | `{kind}` | {} |", of("title"));
    let guide = include_str!("../../docs/guide/http.md");
    let rows = guide.lines().filter(|row| row.contains(&names)).collect::<Vec<_>>();
    // `crowded` has two statuses.
    let status = problem["status"].to_string();
    assert!(
        rows.iter().any(|row| begins(row) || row.contains(&format!("or {status} |"))),
        "{problem}"
    );
}

fn retry_after<B>(response: &Response<B>) -> u64 {
    response.headers()["retry-after"].to_str().unwrap().parse().unwrap()
}
