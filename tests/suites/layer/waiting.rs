//! Requests that wait for their lock.

use std::time::Duration;

use http::StatusCode;
use leasehold::{LockLayer, Locks};
use tokio::time::{sleep, timeout};

use super::{ask, is_free, retry_after};

#[tokio::test(start_paused = true)]
async fn requests_wait_if_the_layer_has_a_wait() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, "a").wait(Duration::from_secs(5));
    let lease = locks.mutex("a").lock().await.unwrap();
    let release = async {
        sleep(Duration::from_secs(2)).await;
        lease.release().await.unwrap();
    };
    let (response, ()) = tokio::join!(ask(&layer, "/"), release);
    assert_eq!(response.status(), StatusCode::OK);

    // The late response holds the lock now.
    let late = ask(&layer, "/").await;
    assert_eq!(late.status(), StatusCode::CONFLICT);
    assert_eq!(retry_after(&late), 1, "after a wait nothing better is known");
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_the_queue() {
    let locks = Locks::in_memory();
    let layer = LockLayer::mutex(&locks, "a").wait(Duration::from_secs(5));
    let lease = locks.mutex("a").lock().await.unwrap();
    let gone = timeout(Duration::from_millis(20), ask(&layer, "/")).await;
    assert!(gone.is_err());
    lease.release().await.unwrap();
    assert!(is_free(&locks, "a").await);
}
