//! Sets of locks that compete with other tasks of the same process.

use std::pin::Pin;
use std::time::Duration;

use leasehold::{Lease, LockError, Locks, Wait};
use leasehold_tests::polls::is_pending;

use super::NAMES;

fn locking(locks: &Locks) -> Pin<Box<dyn Future<Output = Result<Lease, LockError>> + Send>> {
    let mutex = locks.mutex("b").wait(Wait::Forever);
    Box::pin(async move { mutex.lock().await })
}

/// A waiter that has its turn in the process, but has not asked yet, is in no queue of the store.
/// The store says that the mutex is free, but this waiter and those behind it come first.
#[tokio::test]
async fn waiters_of_the_process_are_not_overtaken() {
    let locks = Locks::in_memory();
    let held = locks.mutex("b").lock().await.unwrap();
    let [mut first, mut second, mut third] = [(); 3].map(|()| locking(&locks));
    for waiting in [&mut first, &mut second, &mut third] {
        assert!(is_pending(waiting).await);
    }
    held.release().await.unwrap();
    first.await.unwrap().release().await.unwrap();

    match locks.all(NAMES).try_lock().await {
        Err(LockError::Busy { key, .. }) => assert_eq!(key.name(), "b"),
        other => panic!("{other:?}"),
    }
    let all = locks.all(NAMES).wait(Wait::Forever);
    let mut all = Box::pin(all.lock());
    assert!(is_pending(&mut all).await);
    second.await.unwrap().release().await.unwrap();
    assert!(is_pending(&mut all).await, "the third was there before");
    third.await.unwrap().release().await.unwrap();
    let leases = all.await.unwrap();
    assert!(leases.is_held());
    leases.release().await.unwrap();
}

/// Two sets of one process overlap. In the order of its names, each would first take the lock that
/// the other one lacks.
#[tokio::test(start_paused = true)]
async fn sets_of_one_process_do_not_deadlock() {
    let locks = Locks::in_memory();
    let held = locks.all(NAMES).lock().await.unwrap();
    let mut waiting = tokio::task::JoinSet::new();
    for names in [["a", "b"], ["b", "a"], ["b", "c"], ["c", "b"], ["c", "a"], ["a", "c"]] {
        let all = locks.all(names).wait(Wait::Forever);
        waiting.spawn(async move { all.lock().await.unwrap().release().await.unwrap() });
    }
    tokio::task::yield_now().await;
    held.release().await.unwrap();
    let done = tokio::time::timeout(Duration::from_secs(60), waiting.join_all()).await;
    done.expect("nobody waits for ever");
}
