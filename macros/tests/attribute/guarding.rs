//! The promises of the attribute: no lock, no body; and the lock is free once the function is
//! over, however it ended.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use leasehold::{LeaseHandle, LeaseState, LockError, Locks, distributed_lock};
use tokio::{task, time};

use crate::held::held;

/// An application's error, as `?` makes it.
#[derive(Debug)]
enum JobError {
    Lock(LockError),
    Number,
}

impl From<LockError> for JobError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl From<std::num::ParseIntError> for JobError {
    fn from(_: std::num::ParseIntError) -> Self {
        Self::Number
    }
}

/// Counts its runs; ends as `how` says.
#[distributed_lock(key = "job", wait = "0s")]
async fn job(runs: &AtomicU32, how: &str) -> Result<u32, JobError> {
    let run = runs.fetch_add(1, Ordering::Relaxed) + 1;
    assert!(held("job").await, "it runs under its lock");
    match how {
        "early" => return Ok(run + 100),
        "panic" => panic!("as asked"),
        "wait" => std::future::pending().await,
        how => how.parse::<u32>()?,
    };
    Ok(run)
}

#[tokio::test]
async fn the_lock_is_free_when_the_result_is_there() {
    let runs = AtomicU32::new(0);
    Locks::in_memory()
        .scope(async {
            assert!(matches!(job(&runs, "7").await, Ok(1)));
            assert!(!held("job").await, "after the end");
            assert!(matches!(job(&runs, "early").await, Ok(102)));
            assert!(!held("job").await, "after `return`");
            assert!(matches!(job(&runs, "seven").await, Err(JobError::Number)));
            assert!(!held("job").await, "after `?`");
        })
        .await;
    assert_eq!(runs.into_inner(), 3, "each call runs the body once");
}

/// Waits less than the TTL: only a release lets it through.
async fn becomes_free(locks: &Locks) {
    let lease = locks.mutex("job").wait(Duration::from_secs(5)).lock().await;
    lease.expect("the lock was released").release().await.expect("it was held");
}

#[tokio::test]
async fn a_panic_releases() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let locks = Locks::in_memory();
    let client = locks.clone();
    let task = task::spawn(async move { client.scope(job(&RUNS, "panic")).await });
    assert!(task.await.expect_err("the task panics").is_panic());
    assert_eq!(RUNS.load(Ordering::Relaxed), 1);
    becomes_free(&locks).await;
}

#[tokio::test]
async fn a_dropped_future_releases() {
    let (locks, runs) = (Locks::in_memory(), AtomicU32::new(0));
    let call = time::timeout(Duration::from_millis(50), locks.scope(job(&runs, "wait")));
    assert!(call.await.is_err(), "it waits for ever");
    assert_eq!(runs.into_inner(), 1);
    becomes_free(&locks).await;
}

#[tokio::test]
async fn a_refused_lock_runs_no_body() {
    let (locks, runs) = (Locks::in_memory(), AtomicU32::new(0));
    let lease = locks.mutex("job").lock().await.unwrap();
    let refused = locks.scope(job(&runs, "7")).await;
    assert!(
        matches!(refused, Err(JobError::Lock(LockError::Busy { .. } | LockError::TimedOut { .. }))),
        "{refused:?}"
    );
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    lease.release().await.unwrap();
    assert!(matches!(locks.scope(job(&runs, "7")).await, Ok(1)));
}

#[tokio::test]
async fn without_a_client_no_body_runs() {
    let runs = AtomicU32::new(0);
    let refused = job(&runs, "7").await;
    assert!(matches!(refused, Err(JobError::Lock(LockError::NotInstalled))), "{refused:?}");
    assert_eq!(runs.into_inner(), 0);
}

#[distributed_lock(key = "{name}")]
async fn named(name: &str, ran: &Cell<bool>) -> Result<(), LockError> {
    ran.set(true);
    Ok(())
}

#[tokio::test]
async fn an_invalid_key_is_the_error() {
    let ran = Cell::new(false);
    let refused = Locks::in_memory().scope(named("", &ran)).await;
    assert!(matches!(refused, Err(LockError::InvalidKey { .. })), "{refused:?}");
    assert!(!ran.get());
}

#[distributed_lock(key = "two", permits = 2, wait = "0s")]
async fn two_at_a_time(depth: u32) -> Result<u32, LockError> {
    match depth {
        1 => Ok(1),
        depth => Box::pin(two_at_a_time(depth - 1)).await,
    }
}

#[tokio::test]
async fn the_permits_limit_the_calls() {
    Locks::in_memory()
        .scope(async {
            assert!(matches!(two_at_a_time(2).await, Ok(1)));
            assert!(two_at_a_time(3).await.is_err());
            assert!(matches!(two_at_a_time(2).await, Ok(1)), "permits come back");
        })
        .await;
}

#[distributed_lock(key = { keys.set(keys.get() + 1); format!("owned:{name}") })]
async fn owned(keys: &Cell<u32>, name: String) -> Result<String, LockError> {
    drop(format!("{name} is moved"));
    assert!(held("owned:a").await);
    Ok(name)
}

#[tokio::test]
async fn the_key_is_made_once_before_the_arguments_move() {
    let keys = Cell::new(0);
    Locks::in_memory()
        .scope(async {
            assert_eq!(owned(&keys, "a".to_owned()).await.unwrap(), "a");
        })
        .await;
    assert_eq!(keys.get(), 1);
}

#[distributed_lock(key = "changed:{id}")]
async fn changes_its_argument(mut id: u32) -> Result<u32, LockError> {
    id += 1;
    assert!(held("changed:1").await);
    Ok(id)
}

#[tokio::test]
async fn a_changed_argument_does_not_change_the_released_key() {
    Locks::in_memory()
        .scope(async {
            assert_eq!(changes_its_argument(1).await.unwrap(), 2);
            assert!(!held("changed:1").await);
        })
        .await;
}

#[distributed_lock(key = "hold", if_held = "skip", hold_at_least = "24h")]
async fn scheduled(runs: &AtomicU32) -> Result<(), LockError> {
    runs.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

#[tokio::test]
async fn hold_at_least_outlasts_the_body() {
    let (locks, runs) = (Locks::in_memory(), AtomicU32::new(0));
    locks.scope(scheduled(&runs)).await.unwrap();
    locks.scope(scheduled(&runs)).await.unwrap();
    assert_eq!(runs.into_inner(), 1);
}

#[distributed_lock(key = "skip", if_held = "skip")]
async fn skip_nothing(ran: &Cell<bool>) {
    ran.set(true);
}

#[distributed_lock(key = "skip", if_held = "skip")]
async fn skip_option(ran: &Cell<bool>) -> Option<u8> {
    ran.set(true);
    Some(1)
}

#[distributed_lock(key = "skip", if_held = "skip")]
async fn skip_result(ran: &Cell<bool>) -> Result<Option<u8>, LockError> {
    ran.set(true);
    Ok(Some(1))
}

#[tokio::test]
async fn a_skipped_call_logs_nothing() {
    let (locks, ran) = (Locks::in_memory(), Cell::new(false));
    let lease = locks.mutex("skip").lock().await.unwrap();
    locks
        .scope(async {
            skip_nothing(&ran).await;
            assert_eq!(skip_option(&ran).await, None);
            assert!(matches!(skip_result(&ran).await, Ok(None)));
            assert!(!ran.get(), "the body does not run");
            lease.release().await.unwrap();
            skip_nothing(&ran).await;
            assert!(ran.get(), "the body runs");
            assert_eq!(skip_option(&ran).await, Some(1));
            assert!(matches!(skip_result(&ran).await, Ok(Some(1))));
        })
        .await;
    assert!(skip_result(&ran).await.is_err(), "no client is an error, not a skip");
}

#[distributed_lock(key = "lease:{id}", lease = held, ttl = "20s")]
async fn knows_its_lease(id: u64) -> Result<LeaseHandle, LockError> {
    assert!(held.is_held() && held.remaining() <= Duration::from_secs(20));
    assert_eq!(held.key().name(), format!("lease:{id}"));
    let current = LeaseHandle::current().expect("it runs under a lease");
    assert_eq!(current.fence()?, held.fence()?);
    Ok(held)
}

#[distributed_lock(key = "outer", lease = lease)]
async fn around_another() -> Result<(), LockError> {
    let inner = knows_its_lease(1).await?;
    assert_eq!((lease.key().name(), inner.key().name()), ("outer", "lease:1"));
    assert_eq!(lease.fence()?, LeaseHandle::current().expect("its own again").fence()?);
    Ok(())
}

#[tokio::test]
async fn the_body_has_the_handle_of_its_own_lease() {
    Locks::in_memory()
        .scope(async {
            let first = knows_its_lease(1).await.unwrap();
            assert_eq!(first.state(), LeaseState::Released);
            let second = knows_its_lease(1).await.unwrap();
            assert!(second.fence().unwrap() > first.fence().unwrap(), "each call has its own");
            around_another().await.unwrap();
        })
        .await;
}

#[distributed_lock(key = "current")]
async fn deep() -> Result<String, LockError> {
    let lease = LeaseHandle::current().expect("it runs under a lease");
    Ok(lease.key().name().to_owned())
}

#[tokio::test]
async fn no_lease_is_current_outside_of_the_body() {
    assert_eq!(Locks::in_memory().scope(deep()).await.unwrap(), "current");
    assert!(LeaseHandle::current().is_none());
}
