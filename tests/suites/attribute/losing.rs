//! Bodies whose lease is lost: by a failing store, by `max_hold`, or without renewals.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use leasehold::{Fault, LeaseState, LockError, Locks, LossReason, distributed_lock};
use leasehold_tests::logs::LogRecorder;
use tokio::time::{Instant, advance, sleep, timeout};
use tracing::Level;

static STEPS: AtomicU32 = AtomicU32::new(0);

#[distributed_lock(key = "order:{customer}", ttl = "9s")]
async fn charge(customer: &str) -> Result<&'static str, LockError> {
    for _ in 0..30 {
        sleep(Duration::from_secs(1)).await;
        STEPS.fetch_add(1, Ordering::Relaxed);
    }
    Ok("charged")
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_cancels_the_work_with_an_error() {
    let (locks, faults) = Locks::in_memory_with_faults();
    faults.pass(1);
    faults.always(Fault::LoseCommand);
    let begun = Instant::now();
    let error = locks.scope(charge("ada")).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { .. }), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(9));
    let steps = STEPS.load(Ordering::Relaxed);
    assert_eq!(steps, 8);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(STEPS.load(Ordering::Relaxed), steps, "it does not go on behind our back");
}

/// Moves the clock without an `.await`. To a lease it looks as if the process had stood still.
fn stand_still(time: Duration) {
    let _ = advance(time).now_or_never();
}

/// A body that does not end by itself, under each kind of lock.
mod stuck {
    use std::future::pending;

    use leasehold::{LockError, distributed_lock};

    #[distributed_lock(key = "mutex", max_hold = "2m")]
    pub(super) async fn mutex() -> Result<(), LockError> {
        pending().await
    }

    #[distributed_lock(key = "semaphore", permits = 1, max_hold = "2m")]
    pub(super) async fn semaphore() -> Result<(), LockError> {
        pending().await
    }

    #[distributed_lock(key = "read", mode = "read", max_hold = "2m")]
    pub(super) async fn reader() -> Result<(), LockError> {
        pending().await
    }

    #[distributed_lock(key = "written", mode = "write", max_hold = "2m")]
    pub(super) async fn writer() -> Result<(), LockError> {
        pending().await
    }

    #[distributed_lock(key = "skipped", if_held = "skip", max_hold = "2m")]
    pub(super) async fn job() -> Result<Option<u32>, LockError> {
        pending().await
    }
}

fn is_lost_by<T>(result: &Result<T, LockError>, expected: LossReason) -> bool {
    matches!(result, Err(LockError::Lost { reason, .. }) if *reason == expected)
}

#[tokio::test(start_paused = true)]
async fn max_hold_stops_a_stuck_body() {
    let locks = Locks::in_memory();
    let begun = Instant::now();
    let all = locks.scope(async {
        tokio::join!(
            stuck::mutex(),
            stuck::semaphore(),
            stuck::reader(),
            stuck::writer(),
            stuck::job()
        )
    });
    let all = timeout(Duration::from_secs(600), Box::pin(all));
    let (mutex, semaphore, reader, writer, job) = all.await.expect("they do not go on");
    assert!(begun.elapsed() <= Duration::from_secs(120));
    assert!(begun.elapsed() > Duration::from_secs(100), "it was renewed until then");
    for result in [mutex, semaphore, reader, writer, job.map(drop)] {
        assert!(is_lost_by(&result, LossReason::MaxHold));
    }
    // Sooner than the TTL of the last renewal ends.
    let soon = Duration::from_secs(1);
    let _mutex = locks.mutex("mutex").wait(soon).lock().await.unwrap();
    let _semaphore = locks.semaphore("semaphore", 1).wait(soon).acquire().await.unwrap();
    let _read = locks.rw_lock("read").wait(soon).write().await.unwrap();
    let _written = locks.rw_lock("written").wait(soon).write().await.unwrap();
    let _skipped = locks.mutex("skipped").wait(soon).lock().await.unwrap();
}

/// A body that takes longer than the TTL, without renewals.
mod unrenewed {
    use leasehold::{LockError, distributed_lock};

    use super::minute;

    #[distributed_lock(key = "mutex", ttl = "9s", auto_renew = false)]
    pub(super) async fn mutex() -> Result<(), LockError> {
        minute().await
    }

    #[distributed_lock(key = "semaphore", permits = 1, ttl = "9s", auto_renew = false)]
    pub(super) async fn semaphore() -> Result<(), LockError> {
        minute().await
    }

    #[distributed_lock(key = "lock", mode = "read", ttl = "9s", auto_renew = false)]
    pub(super) async fn reader() -> Result<(), LockError> {
        minute().await
    }

    #[distributed_lock(key = "lock", mode = "write", ttl = "9s", auto_renew = false)]
    pub(super) async fn writer() -> Result<(), LockError> {
        minute().await
    }

    #[distributed_lock(key = "lock", mode = "write", ttl = "9s", auto_renew = is_renewed)]
    pub(super) async fn chosen(is_renewed: bool) -> Result<(), LockError> {
        minute().await
    }
}

async fn minute() -> Result<(), LockError> {
    sleep(Duration::from_secs(60)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn without_renewal_a_lease_ends_with_its_ttl() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let ended = |begun: Instant, result: Result<(), LockError>| {
        assert!(is_lost_by(&result, LossReason::Expired));
        assert_eq!(begun.elapsed().as_secs(), 8, "9 seconds, less what clocks may differ");
        assert!(!faults.store().log().contains(&"renew"), "nothing is sent in between");
    };
    ended(Instant::now(), locks.scope(unrenewed::mutex()).await);
    ended(Instant::now(), locks.scope(unrenewed::semaphore()).await);
    ended(Instant::now(), locks.scope(unrenewed::reader()).await);
    ended(Instant::now(), locks.scope(unrenewed::writer()).await);
    ended(Instant::now(), locks.scope(unrenewed::chosen(false)).await);
    locks.scope(unrenewed::chosen(true)).await.unwrap();
    assert!(faults.store().log().contains(&"renew"));
}

/// A body that must not be stopped, under each kind of lock. It counts its steps, and returns the
/// state of its lease at the end.
mod finishing {
    use std::cell::Cell;

    use leasehold::{LeaseState, LockError, distributed_lock};

    use super::steps;

    #[distributed_lock(key = "mutex", ttl = "9s", on_lost = "finish", lease = lease)]
    pub(super) async fn mutex(count: &Cell<u32>) -> Result<LeaseState, LockError> {
        steps(count).await;
        Ok(lease.state())
    }

    #[distributed_lock(
        key = "semaphore",
        permits = 1,
        ttl = "9s",
        on_lost = "finish",
        lease = lease
    )]
    pub(super) async fn semaphore(count: &Cell<u32>) -> Result<LeaseState, LockError> {
        steps(count).await;
        Ok(lease.state())
    }

    #[distributed_lock(
        key = "read",
        mode = "read",
        ttl = "9s",
        on_lost = "finish",
        lease = lease
    )]
    pub(super) async fn reader(count: &Cell<u32>) -> Result<LeaseState, LockError> {
        steps(count).await;
        Ok(lease.state())
    }

    #[distributed_lock(
        key = "written",
        mode = "write",
        ttl = "9s",
        on_lost = "finish",
        lease = lease
    )]
    pub(super) async fn writer(count: &Cell<u32>) -> Result<LeaseState, LockError> {
        steps(count).await;
        Ok(lease.state())
    }

    #[distributed_lock(
        key = "skipped",
        if_held = "skip",
        ttl = "9s",
        on_lost = "finish",
        lease = lease
    )]
    pub(super) async fn job(count: &Cell<u32>) -> Option<LeaseState> {
        steps(count).await;
        Some(lease.state())
    }
}

async fn steps(count: &Cell<u32>) {
    for _ in 0..30 {
        sleep(Duration::from_secs(1)).await;
        count.set(count.get() + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn on_lost_finish_lets_the_body_finish_and_logs_the_loss() {
    let (log, _guard) = LogRecorder::start(Level::INFO);
    let (locks, faults) = Locks::in_memory_with_faults();
    let count = Cell::new(0);
    faults.pass(5); // the grants
    faults.always(Fault::LoseCommand);
    let all = locks.scope(async {
        tokio::join!(
            finishing::mutex(&count),
            finishing::semaphore(&count),
            finishing::reader(&count),
            finishing::writer(&count),
            finishing::job(&count),
        )
    });
    let (mutex, semaphore, reader, writer, job) = Box::pin(all).await;
    let lost = LeaseState::Lost(LossReason::Expired);
    for state in [mutex, semaphore, reader, writer] {
        assert_eq!(state.unwrap(), lost);
    }
    assert_eq!((job, count.get()), (Some(lost), 5 * 30));
    let ended = "a function finished after its lock was lost";
    assert_eq!(log.text().matches(ended).count(), 5, "{}", log.text());
}

#[tokio::test(start_paused = true)]
async fn on_lost_finish_keeps_the_lock_as_long_as_cancel_does() {
    let (log, _guard) = LogRecorder::start(Level::INFO);
    let locks = Locks::in_memory();
    let count = Cell::new(0);
    assert_eq!(locks.scope(finishing::mutex(&count)).await.unwrap(), LeaseState::Held);
    assert!(locks.mutex("mutex").try_lock().await.is_ok(), "released before the result is there");
    assert_eq!(log.text(), "");
}

/// Asks for the token before the first write, and before the second one if `asks`.
#[distributed_lock(key = "account", lease = lease)]
async fn pay(writes: &Cell<u32>, asks: bool) -> Result<u32, LockError> {
    lease.fence()?;
    writes.set(writes.get() + 1);
    stand_still(Duration::from_secs(31));
    if asks {
        lease.fence()?;
    }
    writes.set(writes.get() + 1);
    Ok(writes.get())
}

#[tokio::test(start_paused = true)]
async fn a_body_without_an_await_runs_to_its_end_and_its_token_shows_the_loss() {
    let (log, _guard) = LogRecorder::start(Level::INFO);
    let (locks, writes) = (Locks::in_memory(), Cell::new(0));
    assert_eq!(locks.scope(pay(&writes, false)).await.unwrap(), 2, "its own result");
    assert!(log.text().contains("a function finished after its lock was lost"));
    writes.set(0);
    let result = locks.scope(pay(&writes, true)).await;
    assert!(is_lost_by(&result, LossReason::Expired));
    assert_eq!(writes.get(), 1);
}
