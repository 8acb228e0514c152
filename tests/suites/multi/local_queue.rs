//! Sets of locks that compete with other tasks of the same process.

use std::time::Duration;

use leasehold::{LockError, Locks, Wait};
use leasehold_tests::polls::is_pending;

use super::{NAMES, Of};

/// A waiter that has its turn in the process, but has not asked yet, is in no queue of the store.
/// The store says that the lock is free, but this waiter and those behind it come first.
#[tokio::test]
async fn waiters_of_the_process_are_not_overtaken() {
    for (of, name) in [(Of::Mutexes, "b"), (Of::Mixed, "c")] {
        let locks = Locks::in_memory();
        let held = of.take(&locks, name).await;
        let [mut first, mut second, mut third] = [(); 3].map(|()| Box::pin(of.take(&locks, name)));
        for waiting in [&mut first, &mut second, &mut third] {
            assert!(is_pending(waiting).await);
        }
        held.release().await.unwrap();
        first.await.release().await.unwrap();

        match of.set(&locks).try_lock().await {
            Err(LockError::Busy { key, .. }) => assert_eq!(key.name(), name),
            other => panic!("{other:?}"),
        }
        let mut all = Box::pin(of.set(&locks).wait(Wait::Forever).lock());
        assert!(is_pending(&mut all).await);
        second.await.release().await.unwrap();
        assert!(is_pending(&mut all).await, "the third was there before");
        third.await.release().await.unwrap();
        all.await.unwrap().release().await.unwrap();
        of.are_free(&locks).await;
    }
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
