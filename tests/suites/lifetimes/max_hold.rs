//! `max_hold` ends a lease however often it is renewed.

use std::future::pending;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::{Fault, LockError, Locks, LossReason, Released};
use tokio::time::{Instant, sleep, timeout};

use super::{SECOND, TTL, another, are_free, one_of_each};

const MOST: Duration = Duration::from_secs(31);
const ALMOST: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn every_kind_of_lease_is_lost_at_max_hold_and_not_before() {
    for most in [SECOND / 10, TTL / 2, TTL, TTL + SECOND, MOST, MOST * 4] {
        let locks = Locks::in_memory();
        let begun = Instant::now();
        let leases = one_of_each(&locks, Some(most)).await;
        for reason in join_all(leases.iter().map(leasehold::Lease::lost)).await {
            assert_eq!(reason, LossReason::MaxHold);
        }
        let held = begun.elapsed();
        assert!(held <= most, "{held:?} of {most:?}");
        assert!(held + TTL / 100 + Duration::from_millis(5) >= most, "{held:?} of {most:?}");
    }
}

/// A stuck task keeps the guard, and does nothing with it.
#[tokio::test(start_paused = true)]
pub(crate) async fn others_are_granted_at_max_hold_while_the_guard_lives() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let begun = Instant::now();
    let leases = one_of_each(&locks, Some(MOST)).await;
    let other = another(faults.store());
    let waits = other.mutex("m").wait(MOST * 2);
    let waiter = tokio::spawn(async move { waits.lock().await.map(|_| begun.elapsed()) });
    sleep(ALMOST).await;
    assert_eq!(are_free(&other).await, [false; 5], "they were renewed");
    let had_after = waiter.await.unwrap().unwrap();
    assert!(had_after <= MOST + SECOND / 20, "{had_after:?}");
    assert!(had_after >= MOST, "{had_after:?}: work that was just told to stop may go on");
    assert_eq!(are_free(&other).await, [true; 5], "the store was told, so no TTL has to pass");
    for lease in leases {
        let released = lease.release().await;
        let is_told = matches!(released, Err(LockError::Lost { reason: LossReason::MaxHold, .. }));
        assert!(is_told, "{released:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn max_hold_bounds_a_handed_over_lease() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let held = another(faults.store()).mutex("m").lock().await.unwrap();
    let mutex = locks.mutex("m").ttl(TTL).max_hold(MOST).wait(TTL);
    let waiter = tokio::spawn(async move { mutex.lock().await });
    sleep(SECOND).await;
    held.release().await.unwrap();
    let lease = waiter.await.unwrap().unwrap();
    let begun = Instant::now();
    assert_eq!(lease.lost().await, LossReason::MaxHold);
    assert!(begun.elapsed() <= MOST && begun.elapsed() > ALMOST, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn max_hold_bounds_a_lease_set() {
    let locks = Locks::in_memory();
    let leases = locks.all(["a", "b"]).ttl(TTL).max_hold(MOST).lock().await.unwrap();
    let (_, reason) = timeout(MOST, leases.lost()).await.unwrap();
    assert_eq!(reason, LossReason::MaxHold);
}

#[tokio::test(start_paused = true)]
async fn max_hold_stops_stuck_work() {
    let locks = Locks::in_memory();
    let lease = locks.mutex("m").ttl(TTL).max_hold(MOST).lock().await.unwrap();
    let ran = timeout(MOST, lease.run(pending::<()>())).await.unwrap();
    assert!(matches!(ran, Err(LockError::Lost { reason: LossReason::MaxHold, .. })), "{ran:?}");
}

/// The stuck task must not touch the next holder's lease.
#[tokio::test(start_paused = true)]
async fn the_next_holder_is_not_touched_by_a_late_release() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let stuck = locks.mutex("m").ttl(TTL).max_hold(TTL).lock().await.unwrap();
    stuck.lost().await;
    let other = another(faults.store());
    let next = other.mutex("m").ttl(TTL).wait(SECOND).lock().await.unwrap();
    drop(stuck);
    sleep(TTL * 3).await;
    assert!(next.is_held());
    assert_eq!(next.release().await.unwrap(), Released::Free);
}

#[tokio::test(start_paused = true)]
async fn hold_at_least_is_kept_beyond_max_hold() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let mutex = locks.mutex("m").ttl(TTL).max_hold(TTL).hold_at_least(TTL * 2);
    let lease = mutex.lock().await.unwrap();
    lease.lost().await;
    let other = another(faults.store());
    sleep(TTL * 8 / 9).await;
    assert!(other.mutex("m").try_lock().await.is_err(), "it is kept");
    sleep(SECOND * 2).await;
    assert!(other.mutex("m").try_lock().await.is_ok());
}

/// The release at the end is sent until it is answered.
#[tokio::test(start_paused = true)]
async fn a_store_unreachable_at_the_end_is_told_later() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.semaphore("s", 1).ttl(TTL * 10).max_hold(TTL).acquire().await.unwrap();
    sleep(TTL / 2).await;
    faults.always(Fault::LoseCommand);
    assert_eq!(lease.lost().await, LossReason::MaxHold);
    sleep(SECOND).await;
    faults.heal();
    faults.store().log();
    // The longest pause between two tries.
    sleep(SECOND * 2).await;
    assert_eq!(faults.store().log(), ["release"]);
}

#[tokio::test(start_paused = true)]
async fn a_store_lost_earlier_is_the_reason_of_the_loss() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("m").ttl(TTL).max_hold(MOST).lock().await.unwrap();
    faults.always(Fault::LoseCommand);
    assert_eq!(lease.lost().await, LossReason::Expired);
}

#[tokio::test]
async fn invalid_arguments_are_refused() {
    let (locks, faults) = Locks::in_memory_with_faults();
    for most in [Duration::ZERO, SECOND / 11, Duration::MAX] {
        let refused = locks.mutex("m").max_hold(most).lock().await.unwrap_err();
        assert!(refused.to_string().starts_with("`max_hold`: "), "{refused}");
    }
    assert!(faults.store().log().is_empty(), "no command was sent");
    assert!(locks.mutex("m").max_hold(None).lock().await.is_ok());
}
