//! The semaphore, command by command.

use std::time::Duration;

use leasehold::LockError;
use leasehold::LossReason::Expired;
use leasehold::store::{Ask, Attempt, Ended, Renewal};
use leasehold_tests::backend::Backend;

use super::{Client, LONG, SHORT, acquire, busy, granted, released, renewed};

macro_rules! cases {
    ($case:path) => {
        $case! {
            semaphore:
            as_many_as_the_limit_get_in,
            each_permit_expires_by_itself,
            a_permit_asked_for_twice_counts_once,
            a_repeated_permit_starts_its_ttl_anew,
            a_permit_is_released_once,
            a_stranger_releases_nothing,
            each_caller_keeps_to_its_own_limit,
            a_short_permit_does_not_shorten_a_long_one,
            a_released_long_permit_leaves_the_short_one,
            a_renewal_prolongs_one_permit_only,
            an_ended_permit_is_not_renewed,
            the_last_permit_frees_the_name,
            a_released_long_permit_does_not_hold_the_name,
            an_ended_permit_does_not_hold_the_name,
            a_released_permit_is_not_granted_again,
            a_cancelled_permit_is_not_granted_again,
            a_cancel_takes_one_permit_back,
            a_refusal_says_when_the_first_permit_ends,
            many_dead_permits_are_passed_over,
            a_permit_has_no_token,
        }
    };
}
pub(super) use cases;

pub(super) async fn as_many_as_the_limit_get_in(backend: &dyn Backend) {
    let client = Client::new();
    for _ in 0..3 {
        granted(backend, &client.permit(3, LONG)).await;
    }
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

pub(super) async fn a_permit_asked_for_twice_counts_once(backend: &dyn Backend) {
    let client = Client::new();
    let permit = client.permit(2, LONG);
    granted(backend, &permit).await;
    granted(backend, &permit).await;
    granted(backend, &client.permit(2, LONG)).await;
    granted(backend, &permit).await; // though it is full
    busy(backend, &client.permit(2, LONG)).await;
}

pub(super) async fn a_repeated_permit_starts_its_ttl_anew(backend: &dyn Backend) {
    let client = Client::new();
    let mut permit = client.permit(1, LONG);
    granted(backend, &permit).await;
    permit.ttl = LONG * 2;
    granted(backend, &permit).await;
    assert!(busy(backend, &client.permit(1, LONG)).await > LONG);
}

pub(super) async fn a_permit_is_released_once(backend: &dyn Backend) {
    let client = Client::new();
    let first = client.permit(2, LONG);
    granted(backend, &first).await;
    granted(backend, &client.permit(2, LONG)).await;
    assert_eq!(released(backend, &first).await, Ended::Released);
    assert_eq!(released(backend, &first).await, Ended::Released);
    granted(backend, &client.permit(2, LONG)).await;
    busy(backend, &client.permit(2, LONG)).await;
}

pub(super) async fn a_stranger_releases_nothing(backend: &dyn Backend) {
    let client = Client::new();
    granted(backend, &client.permit(1, LONG)).await;
    let stranger = client.permit(1, LONG);
    assert_eq!(released(backend, &stranger).await, Ended::NotHeld(Expired));
    busy(backend, &stranger).await;
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

pub(super) async fn a_short_permit_does_not_shorten_a_long_one(backend: &dyn Backend) {
    let client = Client::new();
    let long = client.permit(3, LONG);
    granted(backend, &long).await;
    // The machine may be busy before the renewal.
    let ttl = SHORT * 3;
    let (prolonged, short) = (client.permit(3, ttl), client.permit(3, ttl));
    granted(backend, &prolonged).await;
    assert_eq!(renewed(backend, &prolonged).await, Renewal::Renewed);
    granted(backend, &short).await;
    let _ = released(backend, &short).await;
    backend.pass(ttl).await;
    busy(backend, &client.permit(1, LONG)).await;
    assert_eq!(acquire(backend, &client.mutex(LONG)).await, Attempt::WrongKind);
    assert_eq!(renewed(backend, &long).await, Renewal::Renewed);
}

pub(super) async fn a_released_long_permit_leaves_the_short_one(backend: &dyn Backend) {
    let client = Client::new();
    let (long, short) = (client.permit(3, LONG), client.permit(3, LONG * 2));
    granted(backend, &long).await;
    granted(backend, &short).await;
    assert_eq!(released(backend, &long).await, Ended::Released);
    assert_eq!(acquire(backend, &client.mutex(LONG)).await, Attempt::WrongKind);
    assert!(busy(backend, &client.permit(1, LONG)).await > LONG);
}

pub(super) async fn a_renewal_prolongs_one_permit_only(backend: &dyn Backend) {
    let client = Client::new();
    // The machine may be busy before the renewal.
    let ttl = SHORT * 3;
    let mut prolonged = client.permit(2, ttl);
    granted(backend, &prolonged).await;
    granted(backend, &client.permit(2, ttl)).await;
    prolonged.ttl = LONG;
    assert_eq!(renewed(backend, &prolonged).await, Renewal::Renewed);
    backend.pass(ttl).await;
    assert_eq!(acquire(backend, &client.mutex(LONG)).await, Attempt::WrongKind);
    granted(backend, &client.permit(2, LONG)).await;
    busy(backend, &client.permit(2, LONG)).await;
}

pub(super) async fn an_ended_permit_is_not_renewed(backend: &dyn Backend) {
    let client = Client::new();
    granted(backend, &client.permit(3, LONG)).await;
    let (expired, given_back) = (client.permit(3, SHORT), client.permit(3, LONG));
    granted(backend, &expired).await;
    granted(backend, &given_back).await;
    backend.pass(SHORT).await;
    assert_eq!(renewed(backend, &expired).await, Renewal::NotHeld(Expired));
    assert_eq!(released(backend, &expired).await, Ended::NotHeld(Expired));
    let _ = released(backend, &given_back).await;
    assert_eq!(renewed(backend, &given_back).await, Renewal::NotHeld(Expired));
    granted(backend, &client.permit(2, LONG)).await;
    busy(backend, &client.permit(2, LONG)).await;
}

pub(super) async fn the_last_permit_frees_the_name(backend: &dyn Backend) {
    let client = Client::new();
    let permit = client.permit(2, LONG);
    granted(backend, &permit).await;
    let _ = released(backend, &permit).await;
    granted(backend, &client.mutex(LONG)).await;
}

pub(super) async fn a_released_long_permit_does_not_hold_the_name(backend: &dyn Backend) {
    let client = Client::new();
    let (long, short) = (client.permit(2, LONG), client.permit(2, SHORT));
    granted(backend, &long).await;
    granted(backend, &short).await;
    let _ = released(backend, &long).await;
    backend.pass(SHORT).await;
    granted(backend, &client.mutex(LONG)).await;
}

pub(super) async fn an_ended_permit_does_not_hold_the_name(backend: &dyn Backend) {
    let client = Client::new();
    let long = client.permit(2, LONG);
    granted(backend, &client.permit(2, SHORT)).await;
    granted(backend, &long).await;
    backend.pass(SHORT).await;
    let _ = released(backend, &long).await;
    granted(backend, &client.permit(2, SHORT)).await;
    backend.pass(SHORT).await;
    granted(backend, &client.mutex(LONG)).await;
}

pub(super) async fn a_released_permit_is_not_granted_again(backend: &dyn Backend) {
    let client = Client::new();
    let permit = client.permit(2, LONG);
    granted(backend, &permit).await;
    let _ = released(backend, &permit).await;
    assert_eq!(acquire(backend, &permit).await, Attempt::Ended);
    granted(backend, &client.permit(2, LONG)).await;
    assert_eq!(acquire(backend, &permit).await, Attempt::Ended);
}

pub(super) async fn a_cancelled_permit_is_not_granted_again(backend: &dyn Backend) {
    let client = Client::new();
    let permit = client.permit(2, LONG);
    assert!(!backend.store().cancel(&permit).await.unwrap());
    assert_eq!(acquire(backend, &permit).await, Attempt::Ended);
    let holder = client.permit(2, LONG);
    granted(backend, &holder).await;
    let late = client.permit(2, LONG);
    assert!(!backend.store().cancel(&late).await.unwrap());
    assert_eq!(acquire(backend, &late).await, Attempt::Ended);
    assert_eq!(backend.store().renew(&holder).await.unwrap(), Renewal::Renewed);
    let mutex = acquire(backend, &client.mutex(LONG)).await;
    assert_eq!(mutex, Attempt::WrongKind, "a cancel does not free the others' name");
}

pub(super) async fn a_cancel_takes_one_permit_back(backend: &dyn Backend) {
    let client = Client::new();
    let permit = client.permit(2, LONG);
    granted(backend, &permit).await;
    granted(backend, &client.permit(2, LONG)).await;
    assert!(backend.store().cancel(&permit).await.unwrap());
    assert!(!backend.store().cancel(&permit).await.unwrap());
    granted(backend, &client.permit(2, LONG)).await;
    busy(backend, &client.permit(2, LONG)).await;
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
