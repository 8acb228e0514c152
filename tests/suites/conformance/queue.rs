//! Waiting, as a user sees it.

use std::time::Duration;

use leasehold::{LockError, Wait};
use leasehold_tests::backend::Backend;
use tokio::time::Instant;

use super::{Client, SHORT, granted};

macro_rules! cases {
    ($case:path) => {
        $case! {
            queue:
            a_try_does_not_wait,
            a_wait_ends_with_the_release,
            a_wait_ends_with_the_ttl_of_a_dead_holder,
            a_wait_ends_in_time,
            all_who_wait_are_served,
            a_dropped_wait_leaves_nothing,
        }
    };
}
pub(super) use cases;

pub(super) async fn a_try_does_not_wait(backend: &impl Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let lease = first.mutex("a").lock().await.unwrap();
    match second.mutex("a").try_lock().await {
        Err(LockError::Busy { key, retry_after, .. }) => {
            assert_eq!(key.name(), "a");
            assert!(retry_after > Duration::from_secs(20), "{retry_after:?}");
        }
        other => panic!("{other:?}"),
    }
    lease.release().await.unwrap();
}

pub(super) async fn a_wait_ends_with_the_release(backend: &impl Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let lease = first.mutex("a").lock().await.unwrap();
    let waiter = tokio::spawn(async move { second.mutex("a").wait(Wait::Forever).lock().await });
    tokio::task::yield_now().await;
    assert!(!waiter.is_finished());
    lease.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

pub(super) async fn a_wait_ends_with_the_ttl_of_a_dead_holder(backend: &impl Backend) {
    let locks = backend.locks().await;
    // Nobody renews it, nobody releases it.
    let begun = Instant::now();
    granted(backend, &Client::new().mutex(SHORT * 2)).await;
    let lease = locks.mutex("a").lock().await.unwrap();
    let waited = begun.elapsed();
    assert!(waited >= SHORT * 2, "{waited:?}");
    assert!(waited < Duration::from_secs(5), "it asked again when the TTL had passed: {waited:?}");
    lease.release().await.unwrap();
}

pub(super) async fn a_wait_ends_in_time(backend: &impl Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let lease = first.mutex("a").lock().await.unwrap();
    let begun = Instant::now();
    match second.mutex("a").wait(SHORT).lock().await {
        Err(LockError::TimedOut { waited, .. }) => assert!(waited >= SHORT, "{waited:?}"),
        other => panic!("{other:?}"),
    }
    assert!(begun.elapsed() >= SHORT);
    lease.release().await.unwrap();
}

pub(super) async fn all_who_wait_are_served(backend: &impl Backend) {
    let locks = backend.locks().await;
    let mut inside = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let locks = locks.clone();
        inside.spawn(async move {
            let lease = locks.mutex("a").wait(Wait::Forever).lock().await.unwrap();
            let token = lease.fence().unwrap();
            lease.release().await.unwrap();
            token
        });
    }
    let mut tokens = inside.join_all().await;
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 16);
}

pub(super) async fn a_dropped_wait_leaves_nothing(backend: &impl Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let lease = first.mutex("a").lock().await.unwrap();
    let waiting = tokio::time::timeout(SHORT, second.mutex("a").lock()).await;
    assert!(waiting.is_err());
    lease.release().await.unwrap();
    let lease = first.mutex("a").try_lock().await.unwrap();
    lease.release().await.unwrap();
}
