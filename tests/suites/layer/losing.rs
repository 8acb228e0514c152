//! The loss of the lock during a request.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use leasehold::{Fault, LeaseHandle, LockLayer, Locks};
use tokio::time::{advance, sleep, timeout};
use tower::{Layer, ServiceExt, service_fn};

use super::{problem, request, text};

/// The clock jumps past the deadline before a renewal is sent. To the lease it looks as if the
/// process had stood still.
const STANDSTILL: Duration = Duration::from_secs(31);

#[tokio::test(start_paused = true)]
async fn the_handler_is_cancelled_and_the_answer_is_503() {
    let locks = Locks::in_memory();
    let finished = Arc::new(AtomicUsize::default());
    let count = finished.clone();
    let service = LockLayer::mutex(&locks, "a").layer(service_fn(move |_: Request<()>| {
        let count = count.clone();
        async move {
            sleep(Duration::from_secs(20)).await;
            count.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Infallible>(text("done"))
        }
    }));
    let mut response = Box::pin(service.oneshot(request("/")));
    assert!(response.as_mut().now_or_never().is_none());
    advance(STANDSTILL).await;

    // The handler's own timer is over too, but the deadline is checked first.
    let response = response.await.unwrap();
    assert_eq!(finished.load(Ordering::SeqCst), 0);
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(!response.headers().contains_key("retry-after"));
    let problem = problem(response).await;
    assert!(problem["detail"].as_str().unwrap().contains("lost while the request ran"));
}

#[tokio::test(start_paused = true)]
async fn a_pending_handler_is_woken_by_the_loss() {
    let locks = Locks::in_memory();
    let service = LockLayer::semaphore(&locks, "a", 1).layer(service_fn(|_: Request<()>| {
        pending::<Result<Response<Empty<Bytes>>, Infallible>>()
    }));
    let response = tokio::spawn(service.oneshot(request("/")));
    tokio::task::yield_now().await;
    advance(STANDSTILL).await;
    let response = timeout(Duration::from_millis(10), response).await.unwrap();
    assert_eq!(response.unwrap().unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(start_paused = true)]
async fn the_body_continues_and_the_handle_reports_the_loss() {
    let locks = Locks::in_memory();
    let service = LockLayer::mutex(&locks, "a").layer(service_fn(async |request: Request<()>| {
        let lease = request.extensions().get::<LeaseHandle>().unwrap().clone();
        let mut response = text("done");
        response.extensions_mut().insert(lease);
        Ok::<_, Infallible>(response)
    }));
    let response = service.oneshot(request("/")).await.unwrap();
    let lease = response.extensions().get::<LeaseHandle>().unwrap().clone();
    advance(STANDSTILL).await;
    lease.lost().now_or_never().expect("it is lost");
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "done");
}

/// The store has said that the lock is not held, but not yet that it was taken by force. Meanwhile
/// the handler does not go on beside the next holder.
#[tokio::test(start_paused = true)]
async fn the_handler_stops_before_the_reason_is_known() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let steps = Arc::new(AtomicUsize::default());
    let count = steps.clone();
    let service = LockLayer::mutex(&locks, "a").layer(service_fn(move |_: Request<()>| {
        let count = count.clone();
        async move {
            for _ in 0..100 {
                sleep(Duration::from_secs(1)).await;
                count.fetch_add(1, Ordering::SeqCst);
            }
            Ok::<_, Infallible>(text("done"))
        }
    }));
    let response = tokio::spawn(service.oneshot(request("/")));
    sleep(Duration::from_millis(9500)).await;
    // No hint arrives. The force passes, and so does the renewal after ten seconds. The question
    // for the reason is delayed.
    faults.store().hold_hints();
    faults.pass(2);
    faults.next(Fault::Delay(Duration::from_secs(5)));
    let _ = locks.force_release("a").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let before = steps.load(Ordering::SeqCst);
    assert!(!response.is_finished());
    sleep(Duration::from_secs(4)).await;
    assert_eq!(steps.load(Ordering::SeqCst), before);
    assert_eq!(response.await.unwrap().unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
}
