//! The mutex, command by command.

use leasehold::LossReason::{Expired, Taken};
use leasehold::store::{Ask, Attempt, Ended, Kind, Renewal};
use leasehold_tests::backend::Backend;

use super::{Client, LONG, SHORT, acquire, busy, granted, has_ended, kept, renewed};

macro_rules! cases {
    ($case:path) => {
        $case! {
            core:
            a_held_lock_is_busy,
            an_expired_lease_is_free,
            an_acquire_sent_twice_has_the_first_answer,
            a_short_ttl_ends_no_long_lease,
            only_the_owner_releases,
            a_release_sent_twice_changes_nothing,
            a_released_request_is_not_granted_again,
            a_cancel_takes_a_grant_back,
            a_cancel_leaves_others_alone,
            a_renewal_prolongs,
            a_renewal_does_not_revive_an_ended_lease,
            a_renewal_by_another_changes_nothing,
            a_kept_lock_is_held_without_a_holder,
            a_kept_lock_becomes_free_on_time,
            two_kinds_do_not_share_a_name,
            a_released_name_may_change_its_kind,
            locks_do_not_touch_each_other,
        }
    };
}
pub(super) use cases;

pub(super) async fn a_held_lock_is_busy(backend: &dyn Backend) {
    let client = Client::new();
    granted(backend, &client.mutex(LONG)).await;
    let left = busy(backend, &client.mutex(LONG)).await;
    assert!(left <= LONG && left > LONG / 2, "{left:?}");
}

pub(super) async fn an_expired_lease_is_free(backend: &dyn Backend) {
    let client = Client::new();
    let first = client.mutex(SHORT);
    granted(backend, &first).await;
    backend.pass(SHORT).await;
    granted(backend, &client.mutex(LONG)).await;
    let ended = super::released(backend, &first).await;
    assert_eq!(ended, Ended::NotHeld(Taken));
}

/// A report of another election: who asked with a short lease took the lock from one with a long one.
pub(super) async fn a_short_ttl_ends_no_long_lease(backend: &dyn Backend) {
    let client = Client::new();
    let long = client.mutex(LONG);
    granted(backend, &long).await;
    for _ in 0..2 {
        busy(backend, &client.mutex(SHORT)).await;
        backend.pass(SHORT).await;
    }
    busy(backend, &client.mutex(SHORT)).await;
    assert_eq!(renewed(backend, &long).await, Renewal::Renewed);
}

/// Its TTL starts anew.
pub(super) async fn an_acquire_sent_twice_has_the_first_answer(backend: &dyn Backend) {
    let mut request = Client::new().mutex(LONG);
    let token = granted(backend, &request).await;
    request.ttl = LONG * 2;
    assert!(backend.is_repeated(token, granted(backend, &request).await));
    assert!(busy(backend, &Client::new().mutex(LONG)).await > LONG);
    let ended = super::released(backend, &request).await;
    assert_eq!(ended, Ended::Released);
    granted(backend, &Client::new().mutex(LONG)).await;
}

pub(super) async fn only_the_owner_releases(backend: &dyn Backend) {
    let client = Client::new();
    let (first, second) = (client.mutex(LONG), client.mutex(LONG));
    granted(backend, &first).await;
    let ended = super::released(backend, &second).await;
    assert_eq!(ended, Ended::NotHeld(Taken));
    busy(backend, &second).await;
    let ended = super::released(backend, &first).await;
    assert_eq!(ended, Ended::Released);
    // Another one: a quorum takes back an ask that was answered late, and that ends its request.
    granted(backend, &client.mutex(LONG)).await;
}

pub(super) async fn a_release_sent_twice_changes_nothing(backend: &dyn Backend) {
    let client = Client::new();
    let first = client.mutex(LONG);
    granted(backend, &first).await;
    for _ in 0..2 {
        let ended = super::released(backend, &first).await;
        assert_eq!(ended, Ended::Released);
    }
    let second = client.mutex(LONG);
    granted(backend, &second).await;
    let ended = super::released(backend, &first).await;
    assert_eq!(ended, Ended::Released, "it ended last, and nobody has ended since");
    busy(backend, &client.mutex(LONG)).await;
    let never = client.mutex(LONG);
    let ended = super::released(backend, &never).await;
    assert_eq!(ended, Ended::NotHeld(Taken));
}

/// Also while others hold the lock.
pub(super) async fn a_released_request_is_not_granted_again(backend: &dyn Backend) {
    let request = Client::new().mutex(LONG);
    granted(backend, &request).await;
    let _ = super::released(backend, &request).await;
    has_ended(backend, &request).await;
    granted(backend, &Client::new().mutex(LONG)).await;
    has_ended(backend, &request).await;
}

pub(super) async fn a_cancel_takes_a_grant_back(backend: &dyn Backend) {
    let client = Client::new();
    let request = client.mutex(LONG);
    let token = granted(backend, &request).await;
    assert!(backend.store().cancel(&request).await.unwrap());
    assert!(!backend.store().cancel(&request).await.unwrap(), "it is taken back once");
    has_ended(backend, &request).await;
    assert!(granted(backend, &client.mutex(LONG)).await > token);
}

/// A cancel may come before its acquire, also while others hold the lock.
pub(super) async fn a_cancel_leaves_others_alone(backend: &dyn Backend) {
    let client = Client::new();
    let [early, holder, late] = [(); 3].map(|()| client.mutex(LONG));
    assert!(!backend.store().cancel(&early).await.unwrap());
    has_ended(backend, &early).await;
    granted(backend, &holder).await;
    assert!(!backend.store().cancel(&late).await.unwrap());
    has_ended(backend, &late).await;
    busy(backend, &client.mutex(LONG)).await;
    let ended = super::released(backend, &holder).await;
    assert_eq!(ended, Ended::Released);
}

pub(super) async fn a_renewal_prolongs(backend: &dyn Backend) {
    let client = Client::new();
    let mut request = client.mutex(LONG);
    granted(backend, &request).await;
    request.ttl = LONG * 2;
    assert_eq!(renewed(backend, &request).await, Renewal::Renewed);
    assert!(busy(backend, &client.mutex(LONG)).await > LONG);
}

pub(super) async fn a_renewal_does_not_revive_an_ended_lease(backend: &dyn Backend) {
    let client = Client::new();
    let expired = client.mutex(SHORT);
    granted(backend, &expired).await;
    backend.pass(SHORT).await;
    assert_eq!(renewed(backend, &expired).await, Renewal::NotHeld(Expired));
    let ended = super::released(backend, &expired).await;
    assert_eq!(ended, Ended::NotHeld(Expired));
    let released = client.mutex(LONG);
    granted(backend, &released).await;
    let _ = super::released(backend, &released).await;
    assert_eq!(renewed(backend, &released).await, Renewal::NotHeld(Taken));
    granted(backend, &client.mutex(LONG)).await;
}

pub(super) async fn a_renewal_by_another_changes_nothing(backend: &dyn Backend) {
    let client = Client::new();
    granted(backend, &client.mutex(LONG)).await;
    let other = client.mutex(LONG * 2);
    assert_eq!(renewed(backend, &other).await, Renewal::NotHeld(Taken));
    assert!(busy(backend, &client.mutex(LONG)).await <= LONG);
}

pub(super) async fn a_kept_lock_is_held_without_a_holder(backend: &dyn Backend) {
    let client = Client::new();
    let request = client.mutex(LONG);
    granted(backend, &request).await;
    assert_eq!(backend.store().release(&request, LONG).await.unwrap(), Ended::Kept);
    let left = kept(backend, &client.mutex(LONG)).await;
    assert!(left > LONG / 2, "{left:?}");
    has_ended(backend, &request).await;
    assert_eq!(renewed(backend, &request).await, Renewal::NotHeld(Taken));
    let repeated = backend.store().release(&request, SHORT).await.unwrap();
    assert_eq!(repeated, Ended::Kept);
    kept(backend, &client.mutex(LONG)).await;
}

pub(super) async fn a_kept_lock_becomes_free_on_time(backend: &dyn Backend) {
    let client = Client::new();
    let request = client.mutex(LONG);
    granted(backend, &request).await;
    let _ = backend.store().release(&request, SHORT).await.unwrap();
    kept(backend, &client.mutex(LONG)).await;
    backend.pass(SHORT).await;
    granted(backend, &client.mutex(LONG)).await;
}

pub(super) async fn two_kinds_do_not_share_a_name(backend: &dyn Backend) {
    let client = Client::new();
    let reader = client.request(Kind::Read, LONG);
    granted(backend, &reader).await;
    assert_eq!(acquire(backend, &client.mutex(LONG)).await, Attempt::WrongKind);
    let _ = super::released(backend, &reader).await;

    let mutex = client.mutex(LONG);
    granted(backend, &mutex).await;
    assert_eq!(acquire(backend, &client.request(Kind::Read, LONG)).await, Attempt::WrongKind);
    let _ = backend.store().release(&mutex, LONG).await.unwrap();
    assert_eq!(
        acquire(backend, &client.request(Kind::Read, LONG)).await,
        Attempt::WrongKind,
        "it is kept"
    );
}

pub(super) async fn a_released_name_may_change_its_kind(backend: &dyn Backend) {
    let client = Client::new();
    let mut last = 0;
    for _ in 0..2 {
        let mutex = client.mutex(LONG);
        let token = granted(backend, &mutex).await;
        assert!(token > last);
        last = token;
        let _ = super::released(backend, &mutex).await;
        let reader = client.request(Kind::Read, LONG);
        granted(backend, &reader).await;
        has_ended(backend, &mutex).await;
        let _ = super::released(backend, &reader).await;
        has_ended(backend, &reader).await;
    }
}

pub(super) async fn locks_do_not_touch_each_other(backend: &dyn Backend) {
    let client = Client::new();
    for name in ["a", "b", "{a}", "a}", "%7Ba%7D", "x{a}", "x{a}y", "lock:{a}"] {
        let mut request = client.mutex(LONG);
        request.key = leasehold::LockKey::new(name).unwrap();
        granted(backend, &request).await;
    }
}
