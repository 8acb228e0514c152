//! The end of a client: `shutdown`.

use std::future::pending;
use std::time::Duration;

use leasehold::{Fault, LockError, Locks, LossReason, Wait};
use leasehold_tests::polls::is_pending;
use tokio::time::{Instant, sleep, timeout};

use super::{SECOND, TTL, another, are_free, one_of_each};

/// The time that a holder goes on.
const GRACE: Duration = Duration::from_secs(5);
const ALMOST: Duration = Duration::from_secs(4);
/// The time for the releases after that.
const DRAIN: Duration = Duration::from_secs(2);

#[tokio::test(start_paused = true)]
async fn nothing_is_acquired_after_a_shutdown() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let ticket = locks.mutex("ticket").lock().await.unwrap().detach().await.unwrap();
    let begun = Instant::now();
    let report = locks.clone().shutdown().await;
    assert_eq!((report.released, report.left), (0, 0));
    assert_eq!(begun.elapsed(), Duration::ZERO, "there is nothing to wait for");
    faults.store().log();
    let refused = [
        locks.mutex("m").lock().await,
        locks.mutex("m").try_lock().await,
        locks.semaphore("s", 1).acquire().await,
        locks.rw_lock("r").read().await,
        locks.reentrant_mutex("e").owner("o").lock().await,
        locks.adopt(ticket).await,
    ];
    for refused in refused {
        assert!(matches!(refused, Err(LockError::ShutDown)), "{refused:?}");
    }
    for keys in [&["a", "b"][..], &["a"]] {
        let refused = locks.all(keys.iter().copied()).lock().await;
        assert!(matches!(refused, Err(LockError::ShutDown)), "{refused:?}");
    }
    assert!(faults.store().log().is_empty(), "{:?}", faults.store().log());
}

#[tokio::test(start_paused = true)]
async fn waiters_are_refused_at_once_and_leave_nothing() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let other = another(faults.store());
    let held = other.mutex("m").ttl(TTL).lock().await.unwrap();
    // One asks the store, others wait behind it, and some wait for several locks.
    let mut waiters = Vec::new();
    for n in 0..6 {
        let locks = locks.clone();
        waiters.push(tokio::spawn(async move {
            match n {
                0..3 => locks.mutex("m").wait(TTL * 9).lock().await.map(drop),
                3 => locks.all(["k", "m"]).wait(TTL * 9).lock().await.map(drop),
                4 => locks.mutex("m").lead(|_| pending::<()>()).await,
                _ => locks.lead("m", |_| pending::<()>()).await,
            }
        }));
    }
    sleep(SECOND).await;
    let begun = Instant::now();
    let report = locks.shutdown().await;
    assert_eq!(report.left, 0, "{report:?}");
    for waiter in waiters {
        let refused = waiter.await.unwrap();
        assert!(matches!(refused, Err(LockError::ShutDown)), "{refused:?}");
    }
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
    assert_eq!(other.inspect("m").await.unwrap().waiting, 0);
    held.release().await.unwrap();
    assert!(other.mutex("m").try_lock().await.is_ok() && other.mutex("k").try_lock().await.is_ok());
}

/// The request before it is not polled, so it can hand nothing on.
#[tokio::test(start_paused = true)]
async fn a_request_behind_a_silent_one_is_refused_at_once() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let _held = another(faults.store()).mutex("m").ttl(TTL).lock().await.unwrap();
    let mutex = locks.mutex("m").wait(Wait::Forever);
    let mut silent = Box::pin(mutex.lock());
    assert!(is_pending(&mut silent).await);
    let waits = mutex.clone();
    let behind = tokio::spawn(async move { waits.lock().await });
    sleep(SECOND / 10).await;
    let _ = timeout(SECOND / 10, locks.shutdown()).await;
    let refused = timeout(SECOND, behind).await.expect("it is told").unwrap();
    assert!(matches!(refused, Err(LockError::ShutDown)), "{refused:?}");
}

/// It is refused however the store fails, and however long it would wait.
#[tokio::test(start_paused = true)]
async fn a_request_to_a_failing_store_is_refused() {
    for fault in [Fault::LoseCommand, Fault::LoseReply] {
        let (locks, faults) = Locks::in_memory_with_faults();
        faults.always(fault);
        let (one, all) = (locks.clone(), locks.clone());
        let one =
            tokio::spawn(async move { one.mutex("m").wait(Wait::Forever).lock().await.map(drop) });
        let all =
            tokio::spawn(
                async move { all.all(["a", "b"]).wait(Wait::Forever).lock().await.map(drop) },
            );
        sleep(SECOND).await;
        faults.store().log();
        let ended = tokio::spawn(async move { locks.shutdown().await });
        for refused in [one.await.unwrap(), all.await.unwrap()] {
            assert!(matches!(refused, Err(LockError::ShutDown)), "{refused:?}");
        }
        let asked = faults.store().log().iter().filter(|sent| sent.starts_with("acquire")).count();
        assert!(asked <= 2, "{asked}");
        faults.heal();
        assert_eq!(ended.await.unwrap().left, 0, "what may be held was taken back");
    }
}

#[tokio::test(start_paused = true)]
async fn work_may_finish_within_the_grace() {
    let locks = Locks::in_memory();
    let mut work = Vec::new();
    for lease in one_of_each(&locks, None).await {
        work.push(tokio::spawn(async move {
            lease.run(sleep(ALMOST)).await.unwrap();
            lease.release().await.unwrap();
        }));
    }
    let begun = Instant::now();
    let report = locks.shutdown().await;
    assert_eq!((report.released, report.left), (5, 0));
    assert_eq!(begun.elapsed(), ALMOST, "it returns as soon as they are done");
    for work in work {
        work.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn unfinished_work_is_stopped_after_the_grace_and_then_released() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let mut work = Vec::new();
    for lease in one_of_each(&locks, None).await {
        work.push(tokio::spawn(async move { lease.run(pending::<()>()).await }));
    }
    let begun = Instant::now();
    let report = locks.shutdown().await;
    assert_eq!((report.released, report.left), (5, 0));
    assert_eq!(begun.elapsed(), GRACE);
    for work in work {
        let stopped = work.await.unwrap();
        let reason = LossReason::ShutDown;
        assert!(matches!(stopped, Err(LockError::Lost { reason: why, .. }) if why == reason));
    }
    assert_eq!(are_free(&another(faults.store())).await, [true; 5]);
}

/// A held lease stays held: nobody knows that its work has stopped.
#[tokio::test(start_paused = true)]
async fn leases_that_nobody_releases_are_left_to_their_ttl() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let leases = one_of_each(&locks, None).await;
    let begun = Instant::now();
    let report = locks.shutdown().await;
    assert_eq!((report.released, report.left), (0, 5));
    assert_eq!(begun.elapsed(), GRACE + DRAIN);
    assert!(leases.iter().all(|lease| !lease.is_held()));
    let other = another(faults.store());
    assert_eq!(are_free(&other).await, [false; 5]);
    sleep(TTL).await;
    assert_eq!(are_free(&other).await, [true; 5], "they are renewed no more");
}

#[tokio::test(start_paused = true)]
async fn releases_that_the_store_missed_are_reported_as_left() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let leases = one_of_each(&locks, None).await;
    faults.always(Fault::LoseCommand);
    drop(leases);
    let report = locks.shutdown().await;
    assert_eq!((report.released, report.left), (0, 5));
}

/// There is nothing to release: only the guards still exist.
#[tokio::test(start_paused = true)]
async fn lost_leases_are_neither_waited_for_nor_counted() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let expired = locks.mutex("a").ttl(TTL).auto_renew(false).lock().await.unwrap();
    let used_up = locks.mutex("b").ttl(TTL).max_hold(TTL).lock().await.unwrap();
    let forced = locks.mutex("c").ttl(TTL).lock().await.unwrap();
    let _ = another(faults.store()).force_release("c").await.unwrap();
    sleep(TTL).await;
    assert!([&expired, &used_up, &forced].iter().all(|lease| !lease.is_held()));
    let begun = Instant::now();
    let report = locks.shutdown().await;
    assert_eq!((report.released, report.left), (0, 0));
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_shutdown_waits_for_dropped_leases() {
    let (locks, faults) = Locks::in_memory_with_faults();
    faults.pass(1);
    faults.next(Fault::Delay(SECOND));
    drop(locks.mutex("m").lock().await.unwrap());
    let report = locks.shutdown().await;
    assert_eq!((report.released, report.left), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn releasing_a_lease_lost_by_the_shutdown_says_so() {
    let locks = Locks::in_memory();
    let lease = locks.mutex("m").lock().await.unwrap();
    let ending = tokio::spawn(async move { locks.shutdown().await });
    assert_eq!(lease.lost().await, LossReason::ShutDown);
    let released = lease.release().await;
    assert!(matches!(released, Err(LockError::Lost { reason: LossReason::ShutDown, .. })));
    assert_eq!(ending.await.unwrap().left, 0);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_may_be_dropped_and_called_again() {
    let locks = Locks::in_memory();
    let lease = locks.mutex("m").ttl(TTL).lock().await.unwrap();
    assert!(timeout(SECOND, locks.shutdown()).await.is_err());
    sleep(TTL * 2).await;
    assert!(lease.is_held(), "what is held goes on");
    assert!(locks.mutex("n").try_lock().await.is_err(), "nothing is acquired");
    let (first, second) = tokio::join!(locks.shutdown(), async {
        sleep(SECOND).await;
        lease.release().await.unwrap();
        locks.shutdown().await
    });
    assert_eq!((first.left, second.left), (0, 0));
}
