//! The semaphore, command by command.

use std::time::Duration;

use leasehold::LockError;
use leasehold::store::Attempt;
use leasehold_tests::backend::Backend;

use super::{Client, LONG, SHORT, acquire, busy, granted, released};

macro_rules! cases {
    ($case:path) => {
        $case! {
            semaphore:
            as_many_as_the_limit_get_in,
            each_permit_expires_by_itself,
            each_caller_keeps_to_its_own_limit,
            an_ended_permit_does_not_hold_the_name,
            a_refusal_says_when_the_first_permit_ends,
            many_dead_permits_are_passed_over,
            a_permit_has_no_token,
        }
    };
}
pub(super) use cases;

pub(super) async fn as_many_as_the_limit_get_in(backend: &dyn Backend) {
    let client = Client::new();
    let permits = [(); 3].map(|()| client.permit(3, LONG));
    for permit in &permits {
        granted(backend, permit).await;
    }
    granted(backend, &permits[1]).await; // though it is full
    let left = busy(backend, &client.permit(3, LONG)).await;
    assert!(left <= LONG && left > LONG / 2, "{left:?}");
}

pub(super) async fn each_permit_expires_by_itself(backend: &dyn Backend) {
    let client = Client::new();
    granted(backend, &client.permit(2, SHORT)).await;
    granted(backend, &client.permit(2, LONG)).await;
    busy(backend, &client.permit(2, LONG)).await;
    backend.pass(SHORT).await;
    granted(backend, &client.permit(2, LONG)).await;
    busy(backend, &client.permit(2, LONG)).await;
}

pub(super) async fn each_caller_keeps_to_its_own_limit(backend: &dyn Backend) {
    let client = Client::new();
    for _ in 0..2 {
        granted(backend, &client.permit(3, LONG)).await;
    }
    busy(backend, &client.permit(2, LONG)).await;
    granted(backend, &client.permit(3, LONG)).await;
    busy(backend, &client.permit(3, LONG)).await;
    granted(backend, &client.permit(4, LONG)).await;
}

/// Whether it was released or expired, before the other or after it.
pub(super) async fn an_ended_permit_does_not_hold_the_name(backend: &dyn Backend) {
    let client = Client::new();
    for is_short_last in [false, true] {
        let (long, short) = (client.permit(2, LONG), client.permit(2, SHORT));
        granted(backend, &long).await;
        granted(backend, &short).await;
        if is_short_last {
            let _ = released(backend, &long).await;
            backend.pass(SHORT).await;
        } else {
            backend.pass(SHORT).await;
            let _ = released(backend, &long).await;
        }
        let mutex = client.mutex(LONG);
        granted(backend, &mutex).await;
        let _ = released(backend, &mutex).await;
    }
}

pub(super) async fn a_refusal_says_when_the_first_permit_ends(backend: &dyn Backend) {
    let client = Client::new();
    granted(backend, &client.permit(2, LONG * 2)).await;
    granted(backend, &client.permit(2, LONG)).await;
    let left = busy(backend, &client.permit(2, LONG)).await;
    assert!(left <= LONG && left > LONG / 2, "{left:?}");
}

pub(super) async fn many_dead_permits_are_passed_over(backend: &dyn Backend) {
    let client = Client::new();
    granted(backend, &client.permit(200, LONG)).await;
    for _ in 0..100 {
        granted(backend, &client.permit(200, SHORT)).await;
    }
    backend.pass(SHORT).await;
    let late = client.permit(2, LONG);
    let mut asked = 1;
    while let Attempt::Busy { retry_after, .. } = acquire(backend, &late).await {
        assert_eq!(retry_after, Duration::ZERO, "it may ask again at once");
        asked += 1;
    }
    assert!(asked <= 2, "{asked}");
    busy(backend, &client.permit(2, LONG)).await;
}

pub(super) async fn a_permit_has_no_token(backend: &dyn Backend) {
    let permit = backend.locks().await.semaphore("a", 2).acquire().await.unwrap();
    assert!(matches!(permit.fence(), Err(LockError::NotFenced { .. })));
    permit.release().await.unwrap();
}
