//! `reentrant`: a call inside the body goes on under the outer lease.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::store::fault_injection::FaultInjector;
use leasehold::store::memory::MemoryStore;
use leasehold::{Fence, LeaseHandle, LeaseState, LockError, Locks, LossReason, distributed_lock};
use leasehold_tests::polls::drop_after;
use tokio::sync::oneshot;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

/// Calls itself this many times. Returns the token of each call, the innermost first.
#[distributed_lock(key = "account:{id}", reentrant, wait = "1s", locks = locks, lease = lease)]
async fn deposit(locks: &Locks, id: u64, depth: u32) -> Result<Vec<Fence>, LockError> {
    let mut fences = match depth {
        0 => Vec::new(),
        _ => Box::pin(deposit(locks, id, depth - 1)).await?,
    };
    fences.push(lease.fence()?);
    assert_eq!(LeaseHandle::current().unwrap().state(), LeaseState::Held, "after a nested call");
    Ok(fences)
}

#[distributed_lock(key = "account:{id}", wait = "1s", locks = locks)]
async fn plain(locks: &Locks, id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "account:1", reentrant, if_held = "skip", locks = locks)]
async fn skippable(locks: &Locks) -> Option<()> {
    Some(())
}

/// Tells the handle of its lease, and never ends. Its body's part of `ended` goes with it.
#[distributed_lock(key = "account:1", reentrant, wait = "1s", locks = &locks, lease = lease)]
async fn stuck(
    locks: Locks,
    told: oneshot::Sender<LeaseHandle>,
    ended: Arc<()>,
) -> Result<(), LockError> {
    let _ = told.send(lease);
    pending::<()>().await;
    drop(ended);
    Ok(())
}

#[distributed_lock(key = "account:1", reentrant, on_lost = "finish", locks = &locks, lease = lease)]
async fn finishes(locks: Locks, told: oneshot::Sender<()>) -> Result<LeaseState, LockError> {
    let _ = told.send(());
    while lease.is_held() {
        sleep(SECOND).await;
    }
    Ok(lease.state())
}

/// A client, another of the same store, and what is sent by the first.
fn clients() -> (Locks, Locks, Arc<FaultInjector>) {
    let store = Arc::new(MemoryStore::default());
    let sent = Arc::new(FaultInjector::over(store.clone()));
    (Locks::over(sent.clone()), Locks::over(store), sent)
}

fn is_held_by_caller(error: &LockError) -> bool {
    matches!(error, LockError::TimedOut { held_by_caller: true, .. })
}

#[tokio::test(start_paused = true)]
pub(crate) async fn nested_calls_send_nothing_and_have_the_outer_token() {
    let (locks, other, sent) = clients();
    sent.log();
    for depth in [0, 1, 5] {
        let fences = deposit(&locks, 1, depth).await.unwrap();
        assert_eq!(fences.len(), depth as usize + 1);
        assert!(fences.windows(2).all(|two| two[0] == two[1]), "{fences:?}");
        assert_eq!(sent.log(), ["acquire", "release"], "the outer end releases");
    }
    assert!(other.mutex("account:1").try_lock().await.is_ok());

    // Under a lease that was acquired by hand, with another lock in between.
    let (account, between) =
        (locks.mutex("account:1").lock().await.unwrap(), locks.mutex("b").lock().await.unwrap());
    sent.log();
    let nested = account.run(Box::pin(between.run(deposit(&locks, 1, 1)))).await.unwrap().unwrap();
    assert_eq!(nested.unwrap(), [account.fence().unwrap(); 2]);
    assert!(account.run(skippable(&locks)).await.unwrap().is_some(), "nobody else holds it");
    assert!(sent.log().is_empty());
    assert!(account.is_held() && other.mutex("account:1").try_lock().await.is_err());
}

#[tokio::test(start_paused = true)]
pub(crate) async fn a_carried_scope_counts_and_a_bare_task_waits() {
    let (locks, _other, sent) = clients();
    let lease = locks.mutex("account:1").lock().await.unwrap();
    let fence = lease.fence().unwrap();
    sent.log();
    let (one, carried) = (locks.clone(), lease.handle());
    let task = carried.scope(async move { deposit(&one, 1, 1).await });
    assert_eq!(tokio::spawn(task).await.unwrap().unwrap(), [fence; 2]);
    assert!(sent.log().is_empty());

    let one = locks.clone();
    let bare = lease.run(async { tokio::spawn(async move { deposit(&one, 1, 0).await }).await });
    match bare.await.unwrap().unwrap() {
        Err(LockError::TimedOut { held_by_caller: false, .. }) => {}
        other => panic!("{other:?}"),
    }
}

/// Only the same lock of the same client is entered again, and only by a function that says so.
#[tokio::test(start_paused = true)]
pub(crate) async fn other_locks_and_other_holders_are_waited_for() {
    let (locks, other, sent) = clients();
    let lease = locks.mutex("account:1").lock().await.unwrap();
    let refused = lease.run(deposit(&other, 1, 0)).await.unwrap().unwrap_err();
    assert!(matches!(refused, LockError::TimedOut { held_by_caller: false, .. }), "{refused}");
    let refused = lease.run(plain(&locks, 1)).await.unwrap().unwrap_err();
    assert!(is_held_by_caller(&refused), "{refused}");
    sent.log();
    let elsewhere = lease.run(deposit(&locks, 2, 0)).await.unwrap().unwrap();
    assert_eq!((elsewhere.len(), sent.log()), (1, vec!["acquire", "release"]));
    // Both clients hold a lock of this name, and the inner scope is the other's.
    let theirs = other.mutex("account:3").lock().await.unwrap();
    let refused = lease.run(Box::pin(theirs.run(deposit(&locks, 3, 0)))).await.unwrap().unwrap();
    assert!(matches!(refused, Err(LockError::TimedOut { .. })), "{refused:?}");

    let permit = locks.semaphore("account:4", 1).acquire().await.unwrap();
    let refused = permit.run(deposit(&locks, 4, 0)).await.unwrap().unwrap_err();
    assert!(matches!(refused, LockError::WrongKind { .. }), "{refused}");
    lease.release().await.unwrap();
    let refused = lease_of_the_past(&locks).await.scope(deposit(&locks, 1, 0)).await.unwrap();
    assert_eq!(refused.len(), 1, "a released lease is around nothing");
}

async fn lease_of_the_past(locks: &Locks) -> LeaseHandle {
    let lease = locks.mutex("account:1").lock().await.unwrap();
    let handle = lease.handle();
    lease.release().await.unwrap();
    handle
}

/// The loss of the outer lease stops a nested body where it is, also in a task of its own.
#[tokio::test(start_paused = true)]
async fn a_nested_body_is_stopped_with_the_outer_lease() {
    let (locks, other, _sent) = clients();
    for reason in [LossReason::Forced, LossReason::MaxHold, LossReason::Released] {
        let mutex = locks.mutex("account:1").max_hold(SECOND * 20);
        let lease = mutex.lock().await.unwrap();
        let (told, hears) = oneshot::channel();
        let ended = Arc::new(());
        let nested = lease.handle().scope(stuck(locks.clone(), told, ended.clone()));
        let nested = tokio::spawn(nested);
        assert_eq!(hears.await.unwrap().fence().unwrap(), lease.fence().unwrap());
        match reason {
            LossReason::Forced => drop(other.force_release("account:1").await.unwrap()),
            LossReason::MaxHold => {}
            _ => drop(lease.release().await.unwrap()),
        }
        match nested.await.unwrap() {
            Err(LockError::Lost { reason: told, .. }) => assert_eq!(told, reason),
            other => panic!("{other:?}"),
        }
        assert_eq!(Arc::strong_count(&ended), 1, "{reason:?}: the body was dropped");
        assert!(other.mutex("account:1").wait(SECOND * 30).lock().await.is_ok(), "{reason:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_finishes_goes_on_after_the_outer_end() {
    let (locks, other, _sent) = clients();
    let lease = locks.mutex("account:1").lock().await.unwrap();
    let (told, hears) = oneshot::channel();
    let nested = tokio::spawn(lease.handle().scope(finishes(locks.clone(), told)));
    hears.await.unwrap();
    lease.release().await.unwrap();
    assert_eq!(nested.await.unwrap().unwrap(), LeaseState::Released);

    // An outer body that goes on after a loss has no lease that a nested call could use.
    let lease = locks.mutex("account:1").lock().await.unwrap();
    let fence = lease.fence().unwrap();
    let _ = other.force_release("account:1").await.unwrap();
    lease.lost().await;
    let own = lease.handle().scope(deposit(&locks, 1, 1)).await.unwrap();
    assert!(own[0] > fence && own[0] == own[1], "{own:?}, after {fence}");
}

/// Dropped or panicking at any place, nested calls leave nothing held.
#[tokio::test(start_paused = true)]
async fn a_dropped_call_leaves_nothing() {
    static ENDS: AtomicU32 = AtomicU32::new(0);

    #[distributed_lock(key = "account:1", reentrant, locks = locks)]
    async fn yields(locks: &Locks, depth: u32) -> Result<(), LockError> {
        tokio::task::yield_now().await;
        if depth > 0 {
            Box::pin(yields(locks, depth - 1)).await?;
        }
        ENDS.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        Ok(())
    }

    #[distributed_lock(key = "account:1", reentrant, locks = &locks)]
    async fn panics(locks: Locks, depth: u32) -> Result<(), LockError> {
        assert!(depth > 0, "on purpose");
        Box::pin(panics(locks.clone(), depth - 1)).await
    }

    let (locks, other, _sent) = clients();
    for polls in 0..20 {
        let _ = drop_after(polls, yields(&locks, 2)).await;
        assert!(other.mutex("account:1").try_lock().await.is_ok(), "after {polls} polls");
    }
    assert!(ENDS.load(Ordering::Relaxed) > 3, "some came to their end");
    assert!(tokio::spawn(panics(locks, 2)).await.unwrap_err().is_panic());
    assert!(other.mutex("account:1").try_lock().await.is_ok());
}
