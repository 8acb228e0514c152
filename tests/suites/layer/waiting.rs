//! Requests that wait for their lock.

use std::time::Duration;

use futures_util::future::join_all;
use http::StatusCode;
use leasehold::{Fault, LockError, LockLayer, Locks};
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

/// One of this process's waiters asks the store. If it fails, nobody knows whether others
/// hold the lock.
#[tokio::test(start_paused = true)]
async fn an_outage_is_no_held_lock_for_those_who_wait_behind_another() {
    for (wait, linger) in [(2_000, 0), (200, 0), (200, 60_000)] {
        let (locks, faults) = Locks::in_memory_with_faults();
        let layer = LockLayer::mutex(&locks, "a").wait(Duration::from_millis(wait));
        let layer = layer.linger(Duration::from_millis(linger));
        if linger > 0 {
            // An idle lease, which the store is asked about after a second.
            assert_eq!(ask(&layer, "/").await.status(), StatusCode::OK);
            sleep(Duration::from_secs(5)).await;
        }
        faults.always(Fault::Unreachable);
        let statuses = async |layer: &LockLayer<&'static str>| {
            let requests = (0..10).map(|_| ask(layer, "/"));
            let responses = join_all(requests).await.into_iter();
            responses.map(|response| response.status()).collect::<Vec<_>>()
        };
        assert_eq!(statuses(&layer).await, [StatusCode::SERVICE_UNAVAILABLE; 10]);
        assert_eq!(statuses(&layer.clone().fail_open()).await, [StatusCode::OK; 10]);
        let mutex = locks.mutex("a").wait(Duration::from_millis(wait));
        let (one, other) = tokio::join!(mutex.lock(), mutex.lock());
        for result in [one, other] {
            assert!(matches!(result, Err(LockError::Store { .. })), "{result:?}");
        }
    }
}

/// A lock that is held is, also for those who wait behind another.
#[tokio::test(start_paused = true)]
async fn a_held_lock_is_held_for_those_who_wait_behind_another() {
    let locks = Locks::in_memory();
    let lease = locks.mutex("a").owner("it").lock().await.unwrap();
    let layer = LockLayer::mutex(&locks, "a").wait(Duration::from_secs(2));
    let (one, two) = tokio::join!(ask(&layer, "/"), ask(&layer, "/"));
    assert_eq!([one.status(), two.status()], [StatusCode::CONFLICT; 2]);
    lease.release().await.unwrap();
}
