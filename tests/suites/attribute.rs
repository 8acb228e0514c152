//! The attribute: failures of its lock, weights, and readers and writers. `macros/tests` tests its
//! effect on the function around it.

mod lingering;
mod losing;
pub(crate) mod reentrant;
mod replacing;
mod sets;
mod templates;

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::{Fault, Fence, LeaseHandle, LockError, Locks, distributed_lock};
use leasehold_tests::logs::LogRecorder;
use leasehold_tests::waiting::work_for;
use tokio::time::{Instant, sleep};
use tracing::Level;

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

#[distributed_lock(key = "job:{name}", if_held = "skip")]
async fn quiet_job(name: &str) {
    RUNS.fetch_add(1, Ordering::Relaxed);
}

#[distributed_lock(key = "job:{name}", if_held = "skip")]
async fn loud_job(name: &str) -> Result<(), LockError> {
    RUNS.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_skipped_run_is_quiet_and_a_failed_one_is_not() {
    let (log, _guard) = LogRecorder::start(Level::INFO);
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("job:canary-key").lock().await.unwrap();
    locks.scope(quiet_job("canary-key")).await;
    locks.scope(loud_job("canary-key")).await.unwrap();
    assert_eq!(log.text(), "", "another holds it: that is no event");
    lease.release().await.unwrap();

    faults.always(Fault::Unreachable);
    locks.scope(quiet_job("canary-key")).await;
    assert!(log.text().contains("ERROR"), "{}", log.text());
    let error = locks.scope(loud_job("canary-key")).await.unwrap_err();
    assert!(matches!(error, LockError::Store { .. }), "{error}");
    assert_eq!(RUNS.load(Ordering::Relaxed), 0);

    faults.heal();
    locks.scope(quiet_job("canary-key")).await;
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
    let mut runs = 0;
    sets::skippable(&mut runs).await;
    assert_eq!(runs, 0, "it can't return the error, and logs it");
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

    let (recorder, _guard) = LogRecorder::start(Level::WARN);
    let (file, line) = (file!(), line!() + 1);
    installed.install();
    let text = recorder.text();
    let places: Vec<_> = text.split_whitespace().filter(|word| word.contains(file)).collect();
    assert_eq!(places.len(), 2, "{text}");
    let [at, before] =
        ["at=", "before="].map(|field| places.iter().find(|it| it.starts_with(field)));
    assert!(at.unwrap().contains(&format!(":{line}:")) && before.unwrap() != at.unwrap(), "{text}");
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
    work_for(Duration::from_secs(1)).await;
    assert_eq!(page.writers.get(), 0, "nobody writes meanwhile");
    page.readers.set(page.readers.get() - 1);
    Ok(())
}

#[distributed_lock(key = "page", mode = "write", wait = "20s")]
async fn change(page: &Page) -> Result<(), LockError> {
    page.writers.set(page.writers.get() + 1);
    work_for(Duration::from_secs(1)).await;
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
