//! Commands and replies that never arrive, and futures that are dropped while a command is in
//! flight.

use std::time::Duration;

use leasehold::{Fault, LockError, Locks, Outcome, Released, Step};
use leasehold_tests::logs::LogRecorder;
use leasehold_tests::polls::drop_after;
use tracing::Level;

/// Checks that nobody holds the lock, by a try after the background work has run.
async fn assert_free(locks: &Locks, key: &str) {
    tokio::time::sleep(Duration::from_secs(1)).await;
    let lease = locks.mutex(key).try_lock().await.unwrap();
    lease.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_never_leaks_a_hold() {
    for fault in [Fault::LoseReply, Fault::LoseCommand] {
        let (locks, faults) = Locks::in_memory_with_faults();
        faults.next(fault);
        let lease = locks.mutex("a").lock().await.unwrap();
        assert!(locks.mutex("a").try_lock().await.is_err());
        assert_eq!(lease.release().await.unwrap(), Released::Free);
        assert_free(&locks, "a").await;

        faults.next(fault);
        let permit = locks.semaphore("s", 1).acquire().await.unwrap();
        assert!(locks.semaphore("s", 1).try_acquire().await.is_err());
        permit.release().await.unwrap();
        locks.semaphore("s", 1).try_acquire().await.unwrap().release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_try_survives_a_connection_that_broke_while_idle() {
    let (locks, faults) = Locks::in_memory_with_faults();
    faults.next(Fault::LoseCommand);
    locks.mutex("a").try_lock().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failed_acquire_is_cancelled() {
    let (locks, faults) = Locks::in_memory_with_faults();
    faults.always(Fault::LoseReply);
    let error = locks.mutex("a").try_lock().await.unwrap_err();
    assert!(matches!(error, LockError::Store { outcome: Outcome::Unknown, .. }), "{error}");
    faults.heal();
    assert_free(&locks, "a").await;
    assert!(faults.store().log().contains(&"cancel"));
}

#[tokio::test(start_paused = true)]
async fn a_command_that_surely_did_not_run_is_not_cancelled() {
    let (locks, faults) = Locks::in_memory_with_faults();
    faults.next(Fault::Refuse);
    let error = locks.mutex("a").lock().await.unwrap_err();
    assert!(matches!(error, LockError::Store { outcome: Outcome::NotRun, .. }), "{error}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(faults.store().log(), ["acquire"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_of_a_release_is_no_error() {
    for fault in [Fault::LoseReply, Fault::LoseCommand, Fault::Unreachable] {
        let (locks, faults) = Locks::in_memory_with_faults();
        let lease = locks.mutex("a").lock().await.unwrap();
        faults.next(fault);
        assert_eq!(lease.release().await.unwrap(), Released::Free, "{fault:?}");
        assert_free(&locks, "a").await;
    }
}

/// Another has held the lock when the release is sent again. The store has no trace of the lease,
/// and it is still not reported lost.
#[tokio::test(start_paused = true)]
async fn an_unconfirmed_release_is_not_a_loss() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("a").lock().await.unwrap();
    faults.next(Fault::LoseReplyAfter(Duration::from_millis(300)));
    let (released, ()) = tokio::join!(lease.release(), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        locks.mutex("a").try_lock().await.unwrap().release().await.unwrap();
    });
    assert_eq!(released.unwrap(), Released::Free);
}

/// The work counted, and an operator lets it run again before the completion is repeated. Its caller can't
/// know that it counted, and nobody else is told of a loss.
#[tokio::test(start_paused = true)]
async fn an_unconfirmed_completion_is_told_to_its_caller_alone() {
    let (log, _guard) = LogRecorder::start(Level::WARN);
    let (locks, faults) = Locks::in_memory_with_faults();
    let work = locks.mutex("a").once(Duration::from_secs(3600));
    let lease = work.lock().await.unwrap();
    faults.next(Fault::LoseReplyAfter(Duration::from_millis(300)));
    let (completed, again) = tokio::join!(lease.complete(), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        locks.run_again("a", "ann", "").await.unwrap()
    });
    assert!(again.completed.is_some(), "it had counted");
    assert!(matches!(completed, Err(LockError::Lost { .. })), "{completed:?}");
    let log = log.take();
    assert!(!log.contains("a lease was lost"), "{log}");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_goes_on_in_the_background() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("a").lock().await.unwrap();
    faults.always(Fault::Unreachable);
    let error = lease.release().await.unwrap_err();
    assert!(matches!(error, LockError::Store { .. }), "{error}");
    tokio::time::sleep(Duration::from_secs(3)).await;
    faults.heal();
    assert_free(&locks, "a").await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_acquire_is_cancelled_behind_its_command() {
    let (locks, faults) = Locks::in_memory_with_faults();
    faults.next(Fault::Delay(Duration::from_millis(300)));
    let dropped = tokio::time::timeout(Duration::from_millis(100), locks.mutex("a").lock()).await;
    assert!(dropped.is_err());
    assert_eq!(faults.store().log(), ["acquire"], "the cancel waits for the acquire's answer");
    // The next try of the same client waits for the cancel.
    assert_eq!(locks.inspect("a").await.unwrap().held, 1, "it is held until then");
    let begun = tokio::time::Instant::now();
    locks.mutex("a").try_lock().await.unwrap().release().await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_millis(200));
    assert_free(&locks, "a").await;
}

/// Drops each public future after its k-th poll, for every k.
#[tokio::test(start_paused = true)]
async fn dropping_any_future_at_any_point_leaves_nothing_held() {
    let wait = Duration::from_millis(1);
    let plans = [
        vec![Fault::Delay(wait)],
        vec![Fault::LoseReply, Fault::Delay(wait)],
        vec![Fault::LoseReply, Fault::LoseCommand, Fault::Delay(wait), Fault::LoseReply],
    ];
    for plan in plans {
        for polls in 1.. {
            let (locks, faults) = Locks::in_memory_with_faults();
            for fault in &plan {
                faults.next(*fault);
            }
            let lease = drop_after(polls, locks.mutex("a").lock()).await;
            let is_done = lease.is_some();
            drop(lease);
            assert_free(&locks, "a").await;

            let lease = locks.mutex("a").lock().await.unwrap();
            for fault in &plan {
                faults.next(*fault);
            }
            let released = drop_after(polls, lease.release()).await;
            assert_free(&locks, "a").await;

            for fault in &plan {
                faults.next(*fault);
            }
            let permit = drop_after(polls, locks.semaphore("s", 1).acquire()).await;
            let is_acquired = permit.is_some();
            drop(permit);
            tokio::time::sleep(Duration::from_secs(1)).await;
            locks.semaphore("s", 1).try_acquire().await.unwrap().release().await.unwrap();
            if is_done && released.is_some() && is_acquired {
                assert!(polls > 1, "the plan never suspends");
                break;
            }
        }
    }
}

/// A release that waits for its next try delays no other.
#[tokio::test(start_paused = true)]
async fn releases_that_fail_do_not_hold_up_others() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let mut leases = Vec::new();
    for n in 0..500 {
        leases.push(locks.mutex(format!("failing:{n}")).lock().await.unwrap());
    }
    faults.on(Step::Release).always(Fault::Unreachable);
    drop(leases);
    tokio::time::sleep(Duration::from_secs(1)).await;
    // A cancel is not one of the failing releases.
    faults.on(Step::Acquire).next(Fault::Delay(Duration::from_millis(10)));
    assert!(drop_after(1, locks.mutex("other").lock()).await.is_none());
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(locks.mutex("other").try_lock().await.is_ok());
}

/// TCP resends a lost packet after twice the time, and then twice that.
#[tokio::test(start_paused = true)]
async fn the_second_cancel_waits_as_long_as_the_server_was_silent() {
    for (silence, second) in [(100, 600), (5_000, 10_000), (60_000, 30_000)] {
        let (locks, faults) = Locks::in_memory_with_faults();
        faults.next(Fault::LoseReplyAfter(Duration::from_millis(silence)));
        assert!(drop_after(1, locks.mutex("a").lock()).await.is_none());
        let cancels = |log: Vec<&str>| log.iter().filter(|sent| **sent == "cancel").count();
        tokio::time::sleep(Duration::from_millis(second - 50)).await;
        assert_eq!(cancels(faults.store().log()), 1, "after {silence} ms");
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(cancels(faults.store().log()), 1, "after {silence} ms");
    }
}

/// The lock may have been granted.
#[tokio::test(start_paused = true)]
async fn an_acquire_without_an_answer_is_cancelled_in_the_end() {
    let (locks, faults) = Locks::in_memory_with_faults();
    faults.next(Fault::Hang);
    let mutex = locks.mutex("a").ttl(Duration::from_secs(3600));
    assert!(drop_after(1, mutex.lock()).await.is_none());
    tokio::time::sleep(Duration::from_secs(16)).await;
    assert_free(&locks, "a").await;
}
