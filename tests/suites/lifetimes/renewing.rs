//! Manual renewals, and the state of a lease.

use futures_util::future::join_all;
use leasehold::{Fault, LeaseState, LockError, Locks, LossReason};
use tokio::time::{Instant, sleep};

use super::{SECOND, TTL, another, are_free, one_of_each};

#[tokio::test(start_paused = true)]
async fn without_auto_renew_a_lease_lasts_for_its_ttl() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let begun = Instant::now();
    let lease = locks.mutex("m").ttl(TTL).auto_renew(false).lock().await.unwrap();
    assert_eq!(lease.lost().await, LossReason::Expired);
    assert!(begun.elapsed() < TTL && begun.elapsed() > TTL * 9 / 10, "{:?}", begun.elapsed());
    assert_eq!(faults.store().log(), ["acquire"]);
}

/// An offer must be confirmed, even if nothing else is renewed.
#[tokio::test(start_paused = true)]
async fn a_handed_over_lease_lasts_for_its_ttl_without_renewals() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let held = another(faults.store()).mutex("m").lock().await.unwrap();
    let mutex = locks.mutex("m").ttl(TTL * 3).auto_renew(false).wait(TTL);
    let waiter = tokio::spawn(async move { mutex.lock().await });
    sleep(SECOND).await;
    held.release().await.unwrap();
    let lease = waiter.await.unwrap().unwrap();
    sleep(TTL * 2).await;
    assert!(lease.is_held());
    assert_eq!(lease.lost().await, LossReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_manual_renewal_starts_the_whole_ttl() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("m").ttl(TTL).auto_renew(false).lock().await.unwrap();
    for fault in [None, Some(Fault::LoseReply), Some(Fault::LoseCommand)] {
        sleep(TTL * 9 / 10).await;
        if let Some(fault) = fault {
            faults.next(fault);
        }
        lease.renew().await.unwrap();
        assert!(lease.remaining() > TTL * 9 / 10, "{:?}", lease.remaining());
    }
    let other = another(faults.store());
    sleep(TTL * 9 / 10).await;
    assert!(other.mutex("m").try_lock().await.is_err());
    lease.lost().await;
    let lost = lease.renew().await;
    assert!(matches!(lost, Err(LockError::Lost { reason: LossReason::Expired, .. })), "{lost:?}");
    sleep(SECOND).await;
    assert!(other.mutex("m").try_lock().await.is_ok(), "nothing brings it back");
}

#[tokio::test(start_paused = true)]
async fn manual_renewals_end_with_max_hold() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let begun = Instant::now();
    let mutex = locks.mutex("m").ttl(TTL).auto_renew(false).max_hold(TTL * 2);
    let lease = mutex.lock().await.unwrap();
    for _ in 0..3 {
        sleep(TTL / 2).await;
        lease.renew().await.unwrap();
    }
    assert_eq!(lease.lost().await, LossReason::MaxHold);
    assert!(begun.elapsed() <= TTL * 2, "{:?}", begun.elapsed());
    sleep(SECOND / 10).await;
    assert!(another(faults.store()).mutex("m").try_lock().await.is_ok(), "it was released");
}

/// The keeper watches the lease only from this renewal on, which reaches up to its end.
#[tokio::test(start_paused = true)]
async fn a_manually_renewed_lease_is_kept_beyond_max_hold() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let mutex = locks.mutex("m").ttl(TTL).auto_renew(false).max_hold(TTL + SECOND);
    let lease = mutex.hold_at_least(TTL * 2).lock().await.unwrap();
    sleep(TTL / 2).await;
    lease.renew().await.unwrap();
    assert_eq!(lease.lost().await, LossReason::MaxHold);
    sleep(TTL / 2).await;
    assert!(another(faults.store()).mutex("m").try_lock().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_leaves_the_lease_as_it_was() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("m").ttl(TTL).lock().await.unwrap();
    let left = lease.remaining();
    faults.always(Fault::LoseCommand);
    let failed = lease.renew().await;
    assert!(matches!(failed, Err(LockError::Store { .. })), "{failed:?}");
    assert_eq!((lease.is_held(), lease.remaining()), (true, left));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_reports_a_taken_lease() {
    let (locks, faults) = Locks::in_memory_with_faults();
    for lease in one_of_each(&locks, None).await {
        let other = another(faults.store());
        let _ = other.force_release(lease.key().clone()).await.unwrap();
        let lost = lease.renew().await;
        let is_told = matches!(lost, Err(LockError::Lost { reason: LossReason::Forced, .. }));
        assert!(is_told, "{lost:?}");
        assert_eq!(lease.state(), LeaseState::Lost(LossReason::Forced));
    }
    assert_eq!(are_free(&locks).await, [true; 5]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_suspect_from_a_failed_renewal_to_the_next() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let leases = one_of_each(&locks, None).await;
    let all_are = |state| leases.iter().all(|lease| lease.state() == state);
    assert!(all_are(LeaseState::Held));
    faults.always(Fault::LoseCommand);
    sleep(TTL / 2).await;
    assert!(all_are(LeaseState::Suspect));
    assert!(leases.iter().all(leasehold::Lease::is_held), "unknown is not lost");
    faults.heal();
    sleep(SECOND).await;
    assert!(all_are(LeaseState::Held));
    faults.always(Fault::LoseCommand);
    join_all(leases.iter().map(leasehold::Lease::lost)).await;
    assert!(all_are(LeaseState::Lost(LossReason::Expired)));
}

#[tokio::test]
async fn a_renewal_reports_a_released_lease() {
    let locks = Locks::in_memory();
    for lease in one_of_each(&locks, None).await {
        let handle = lease.handle();
        lease.release().await.unwrap();
        assert_eq!(handle.state(), LeaseState::Released);
    }
}

/// Once the loss is known, the work that asked for the renewal is not polled any more.
#[tokio::test(start_paused = true)]
async fn a_renewal_inside_the_work_reports_a_force() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("m").ttl(TTL).lock().await.unwrap();
    faults.store().hold_hints();
    let _ = another(faults.store()).force_release("m").await.unwrap();
    let begun = Instant::now();
    faults.always(Fault::Delay(SECOND / 2));
    let ended = lease.run(async { lease.renew().await }).await;
    assert!(matches!(ended, Err(LockError::Lost { reason: LossReason::Forced, .. })), "{ended:?}");
    assert_eq!(begun.elapsed(), SECOND, "a renewal, and the question how it was lost");
}
