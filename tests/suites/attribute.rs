//! The attribute: failures of its lock, weights, readers and writers, and bodies whose lease is
//! lost. `macros/tests` tests its effect on the function around it.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use leasehold::{
    Fault, Fence, LeaseHandle, LeaseState, LockError, Locks, LossReason, distributed_lock,
};
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

#[distributed_lock(key = "short")]
async fn short(result: Result<u32, LockError>) -> Result<u32, LockError> {
    result
}

/// The body's result wins.
#[tokio::test(start_paused = true)]
async fn a_release_that_fails_does_not_replace_the_result() {
    for fault in [Fault::LoseCommand, Fault::Unreachable, Fault::Unreachable] {
        let (locks, faults) = Locks::in_memory_with_faults();
        faults.pass(1);
        faults.next(fault);
        faults.next(fault);
        faults.next(fault);
        assert_eq!(locks.scope(short(Ok(42))).await.unwrap(), 42, "{fault:?}");
        sleep(Duration::from_secs(5)).await;
        locks.mutex("short").try_lock().await.unwrap().release().await.unwrap();
    }
    let (locks, faults) = Locks::in_memory_with_faults();
    faults.pass(1);
    faults.next(Fault::Unreachable);
    let error = locks.scope(short(Err(LockError::NotInstalled))).await.unwrap_err();
    assert!(matches!(error, LockError::NotInstalled), "{error}");
}

static RUNS: AtomicU32 = AtomicU32::new(0);

#[distributed_lock(key = "job:canary-key", if_held = "skip")]
async fn quiet_job() {
    RUNS.fetch_add(1, Ordering::Relaxed);
}

#[distributed_lock(key = "job:canary-key", if_held = "skip")]
async fn loud_job() -> Result<(), LockError> {
    RUNS.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_skipped_run_is_quiet_and_a_failed_one_is_not() {
    let (log, _guard) = LogRecorder::start(Level::INFO);
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("job:canary-key").lock().await.unwrap();
    locks.scope(quiet_job()).await;
    locks.scope(loud_job()).await.unwrap();
    assert_eq!(log.text(), "", "another holds it: that is no event");
    lease.release().await.unwrap();

    faults.always(Fault::Unreachable);
    locks.scope(quiet_job()).await;
    assert!(log.text().contains("ERROR"), "{}", log.text());
    let error = locks.scope(loud_job()).await.unwrap_err();
    assert!(matches!(error, LockError::Store { .. }), "{error}");
    assert_eq!(RUNS.load(Ordering::Relaxed), 0);

    faults.heal();
    locks.scope(quiet_job()).await;
    assert_eq!(RUNS.load(Ordering::Relaxed), 1);
    assert!(!log.text().contains("canary"), "names may be personal: {}", log.text());
}

#[tokio::test(start_paused = true)]
async fn a_logged_loss_does_not_name_the_lock() {
    let (log, _guard) = LogRecorder::start(Level::INFO);
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("canary-key").ttl(Duration::from_secs(9)).lock().await.unwrap();
    faults.always(Fault::LoseCommand);
    lease.lost().await;
    drop(lease);
    sleep(Duration::from_secs(60)).await;
    let text = log.text();
    assert!(text.contains("a lease was lost") && text.contains("could not be released"), "{text}");
    assert!(!text.contains("canary"), "{text}");
}

#[distributed_lock(key = "which")]
async fn which() -> Result<(), LockError> {
    Ok(())
}

/// The scope's client comes before the installed one. One test, since the
/// installed client is the process's.
#[tokio::test]
async fn the_client_comes_from_the_scope_or_is_the_installed_one() {
    let error = which().await.unwrap_err();
    for way in ["Locks::install", "Locks::scope", "locks = "] {
        assert!(error.to_string().contains(way), "{error}");
    }
    let (installed, scoped) = (Locks::in_memory(), Locks::in_memory());
    installed.install();
    let held = installed.mutex("which").lock().await.unwrap();
    scoped.scope(which()).await.unwrap();
    let scope =
        scoped.scope(async { tokio::time::timeout(Duration::from_millis(50), which()).await });
    assert!(scope.await.unwrap().is_ok());
    let waits = tokio::time::timeout(Duration::from_millis(50), which()).await;
    assert!(waits.is_err(), "outside of the scope it waits for the installed client's lock");
    drop(held);
    which().await.unwrap();
}

/// Holds the first share, and runs the rest inside.
#[distributed_lock(key = "cores", permits = 4, weight = shares[0], wait = "0s")]
async fn nested(shares: &[u32]) -> Result<(), LockError> {
    match shares {
        [_] => Ok(()),
        shares => Box::pin(nested(&shares[1..])).await,
    }
}

#[distributed_lock(key = "cores", permits = 4, weight = 3, wait = "0s")]
async fn three_and(shares: &[u32]) -> Result<(), LockError> {
    Box::pin(nested(shares)).await
}

#[distributed_lock(key = "cores", permits = 4, wait = "0s")]
async fn one_and(shares: &[u32]) -> Result<(), LockError> {
    Box::pin(nested(shares)).await
}

#[tokio::test]
async fn weights_sum_up_to_the_permits() {
    let locks = Locks::in_memory();
    for fit in [&[4][..], &[3, 1], &[1, 2, 1], &[1, 1, 1, 1]] {
        locks.scope(nested(fit)).await.unwrap();
    }
    for too_much in [&[4, 1][..], &[3, 2], &[1, 2, 2], &[1, 1, 1, 1, 1]] {
        let error = locks.scope(nested(too_much)).await.unwrap_err();
        assert!(error.is_held_by_another(), "{too_much:?}: {error}");
    }
    locks.scope(three_and(&[1])).await.unwrap();
    assert!(locks.scope(three_and(&[2])).await.is_err());
    locks.scope(one_and(&[3])).await.unwrap();
    assert!(locks.scope(one_and(&[4])).await.is_err(), "a call weighs 1 unless it says more");
    locks.scope(nested(&[4])).await.unwrap();
}

#[tokio::test]
async fn a_weight_beyond_the_permits_is_an_invalid_option() {
    let locks = Locks::in_memory();
    for weight in [0, 5, u32::MAX] {
        let error = locks.scope(nested(&[weight])).await.unwrap_err();
        assert!(matches!(error, LockError::InvalidOption { option: "weight", .. }), "{error}");
    }
    locks.scope(nested(&[4])).await.unwrap();
}

/// The weight of an import: its number of files.
fn size(files: &[String], asked: &Cell<u32>) -> u32 {
    asked.set(asked.get() + 1);
    u32::try_from(files.len()).unwrap()
}

#[distributed_lock(key = "import", permits = 3, weight = size(&files, asked), wait = "0s")]
async fn import(files: Vec<String>, asked: &Cell<u32>, locks: &Locks) -> Result<u32, LockError> {
    drop(files);
    let mut left = Vec::new();
    while let Ok(lease) = locks.semaphore("import", 3).try_acquire().await {
        left.push(lease);
    }
    Ok(u32::try_from(left.len()).unwrap())
}

#[tokio::test]
async fn a_weight_is_evaluated_once_before_the_arguments_move() {
    for files in 1..=3_u32 {
        let locks = Locks::in_memory();
        let asked = Cell::new(0);
        let names = (0..files).map(|file| file.to_string()).collect();
        let left = locks.scope(import(names, &asked, &locks)).await.unwrap();
        assert_eq!((left, asked.get()), (3 - files, 1));
    }
}

/// The numbers of functions that run and that have run.
#[derive(Default)]
struct Page {
    readers: Cell<u32>,
    most: Cell<u32>,
    writers: Cell<u32>,
    written: Cell<u32>,
}

#[distributed_lock(key = "page", mode = "read")]
async fn show(page: &Page) -> Result<(), LockError> {
    page.readers.set(page.readers.get() + 1);
    page.most.set(page.most.get().max(page.readers.get()));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(page.writers.get(), 0, "nobody writes meanwhile");
    page.readers.set(page.readers.get() - 1);
    Ok(())
}

#[distributed_lock(key = "page", mode = "write", wait = "20s")]
async fn change(page: &Page) -> Result<(), LockError> {
    page.writers.set(page.writers.get() + 1);
    sleep(Duration::from_secs(1)).await;
    assert_eq!((page.readers.get(), page.writers.get()), (0, 1), "a writer is alone");
    page.writers.set(page.writers.get() - 1);
    page.written.set(page.written.get() + 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn readers_run_together_and_a_writer_alone() {
    let page = Page::default();
    let all = async {
        let begun = Instant::now();
        tokio::try_join!(show(&page), show(&page)).unwrap();
        assert_eq!((page.most.get(), begun.elapsed().as_secs()), (2, 1));
        tokio::try_join!(change(&page), show(&page), change(&page), show(&page)).unwrap();
        assert_eq!(page.written.get(), 2);
    };
    Box::pin(Locks::in_memory().scope(all)).await;
}

#[distributed_lock(key = "page", mode = "read", if_held = "skip")]
async fn show_or_skip() -> Option<u32> {
    Some(1)
}

#[distributed_lock(key = "page", mode = "write", if_held = "skip", ttl = "5s")]
async fn change_or_skip() -> Result<Option<u32>, LockError> {
    Ok(Some(2))
}

#[tokio::test]
async fn a_reader_or_writer_that_would_wait_is_skipped() {
    let locks = Locks::in_memory();
    let ask = async || (show_or_skip().await, change_or_skip().await.unwrap());
    assert_eq!(locks.scope(ask()).await, (Some(1), Some(2)));
    let reader = locks.rw_lock("page").read().await.unwrap();
    assert_eq!(locks.scope(ask()).await, (Some(1), None));
    reader.release().await.unwrap();
    let writer = locks.rw_lock("page").write().await.unwrap();
    assert_eq!(locks.scope(ask()).await, (None, None));
    writer.release().await.unwrap();
    assert_eq!(locks.scope(ask()).await, (Some(1), Some(2)));
}

/// A name has one kind. Another kind is an error, and no reason to skip quietly.
#[tokio::test]
async fn a_mode_with_the_key_of_a_mutex_is_the_wrong_kind() {
    let locks = Locks::in_memory();
    let _lease = locks.mutex("page").lock().await.unwrap();
    let error = locks.scope(change_or_skip()).await.unwrap_err();
    assert!(matches!(error, LockError::WrongKind { .. }), "{error}");
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
async fn a_body_without_another_await_runs_to_its_end_and_its_token_shows_the_loss() {
    let (log, _guard) = LogRecorder::start(Level::INFO);
    let (locks, writes) = (Locks::in_memory(), Cell::new(0));
    assert_eq!(locks.scope(pay(&writes, false)).await.unwrap(), 2, "its own result");
    assert!(log.text().contains("a function finished after its lock was lost"));
    writes.set(0);
    let result = locks.scope(pay(&writes, true)).await;
    assert!(is_lost_by(&result, LossReason::Expired));
    assert_eq!(writes.get(), 1);
}

/// The compiler can't check this.
fn has_no_token(lease: &LeaseHandle) -> bool {
    matches!(lease.fence(), Err(LockError::NotFenced { .. }))
}

#[distributed_lock(key = "permit", permits = 2, lease = lease)]
async fn under_a_permit() -> Result<bool, LockError> {
    Ok(lease.is_held() && has_no_token(&lease))
}

#[distributed_lock(key = "page", mode = "read", lease = lease)]
async fn under_a_readers_lease() -> Result<bool, LockError> {
    Ok(lease.is_held() && has_no_token(&lease))
}

#[distributed_lock(key = "page", mode = "write", lease = lease)]
async fn under_a_writers_lease() -> Result<Fence, LockError> {
    lease.fence()
}

#[tokio::test]
async fn only_exclusive_holders_have_a_token() {
    let locks = Locks::in_memory();
    assert!(locks.scope(under_a_permit()).await.unwrap());
    assert!(locks.scope(under_a_readers_lease()).await.unwrap());
    let first = locks.scope(under_a_writers_lease()).await.unwrap();
    assert!(locks.scope(under_a_writers_lease()).await.unwrap() > first);
}
