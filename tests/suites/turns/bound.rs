//! The time that waiters in other processes wait for a turn to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use leasehold::Locks;
use tokio::time::{Instant, sleep};

use super::{SECOND, TTL, TURN, another, in_turn, mutex, settle, waiter};

/// Tasks that take the lock again and again, and count.
fn crowd(locks: &Locks, count: &Arc<AtomicU32>, section: std::time::Duration) {
    for _ in 0..8 {
        let (mutex, count) = (mutex(locks), count.clone());
        tokio::spawn(async move {
            loop {
                let lease = mutex.lock().await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                if !section.is_zero() {
                    sleep(section).await;
                }
                lease.release().await.unwrap();
            }
        });
    }
}

/// A turn ends by time. A waiter in another process waits for the turn and for the section in which
/// it ends.
#[tokio::test(start_paused = true)]
async fn a_turn_ends_in_time() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let (section, count) = (TURN / 20, Arc::<AtomicU32>::default());
    crowd(&locks, &count, section);
    sleep(SECOND).await;
    let other = another(faults.store());
    for _ in 0..100 {
        let begun = Instant::now();
        let lease = mutex(&other).lock().await.unwrap();
        assert!(begun.elapsed() <= TURN + section * 2, "{:?}", begun.elapsed());
        lease.release().await.unwrap();
        sleep(TURN / 7).await;
    }
    assert!(count.load(Ordering::Relaxed) > 1_000);
}

/// A turn ends by number. If sections take no time, 64 tasks hold the lock in a row.
#[tokio::test(start_paused = true)]
async fn a_turn_ends_by_its_block_of_tokens() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let crowd = [(); 100].map(|()| mutex(&locks));
    let (first, waiters) = Box::pin(in_turn(&locks, crowd)).await;
    let other = waiter(mutex(&another(faults.store()))).await;
    faults.store().log();
    let (mut lease, mut count) = (first, 1);
    let token = lease.fence().unwrap().get();
    for waiter in waiters {
        lease.release().await.unwrap();
        settle().await;
        if !waiter.is_finished() {
            break;
        }
        (lease, count) = (waiter.await.unwrap().unwrap(), count + 1);
        assert_eq!(lease.fence().unwrap().get(), token + count - 1);
    }
    assert_eq!(count, 64);
    assert!(other.await.unwrap().unwrap().fence().unwrap().get() >= token + 64);
}

/// When a lease is held for longer than a turn, the next asks the store, and so has its
/// place among all waiters.
#[tokio::test(start_paused = true)]
async fn the_next_queues_when_the_turn_is_over() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let (first, [second, third]) = in_turn(&locks, [mutex(&locks), mutex(&locks)]).await;
    let queued = async || another(faults.store()).inspect("m").await.unwrap().waiting;
    sleep(TURN * 9 / 10).await;
    assert_eq!(queued().await, 0);
    sleep(TURN * 2 / 10).await;
    settle().await;
    assert_eq!(queued().await, 1);
    let late = waiter(mutex(&another(faults.store()))).await;
    sleep(SECOND).await;
    first.release().await.unwrap();
    let second = second.await.unwrap().unwrap();
    assert!(!late.is_finished());
    second.release().await.unwrap();
    let third = third.await.unwrap().unwrap();
    // It went from the second to the third in a turn, and then to the other client.
    third.release().await.unwrap();
    assert!(late.await.unwrap().unwrap().is_held());
}

/// Without waiters there is no turn, and nothing is left of it.
#[tokio::test(start_paused = true)]
async fn without_waiters_each_lease_is_released_to_the_store() {
    let (locks, faults) = Locks::in_memory_with_faults();
    for _ in 0..3 {
        faults.store().log();
        mutex(&locks).lock().await.unwrap().release().await.unwrap();
        assert_eq!(faults.store().log(), ["acquire", "release"]);
    }
    sleep(TTL).await;
    assert!(faults.store().log().is_empty());
}
