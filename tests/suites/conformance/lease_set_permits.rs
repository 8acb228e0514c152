//! Sets with permits, as a user sees them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::{Forced, LeaseState, LockError, Locks, LossReason, MultiLock, Wait};
use leasehold_tests::backend::Backend;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{LONG, SHORT};

macro_rules! cases {
    ($case:path) => {
        $case! {
            lease_set_permits:
            all_are_held_and_all_are_released,
            permits_alone_are_a_set,
            a_try_names_the_full_semaphore_and_takes_none,
            a_try_does_not_overtake_a_waiter,
            a_set_waits_in_the_queue_of_each_lock,
            a_wait_that_times_out_gives_all_back,
            a_dropped_wait_gives_all_back,
            the_set_is_lost_when_a_permit_is,
            a_permit_lost_during_the_wait_starts_over,
            another_kind_is_reported,
            invalid_permits_are_refused,
            two_limits_are_never_exceeded,
        }
    };
}
pub(super) use cases;

/// In one slot of a cluster, and in the order of their names.
const ACME: &str = "of:{1}:acme";
const ORDER: &str = "of:{1}:order";
const TOTAL: &str = "of:{1}:total";

/// The first renewal comes after a second. A busy machine may be late by another.
const TTL: Duration = Duration::from_secs(3);

fn set(locks: &Locks) -> MultiLock {
    locks.all([ORDER]).permit(TOTAL, 3).permit(ACME, 2)
}

/// Checks how many permits are left, and that the mutex is free.
async fn are_free(locks: &Locks, acme: u32, total: u32) {
    locks.mutex(ORDER).try_lock().await.unwrap().release().await.unwrap();
    for (name, limit, left) in [(ACME, 2, acme), (TOTAL, 3, total)] {
        let semaphore = locks.semaphore(name, limit);
        if left < limit {
            let more = semaphore.try_acquire_many(left + 1).await;
            assert!(matches!(more, Err(LockError::Busy { .. })), "{name}: {more:?}");
        }
        if left > 0 {
            semaphore.try_acquire_many(left).await.unwrap().release().await.unwrap();
        }
    }
}

/// Waits until all are released in the background.
async fn become_free(locks: &Locks) {
    let whole = locks.all([ORDER]).weighted_permit(ACME, 2, 2).weighted_permit(TOTAL, 3, 3);
    whole.lock().await.unwrap().release().await.unwrap();
}

pub(super) async fn all_are_held_and_all_are_released(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let leases = set(&first).lock().await.unwrap();
    assert!(leases.is_held() && leases.remaining() > LONG / 2 && leases.len() == 3);
    assert_eq!(leases.state(), LeaseState::Held);
    assert!(leases.iter().map(|lease| lease.key().name()).eq([ACME, ORDER, TOTAL]), "{leases:?}");
    assert!(leases.fence(ORDER).is_ok());
    for name in [ACME, TOTAL] {
        let fence = leases.fence(name);
        assert!(matches!(fence, Err(LockError::NotFenced { .. })), "{fence:?}");
    }
    let fence = leases.fence("other");
    assert!(matches!(fence, Err(LockError::InvalidOption { option: "key", .. })), "{fence:?}");
    assert_eq!(leases.run(async { 7 }).await.unwrap(), 7);
    leases.renew().await.unwrap();
    assert!(second.mutex(ORDER).try_lock().await.is_err());
    let more = second.together().permit(ACME, 2).permit(TOTAL, 3);
    let others = more.lock().await.unwrap();
    assert!(more.try_lock().await.unwrap_err().is_held_by_another());
    leases.release().await.unwrap();
    are_free(&second, 1, 2).await;
    others.release().await.unwrap();
    are_free(&first, 2, 3).await;
    drop(set(&first).try_lock().await.unwrap());
    become_free(&second).await;
}

pub(super) async fn permits_alone_are_a_set(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let alone = locks.together().weighted_permit(TOTAL, 3, 2);
    let leases = alone.lock().await.unwrap();
    assert_eq!(leases.len(), 1);
    are_free(&locks, 2, 1).await;
    let refused = alone.try_lock().await;
    assert!(matches!(refused, Err(LockError::Busy { .. })), "{refused:?}");
    leases.release().await.unwrap();
    are_free(&locks, 2, 3).await;
}

pub(super) async fn a_try_names_the_full_semaphore_and_takes_none(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    for (full, limit, left) in [(ACME, 2, [0, 3]), (TOTAL, 3, [2, 0])] {
        let held = first.semaphore(full, limit).acquire_many(limit).await.unwrap();
        match set(&second).try_lock().await {
            Err(LockError::Busy { key, retry_after, .. }) => {
                assert_eq!(key.name(), full);
                assert!(retry_after > LONG / 2, "{retry_after:?}");
            }
            other => panic!("{other:?}"),
        }
        are_free(&first, left[0], left[1]).await;
        held.release().await.unwrap();
    }
    let held = first.mutex(ORDER).lock().await.unwrap();
    match set(&second).try_lock().await {
        Err(LockError::Busy { key, .. }) => assert_eq!(key.name(), ORDER),
        other => panic!("{other:?}"),
    }
    held.release().await.unwrap();
    are_free(&first, 2, 3).await;
}

/// The waiter is too heavy for what is left. The set is not.
pub(super) async fn a_try_does_not_overtake_a_waiter(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let held = first.semaphore(TOTAL, 3).acquire().await.unwrap();
    let heavy = second.semaphore(TOTAL, 3).wait(Wait::Forever);
    let waits = tokio::spawn(async move { heavy.acquire_many(3).await.unwrap() });
    backend.until_queued(TOTAL, 1).await;
    match set(&first).try_lock().await {
        Err(LockError::Busy { key, .. }) => assert_eq!(key.name(), TOTAL),
        other => panic!("{other:?}"),
    }
    held.release().await.unwrap();
    waits.await.unwrap().release().await.unwrap();
    set(&first).try_lock().await.unwrap().release().await.unwrap();
}

pub(super) async fn a_set_waits_in_the_queue_of_each_lock(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let acme = first.semaphore(ACME, 2).acquire_many(2).await.unwrap();
    let total = first.semaphore(TOTAL, 3).acquire_many(3).await.unwrap();
    let all = set(&second).wait(Wait::Forever);
    let waits = tokio::spawn(async move { all.lock().await.unwrap() });
    backend.until_queued(ACME, 1).await;
    acme.release().await.unwrap();
    backend.until_queued(TOTAL, 1).await;
    assert!(first.mutex(ORDER).try_lock().await.is_err(), "its name comes before");
    total.release().await.unwrap();
    let leases = waits.await.unwrap();
    assert!(leases.is_held() && leases.len() == 3);
    leases.release().await.unwrap();
    are_free(&first, 2, 3).await;
}

pub(super) async fn a_wait_that_times_out_gives_all_back(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let held = first.semaphore(TOTAL, 3).acquire_many(3).await.unwrap();
    match set(&second).wait(SHORT).lock().await {
        Err(LockError::TimedOut { key, waited, .. }) => {
            assert_eq!(key.name(), TOTAL);
            assert!(waited >= SHORT, "{waited:?}");
        }
        other => panic!("{other:?}"),
    }
    are_free(&first, 2, 0).await;
    held.release().await.unwrap();
    become_free(&first).await;
}

pub(super) async fn a_dropped_wait_gives_all_back(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let held = first.semaphore(TOTAL, 3).acquire_many(3).await.unwrap();
    let all = set(&second).wait(Wait::Forever);
    let waits = tokio::spawn(async move { all.lock().await });
    backend.until_queued(TOTAL, 1).await;
    waits.abort();
    backend.until_queued(TOTAL, 0).await;
    held.release().await.unwrap();
    become_free(&first).await;
}

pub(super) async fn the_set_is_lost_when_a_permit_is(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let leases = set(&first).ttl(TTL).lock().await.unwrap();
    let work = async {
        let forced = second.force_release(ACME).await.unwrap();
        assert!(matches!(forced, Forced::Released { .. }), "{forced:?}");
        sleep(LONG).await;
    };
    match leases.run(work).await {
        Err(LockError::Lost { key, reason: LossReason::Forced, .. }) => {
            assert_eq!(key.name(), ACME);
        }
        other => panic!("{other:?}"),
    }
    assert!(!leases.is_held() && leases.remaining().is_zero());
    assert_eq!(leases.lost().await.0.name(), ACME);
    assert!(matches!(leases.state(), LeaseState::Lost(_)));
    let fence = leases.fence(ORDER);
    assert!(matches!(fence, Err(LockError::Lost { .. })), "{fence:?}");
    assert_eq!(leases.iter().filter(|lease| lease.is_held()).count(), 2, "the others");
    assert!(matches!(leases.release().await, Err(LockError::Lost { .. })));
    are_free(&second, 2, 3).await;
}

pub(super) async fn a_permit_lost_during_the_wait_starts_over(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let held = first.semaphore(TOTAL, 3).acquire_many(3).await.unwrap();
    let all = set(&second).ttl(TTL).wait(Wait::Forever);
    let waits = tokio::spawn(async move { all.lock().await.unwrap() });
    backend.until_queued(TOTAL, 1).await;
    // It is in the queue before the set, which wants its permit back at once.
    let acme = first.semaphore(ACME, 2).wait(LONG);
    let taken = tokio::spawn(async move { acme.acquire_many(2).await.unwrap() });
    backend.until_queued(ACME, 1).await;
    let forced = first.force_release(ACME).await.unwrap();
    assert!(matches!(forced, Forced::Released { .. }), "{forced:?}");
    let taken = taken.await.unwrap();
    // The set learns of the loss, releases the mutex, and waits for the first permit again.
    backend.until_queued(ACME, 1).await;
    let order = first.mutex(ORDER).wait(LONG);
    order.lock().await.unwrap().release().await.unwrap();
    held.release().await.unwrap();
    let total = first.semaphore(TOTAL, 3).acquire_many(3).await.unwrap();
    total.release().await.unwrap();
    assert!(!waits.is_finished());
    taken.release().await.unwrap();
    let leases = waits.await.unwrap();
    assert!(leases.is_held() && leases.len() == 3);
    leases.release().await.unwrap();
    are_free(&first, 2, 3).await;
}

pub(super) async fn another_kind_is_reported(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let held = locks.mutex(TOTAL).lock().await.unwrap();
    for refused in [set(&locks).try_lock().await, set(&locks).lock().await] {
        match refused {
            Err(LockError::WrongKind { key, .. }) => assert_eq!(key.name(), TOTAL),
            other => panic!("{other:?}"),
        }
    }
    held.release().await.unwrap();
    become_free(&locks).await;
}

pub(super) async fn invalid_permits_are_refused(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let most = (0..65).fold(locks.together(), |all, n| all.permit(format!("n:{n}"), 1));
    for (all, wanted, text) in [
        (locks.together(), "keys", "0 keys"),
        (most, "keys", "65 keys"),
        (locks.all([ORDER]).permit(ORDER, 2), "keys", "for two kinds of lock"),
        (locks.all([ORDER]).permit(ACME, 2).permit(ACME, 2), "keys", "for two permits"),
        (locks.all([ORDER]).permit(ACME, 0), "permits", "a limit of 0"),
        (locks.all([ORDER]).weighted_permit(ACME, 2, 0), "weight", "0 is not between 1"),
        (locks.all([ORDER]).weighted_permit(ACME, 2, 3), "weight", "the semaphore's limit of 2"),
    ] {
        for refused in [all.try_lock().await, all.lock().await] {
            match refused {
                Err(LockError::InvalidOption { option, problem, .. }) => {
                    assert_eq!(option, wanted);
                    assert!(problem.contains(text), "{problem}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
    let invalid = locks.all([ORDER]).permit("", 2).lock().await;
    assert!(matches!(invalid, Err(LockError::InvalidKey { .. })), "{invalid:?}");
    are_free(&locks, 2, 3).await;
}

/// How many are inside now, and the most that were.
#[derive(Default)]
struct Inside {
    now: AtomicU32,
    most: AtomicU32,
}

impl Inside {
    fn enter(&self, weight: u32, limit: u32) {
        let inside = self.now.fetch_add(weight, Ordering::SeqCst) + weight;
        assert!(inside <= limit, "{inside} beside each other, of {limit}");
        self.most.fetch_max(inside, Ordering::SeqCst);
    }

    fn leave(&self, weight: u32) {
        self.now.fetch_sub(weight, Ordering::SeqCst);
    }
}

const TENANTS: usize = 3;
const OF_TENANT: u32 = 2;
const OF_ALL: u32 = 4;

/// Tasks of four clients wait, try and give up, with permits of both weights, and each tenant alone
/// could take more than half of the total.
pub(super) async fn two_limits_are_never_exceeded(backend: &dyn Backend) {
    let total = Arc::new(Inside::default());
    let tenants =
        Arc::new([const { Inside { now: AtomicU32::new(0), most: AtomicU32::new(0) } }; TENANTS]);
    let mut tasks = JoinSet::new();
    let locks = backend.locks().await;
    for n in 0..12 {
        let mine = if n % 3 == 0 { backend.locks().await } else { locks.clone() };
        let (total, tenants) = (total.clone(), tenants.clone());
        tasks.spawn(async move {
            let mut served = 0;
            for round in 0..12 {
                let tenant = (n + round / 4) % TENANTS;
                let weight = if (n + round) % 5 == 0 { 2 } else { 1 };
                let all = mine
                    .all([format!("of:{{1}}:order:{}", n % 6)])
                    .permit(format!("of:{{1}}:tenant:{tenant}"), OF_TENANT)
                    .weighted_permit("of:{1}:total", OF_ALL, weight)
                    .wait(Wait::Forever);
                let got = match round % 4 {
                    0 => timeout(Duration::from_millis(5), all.lock()).await.ok(),
                    1 => Some(all.try_lock().await)
                        .filter(|tried| !tried.as_ref().is_err_and(LockError::is_held_by_another)),
                    _ => Some(all.lock().await),
                };
                let Some(leases) = got.transpose().expect("it is served") else { continue };
                total.enter(weight, OF_ALL);
                tenants[tenant].enter(1, OF_TENANT);
                sleep(Duration::from_millis(2)).await;
                assert!(leases.is_held());
                tenants[tenant].leave(1);
                total.leave(weight);
                leases.release().await.unwrap();
                served += 1;
            }
            served
        });
    }
    let served: u32 = tasks.join_all().await.into_iter().sum();
    assert!(served >= 72, "{served}: those that wait are served");
    let most = |inside: &Inside| inside.most.load(Ordering::SeqCst);
    // Each takes 2 at most. On a machine under load, the limits themselves may not be reached.
    assert!(most(&total) > 2, "several run at a time, or it shows nothing");
    let whole = (0..TENANTS).fold(locks.together(), |all, tenant| {
        all.weighted_permit(format!("of:{{1}}:tenant:{tenant}"), OF_TENANT, OF_TENANT)
    });
    let whole = whole.weighted_permit("of:{1}:total", OF_ALL, OF_ALL);
    whole.lock().await.unwrap().release().await.unwrap();
}
