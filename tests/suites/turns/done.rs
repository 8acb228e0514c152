//! Work that is done: all tasks that wait for it hear so together.

use leasehold::{LockError, Locks};

use super::{SECOND, TTL, mutex, settle, waiter};

/// The one that asks tells the others.
#[tokio::test(start_paused = true)]
async fn one_question_answers_all_waiters() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let once = mutex(&locks).once(TTL * 100);
    let run = once.lock().await.unwrap();
    let mut waiters = Vec::new();
    for _ in 0..100 {
        waiters.push(waiter(once.clone()).await);
    }
    let (other, gone) = (mutex(&locks).once(TTL * 101), waiters.swap_remove(50));
    let other = waiter(other).await;
    let plain = waiter(mutex(&locks)).await;
    gone.abort();
    settle().await;
    drop(faults.store().log());
    run.complete().await.unwrap();
    for waiter in waiters {
        let done = waiter.await.unwrap().unwrap_err();
        let LockError::Done { retry_after, .. } = done else { panic!("{done}") };
        assert!(retry_after + SECOND > TTL * 100, "{retry_after:?}");
    }
    // Another time to count is another question, and whoever does not ask for work gets the lock.
    let done = other.await.unwrap().unwrap_err();
    assert!(matches!(done, LockError::Done { retry_after, .. } if retry_after > TTL * 100));
    drop(plain.await.unwrap().unwrap());
    let asks = faults.store().log().into_iter().filter(|it| *it == "acquire").count();
    assert!(asks <= 4, "{asks}");
}
