//! Renewal and loss.

use std::time::Duration;

use leasehold::{Fault, LockError, Locks, LossReason, Released, Step};
use tokio::time::{Instant, sleep, timeout};

const TTL: Duration = Duration::from_secs(9);

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_every_third_of_its_ttl() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    sleep(TTL * 10).await;
    assert!(lease.is_held());
    let renewals = faults.store().log().iter().filter(|name| **name == "renew").count();
    assert!((28..=30).contains(&renewals), "{renewals}");
    lease.release().await.unwrap();
    faults.store().log();
    sleep(TTL * 10).await;
    assert!(faults.store().log().is_empty(), "what is released is not renewed");
}

#[tokio::test(start_paused = true)]
async fn one_failed_renewal_is_not_a_loss() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    faults.always(Fault::LoseCommand);
    sleep(TTL / 2).await;
    assert!(lease.is_held());
    faults.heal();
    sleep(TTL * 3).await;
    assert!(lease.is_held(), "it was renewed again");
    lease.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_a_store_the_lease_is_lost_at_its_deadline() {
    for fault in [Fault::LoseCommand, Fault::Hang] {
        let (locks, faults) = Locks::in_memory_with_faults();
        let begun = Instant::now();
        let lease = locks.mutex("a").ttl(TTL).lock().await.unwrap();
        faults.always(fault);
        assert_eq!(lease.lost().await, LossReason::Expired);
        assert!(begun.elapsed() < TTL, "{:?}", begun.elapsed());
        assert!(begun.elapsed() > TTL * 9 / 10, "{:?}", begun.elapsed());
        assert!(!lease.is_held());
        assert_eq!(lease.remaining(), Duration::ZERO);
        assert!(matches!(lease.fence(), Err(LockError::Lost { .. })));
        let error = lease.release().await.unwrap_err();
        assert!(matches!(error, LockError::Lost { .. }), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn work_under_a_lost_lease_is_cancelled() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    faults.always(Fault::LoseCommand);
    let begun = Instant::now();
    let mut steps = 0;
    let ran = lease
        .run(async {
            loop {
                sleep(TTL / 100).await;
                steps += 1;
            }
        })
        .await;
    let lost: Result<(), _> = ran;
    assert!(matches!(lost, Err(LockError::Lost { reason: LossReason::Expired, .. })));
    assert!(begun.elapsed() < TTL);
    assert!((90..=99).contains(&steps), "{steps}");
}

/// The process stands still past the deadline. The timer and the work are both ready when it goes
/// on, and the work must not run.
#[tokio::test(start_paused = true)]
async fn work_suspended_past_the_deadline_does_not_continue() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    faults.always(Fault::LoseCommand);
    let mut went_on = false;
    let ran = lease
        .run(async {
            tokio::time::advance(TTL * 2).await;
            tokio::task::yield_now().await;
            went_on = true;
        })
        .await;
    assert!(ran.is_err());
    assert!(!went_on);
}

#[tokio::test(start_paused = true)]
async fn a_grant_with_a_late_answer_is_not_a_lease() {
    let (locks, faults) = Locks::in_memory_with_faults();
    faults.next(Fault::Delay(TTL * 2));
    let lease = locks.mutex("a").ttl(TTL).wait(TTL * 4).lock().await.unwrap();
    assert!(lease.remaining() > TTL / 2);
    assert!(lease.is_held());
    let asked = faults.store().log().iter().filter(|name| **name == "acquire").count();
    assert_eq!(asked, 2);
}

/// Nobody ran the job, so `hold_at_least` does not keep it from others.
#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_too_late_is_not_kept() {
    let (locks, faults) = Locks::in_memory_with_faults();
    faults.next(Fault::Delay(TTL.mul_f64(0.998)));
    let job = locks.mutex("a").ttl(TTL).hold_at_least(TTL * 100).wait(TTL);
    let lease = job.lock().await.unwrap();
    assert_eq!(lease.release().await.unwrap(), Released::Kept);
    assert!(locks.mutex("a").try_lock().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_keeping_release_survives_a_lost_reply() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("a").hold_at_least(TTL).lock().await.unwrap();
    faults.next(Fault::LoseReply);
    assert_eq!(lease.release().await.unwrap(), Released::Kept);
    assert!(locks.mutex("a").try_lock().await.is_err());
}

/// Two runtimes share a client in memory, and the first one ends.
#[test]
fn an_in_memory_lease_is_renewed_on_its_own_runtime() {
    let runtime = || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().start_paused(true).build().expect("a runtime")
    };
    let locks = Locks::in_memory();
    let (first, second) = (runtime(), runtime());
    let other = first.block_on(async { locks.mutex("a").lock().await.unwrap() });
    let lease = second.block_on(async { locks.mutex("b").ttl(TTL).lock().await.unwrap() });
    drop(first);
    second.block_on(async {
        sleep(TTL * 5).await;
        assert!(lease.is_held());
    });
    drop((other, lease));
    assert!(second.block_on(locks.mutex("a").try_lock()).is_ok(), "dropped outside of a runtime");
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_never_reported_lost() {
    let locks = Locks::in_memory();
    let lease = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    let handle = lease.handle();
    let told = tokio::spawn(async move { timeout(TTL * 3, handle.lost()).await });
    tokio::task::yield_now().await;
    lease.release().await.unwrap();
    assert!(told.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_late_renewal_does_not_revive_a_released_lease() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    faults.next(Fault::Delay(TTL / 6));
    sleep(TTL / 3 + Duration::from_millis(10)).await;
    assert_eq!(faults.store().log(), ["acquire", "renew"]);
    lease.release().await.unwrap();
    sleep(TTL * 3).await;
    assert_eq!(faults.store().log(), ["release"], "the renewal under way was the last");
}

/// A renewal found the lease gone, and the reason is not known yet. A release without an answer did
/// not end it.
#[tokio::test(start_paused = true)]
async fn a_vanished_lease_is_not_reported_released_after_a_lost_reply() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    // The holder finds out by itself, without a hint.
    faults.store().hold_hints();
    let _ = locks.force_release("a").await.unwrap();
    locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    faults.store().log();
    faults.pass(1);
    faults.next(Fault::Hang);
    faults.next(Fault::LoseCommand);
    sleep(TTL / 3 + Duration::from_millis(10)).await;
    assert_eq!(faults.store().log(), ["renew", "was_forced"]);
    assert!(!lease.is_held());
    let released = lease.release().await;
    assert!(
        matches!(released, Err(LockError::Lost { reason: LossReason::Forced, .. })),
        "{released:?}"
    );
    assert_eq!(faults.store().log(), ["release", "release", "was_forced"]);
}

/// The lease of work that is to succeed once had expired when it was completed. A late ask of it
/// would acquire the lock for nobody, so it is cancelled when it can no longer arrive.
#[tokio::test(start_paused = true)]
async fn a_completion_that_comes_too_late_cancels_what_may_arrive() {
    let (locks, faults) = Locks::in_memory_with_faults();
    for (is_lost, cancels) in [(false, 0), (true, 1)] {
        if is_lost {
            faults.on(Step::Acquire).next(Fault::LoseCommand);
        }
        let mutex = locks.mutex("a").once(Duration::from_secs(60)).auto_renew(false);
        let lease = mutex.lock().await.unwrap();
        faults.store().log();
        assert!(faults.expire("a"));
        let late = lease.complete().await;
        assert!(matches!(late, Err(LockError::Lost { .. })), "{late:?}");
        sleep(Duration::from_secs(20)).await;
        let sent = faults.store().log().into_iter().filter(|sent| *sent == "cancel").count();
        assert_eq!(sent, cancels);
    }
}
