//! A request for another kind of lock, while the name has a queue.

use leasehold::LossReason::Taken;
use leasehold::store::{Ask, Attempt, Ended, Kind, Renewal};
use leasehold_tests::backend::Backend;

use super::{
    Client, FIRST, LIVE, LONG, PERMIT, SHORT, acquire, ask, cancelled, claims, granted,
    granted_in_the_end, granted_when_asking, held_with_queue, released, renewed, waits,
};

macro_rules! cases {
    ($case:path) => {
        $case! {
            queue_kinds:
            another_kind_does_not_join,
            another_kind_waits_for_a_queue_to_end,
            another_kind_takes_a_lock_with_only_dead_waiters,
            another_kind_does_not_take_a_free_lock_with_waiters,
            a_release_frees_though_another_kind_waits,
        }
    };
}
pub(super) use cases;

/// A lock of another kind can neither be tried nor waited for under this name.
async fn another_kind_is_refused(backend: &dyn Backend, client: &Client, kind: Kind) {
    let (other, refused) = (client.request(kind, LONG), client.request(kind, LONG));
    assert_eq!(acquire(backend, &other).await, Attempt::WrongKind);
    assert_eq!(ask(backend, &refused, LIVE, FIRST).await, Attempt::WrongKind);
    assert!(!cancelled(backend, &other).await);
}

/// The name is free for this kind.
async fn takes_and_releases(backend: &dyn Backend, client: &Client, kind: Kind) {
    let request = client.request(kind, LONG);
    granted(backend, &request).await;
    let _ = released(backend, &request).await;
}

pub(super) async fn another_kind_does_not_join(backend: &dyn Backend) {
    for [mine, others] in [[Kind::Mutex, PERMIT], [PERMIT, Kind::Mutex]] {
        let (client, holder, [waiter]) = held_with_queue(backend, mine).await;
        another_kind_is_refused(backend, &client, others).await;
        let _ = released(backend, &holder).await;
        claims(backend, &waiter).await;
        let _ = released(backend, &waiter).await;
        takes_and_releases(backend, &client, others).await;
    }
}

pub(super) async fn another_kind_waits_for_a_queue_to_end(backend: &dyn Backend) {
    for [mine, others] in [[Kind::Mutex, PERMIT], [PERMIT, Kind::Mutex]] {
        let client = Client::new();
        let waiter = client.request(mine, LONG);
        granted(backend, &client.request(mine, SHORT)).await;
        let position = waits(backend, &waiter, LIVE).await;
        backend.pass(SHORT).await;
        another_kind_is_refused(backend, &client, others).await;
        granted_when_asking(backend, &waiter, position).await;
        let _ = released(backend, &waiter).await;
        takes_and_releases(backend, &client, others).await;
    }
}

pub(super) async fn another_kind_takes_a_lock_with_only_dead_waiters(backend: &dyn Backend) {
    let client = Client::new();
    for [mine, others] in [[Kind::Mutex, PERMIT], [PERMIT, Kind::Mutex]] {
        let holder = client.request(mine, LONG);
        granted(backend, &holder).await;
        for _ in 0..100 {
            waits(backend, &client.request(mine, LONG), SHORT).await;
        }
        backend.pass(SHORT).await;
        // One command passes over some of the dead waiters, but not over all.
        let _ = released(backend, &holder).await;
        let other = client.request(others, LONG);
        granted_in_the_end(backend, &other).await;
        let _ = released(backend, &other).await;
    }
}

pub(super) async fn another_kind_does_not_take_a_free_lock_with_waiters(backend: &dyn Backend) {
    let client = Client::new();
    for [mine, others] in [[Kind::Mutex, PERMIT], [PERMIT, Kind::Mutex]] {
        granted(backend, &client.request(mine, LONG)).await;
        let waiter = client.request(mine, LONG);
        waits(backend, &waiter, LIVE).await;
        // Only force leaves a lock free though somebody waits.
        let _ = backend
            .store()
            .force_release(&waiter.key, leasehold_tests::requests::force())
            .await
            .unwrap();
        let other = client.request(others, LONG);
        assert_eq!(acquire(backend, &other).await, Attempt::WrongKind);
        assert_eq!(ask(backend, &other, LIVE, FIRST).await, Attempt::WrongKind);
        granted_in_the_end(backend, &waiter).await;
        let _ = released(backend, &waiter).await;
    }
}

pub(super) async fn a_release_frees_though_another_kind_waits(backend: &dyn Backend) {
    let client = Client::new();
    let late = client.mutex(LONG);
    granted(backend, &client.mutex(SHORT)).await;
    let position = waits(backend, &late, SHORT).await;
    backend.pass(SHORT).await;
    granted(backend, &client.permit(1, SHORT)).await;
    waits(backend, &client.permit(1, LONG), LIVE).await;
    backend.pass(SHORT).await;
    granted_when_asking(backend, &late, position).await;
    assert_eq!(released(backend, &late).await, Ended::Released);
    assert_eq!(renewed(backend, &late).await, Renewal::NotHeld(Taken));
    assert_eq!(ask(backend, &late, LIVE, FIRST).await, Attempt::Ended);
}
