//! Requests that are to succeed once.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt;
use leasehold::layer::{HoldUntil, Refusal, key_by};
use leasehold::{LockError, LockLayer, Locks};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::{Later, is_free, one_by_one, request, text};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A service whose nth call answers with the nth status, and then always with 200.
fn answering(
    statuses: &'static [u16],
    calls: &Arc<AtomicUsize>,
) -> impl Service<Request<()>, Response = Response<Later>, Error = Infallible, Future: Send + 'static>
+ Clone
+ use<> {
    let calls = calls.clone();
    service_fn(move |_: Request<()>| {
        let call = calls.fetch_add(1, Ordering::SeqCst);
        let mut response = text("done");
        let status = statuses.get(call).copied().unwrap_or(200);
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        async { Ok(response) }
    })
}

fn by_path(locks: &Locks) -> LockLayer<impl leasehold::layer::RequestKey> {
    LockLayer::mutex(locks, key_by(|parts| Some(parts.uri.path().to_owned()))).once(DAY)
}

#[tokio::test]
async fn a_key_is_refused_after_a_success() {
    let (locks, calls) = (Locks::in_memory(), Arc::<AtomicUsize>::default());
    let service = by_path(&locks).layer(answering(&[500, 404], &calls));
    for status in [500, 404, 200, 409, 409] {
        let response = service.clone().oneshot(request("/pay/1")).await.unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(response.headers().get("retry-after"), None);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let is_refused = body.starts_with(b"{") && status == 409;
        assert_eq!(is_refused, status == 409, "{body:?}");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    let other = service.oneshot(request("/pay/2")).await.unwrap();
    assert_eq!(other.status(), 200, "it is another key");
}

#[tokio::test]
async fn a_key_is_refused_until_the_tick_of_its_schedule_ends() {
    let (locks, calls) = (Locks::in_memory(), Arc::<AtomicUsize>::default());
    let yearly = LockLayer::mutex(&locks, "report").schedule("yearly in Europe/Berlin");
    let service = yearly.layer(answering(&[500], &calls));
    for status in [500, 200, 409] {
        let response = service.clone().oneshot(request("/report")).await.unwrap();
        assert_eq!(response.status(), status);
        response.into_body().collect().await.unwrap();
    }
}

#[tokio::test]
async fn the_refusal_can_be_replaced() {
    let locks = Locks::in_memory();
    let layer = by_path(&locks).on_refused(async |refusal, _| match refusal {
        Refusal::Done(error) => Response::new(Bytes::from(format!("{}", error.is_done()))),
        refusal => refusal.to_response(),
    });
    let service = layer.layer(answering(&[], &Arc::default()));
    for text in ["done", "true"] {
        let response = service.clone().oneshot(request("/")).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), text);
    }
}

/// A frame of a body.
#[derive(Clone, Copy)]
enum Part {
    Data,
    Error,
    /// Trailers of a gRPC call that failed.
    Failed,
}

fn frame(part: Part) -> Result<Frame<Bytes>, &'static str> {
    match part {
        Part::Data => Ok(Frame::data(Bytes::from("a"))),
        Part::Error => Err("broken"),
        Part::Failed => {
            let (name, status) = ("grpc-status".parse().unwrap(), HeaderValue::from_static("13"));
            Ok(Frame::trailers(HeaderMap::from_iter([(name, status)])))
        }
    }
}

/// The body says whether the request has succeeded: its end, its error, or its trailers.
#[tokio::test]
async fn a_request_succeeds_with_the_end_of_its_body() {
    for (last, read, succeeds) in [
        (Part::Data, 3, true),
        (Part::Data, 1, false),
        (Part::Error, 3, false),
        (Part::Failed, 3, false),
    ] {
        let locks = Locks::in_memory();
        let layer = LockLayer::mutex(&locks, "a").once(DAY);
        let service = layer.layer(service_fn(move |_: Request<()>| {
            let body = one_by_one([Part::Data, last].map(frame));
            async { Ok::<_, Infallible>(Response::new(body)) }
        }));
        let mut body = service.oneshot(request("/")).await.unwrap().into_body();
        for _ in 0..read {
            let _ = body.frame().await;
        }
        drop(body);
        assert!(is_free(&locks, "a").await);
        let is_done = locks.mutex("a").once(DAY).try_lock().await.is_err_and(|it| it.is_done());
        assert_eq!(is_done, succeeds, "{read} frames are read");
    }
}

#[tokio::test]
async fn with_the_head_a_request_succeeds_with_its_head() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, "a").once(DAY).hold_until(HoldUntil::Head);
    let service = layer.layer(answering(&[503], &Arc::default()));
    for (status, is_done) in [(503, false), (200, true)] {
        let response = service.clone().oneshot(request("/")).await.unwrap();
        assert_eq!(response.status(), status);
        let lock = locks.mutex("a").once(DAY).try_lock().await;
        assert_eq!(lock.is_err_and(|it| it.is_done()), is_done);
    }
}

/// A period begins half a day after midnight. A failure leaves it to the next request.
#[tokio::test(start_paused = true)]
async fn a_key_succeeds_once_in_each_period() {
    let (locks, calls) = (Locks::in_memory(), Arc::<AtomicUsize>::default());
    let layer = LockLayer::mutex(&locks, "nightly").once_per(DAY).offset(DAY / 2);
    let service = layer.layer(answering(&[500], &calls));
    let ask = async || {
        let response = service.clone().oneshot(request("/")).await.unwrap();
        let status = response.status();
        response.into_body().collect().await.unwrap();
        status
    };
    for statuses in [&[500, 200, 409, 409][..], &[200, 409]] {
        for status in statuses {
            assert_eq!(ask().await, *status);
        }
        let refusal = locks.mutex("nightly").once_per(DAY).offset(DAY / 2).try_lock().await;
        let Err(LockError::Done { retry_after, .. }) = refusal else { panic!("{refusal:?}") };
        // Just before the next period, and just after it began.
        tokio::time::advance(retry_after.saturating_sub(Duration::from_secs(1))).await;
        assert_eq!(ask().await, 409);
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}

/// The scheduler's clock is ahead of the store's.
#[tokio::test(start_paused = true)]
async fn a_request_that_waits_gets_the_next_period() {
    let (locks, calls) = (Locks::in_memory(), Arc::<AtomicUsize>::default());
    let wait = Duration::from_secs(5);
    // Periods begin half a day before and after the test, at whatever time of the day it runs.
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let offset = Duration::from_secs(since.abs_diff(DAY / 2).as_secs());
    let layer = LockLayer::mutex(&locks, "nightly").once_per(DAY).offset(offset).wait(wait);
    let service = layer.layer(answering(&[], &calls));
    let ask = async || {
        let response = service.clone().oneshot(request("/")).await.unwrap();
        let status = response.status();
        response.into_body().collect().await.unwrap();
        status
    };
    assert_eq!(ask().await, 200);
    for _ in 0..3 {
        let refusal = locks.mutex("nightly").once_per(DAY).offset(offset).try_lock().await;
        let Err(LockError::Done { retry_after, .. }) = refusal else { panic!("{refusal:?}") };
        tokio::time::advance(retry_after.saturating_sub(wait * 2)).await;
        assert_eq!(ask().await, 409, "the next period begins too late");
        tokio::time::advance(wait + wait / 2).await;
        assert_eq!(ask().await, 200);
    }
    assert_eq!(calls.load(Ordering::SeqCst), 4);
}

/// It would be unclear which of the two counts.
#[test]
#[should_panic(expected = "`once`: it can't be combined with `once_per`")]
fn a_layer_with_both_is_not_built() {
    let layer = LockLayer::mutex(&Locks::in_memory(), "a").once(DAY).once_per(DAY);
    drop(layer.layer(answering(&[], &Arc::default())));
}

#[test]
#[should_panic(expected = "`once` is for mutexes")]
fn only_a_mutex_has_once() {
    let _ = LockLayer::semaphore(&Locks::in_memory(), "a", 2).once(DAY);
}

#[test]
#[should_panic(expected = "`once_per` is for mutexes")]
fn only_a_mutex_has_once_per() {
    let _ = LockLayer::rw_lock(&Locks::in_memory(), "a").once_per(DAY);
}
