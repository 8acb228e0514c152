//! Handlers that acquire locks themselves: their errors as responses, and bodies that hold leases.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use http_body_util::BodyExt;
use leasehold::{LockError, Locks, Rate};

use super::is_free;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn status<T: std::fmt::Debug>(result: Result<T, LockError>) -> StatusCode {
    result.unwrap_err().into_response().status()
}

/// As the layer of the same kind answers.
#[tokio::test(start_paused = true)]
async fn an_error_has_the_status_of_its_kind_of_lock() {
    let locks = Locks::in_memory();
    let wait = Duration::from_secs(1);
    let _mutex = locks.mutex("m").lock().await.unwrap();
    let _permit = locks.semaphore("s", 1).acquire().await.unwrap();
    let _writer = locks.rw_lock("w").write().await.unwrap();
    let (held, full) = (StatusCode::CONFLICT, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(status(locks.mutex("m").try_lock().await), held);
    assert_eq!(status(locks.mutex("m").wait(wait).lock().await), held);
    assert_eq!(status(locks.rw_lock("w").try_read().await), held);
    assert_eq!(status(locks.semaphore("s", 1).try_acquire().await), full);
    assert_eq!(status(locks.semaphore("s", 1).wait(wait).acquire().await), full);
    let set = || locks.together().wait(wait).permit("s", 1);
    assert_eq!(status(set().read("r").lock().await), full);
    assert_eq!(status(set().read("r").try_lock().await), full);
    assert_eq!(status(locks.together().permit("t", 1).write("w").try_lock().await), held);
    let rate = || locks.rate("n", Rate::per_minute(1));
    rate().acquire().await.unwrap();
    assert_eq!(status(rate().try_acquire().await), full);
    locks.mutex("o").once(DAY).lock().await.unwrap().complete().await.unwrap();
    assert_eq!(status(locks.mutex("o").once(DAY).try_lock().await), held);
}

async fn export(locks: &Locks, rows: usize) -> Result<Response, LockError> {
    let both = locks.together().permit("tenant", 1).permit("all", 2).try_lock().await?;
    let rows = stream::iter((0..rows).map(|_| Ok::<_, std::io::Error>(Bytes::from("row"))));
    Ok(Response::new(Body::new(both.hold_body(Body::from_stream(rows)))))
}

#[tokio::test(start_paused = true)]
async fn a_body_holds_several_leases_until_its_end() {
    let locks = Locks::in_memory();
    let mut body = export(&locks, 2).await.unwrap().into_body();
    assert_eq!(status(export(&locks, 2).await), StatusCode::TOO_MANY_REQUESTS);
    assert!(body.frame().await.unwrap().is_ok());
    assert!(!is_free(&locks, "tenant").await && locks.inspect("all").await.unwrap().held == 1);
    assert_eq!(to_bytes(body, 100).await.unwrap(), "row");
    assert!(is_free(&locks, "tenant").await && is_free(&locks, "all").await);
    // A client that goes away.
    let mut body = export(&locks, 2).await.unwrap().into_body();
    assert!(body.frame().await.unwrap().is_ok());
    drop(body);
    assert!(is_free(&locks, "tenant").await && is_free(&locks, "all").await);
}

/// The last frame of a body that says its length is the end.
#[tokio::test(start_paused = true)]
async fn a_body_completes_work_that_is_to_succeed_once() {
    let locks = Locks::in_memory();
    let once = || locks.mutex("m").once(DAY);
    let broken = stream::iter([Ok(Bytes::from("row")), Err(std::io::Error::other("broken"))]);
    let body = once().lock().await.unwrap().hold_body(Body::from_stream(broken));
    assert!(to_bytes(Body::new(body), 100).await.is_err());
    let mut body = once().lock().await.unwrap().hold_body(Body::from("row"));
    assert!(body.frame().await.unwrap().is_ok());
    assert!(once().try_lock().await.unwrap_err().is_done());
}
