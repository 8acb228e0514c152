//! The queue inside a process. On the server a client is one waiter for each lock.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::{Lease, LockError, Locks, Wait};
use leasehold_tests::backend::light_client;
use leasehold_tests::polls::is_pending;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::work_for;
use tokio::sync::mpsc;

use super::{queued, until_queued, waiter};

const TTL: Duration = Duration::from_secs(20);

/// An acquisition that is polled by hand.
fn locking(
    locks: &Locks,
    ttl: Duration,
) -> Pin<Box<dyn Future<Output = Result<Lease, LockError>> + Send>> {
    let mutex = locks.mutex("a").wait(Wait::Forever).ttl(ttl);
    Box::pin(async move { mutex.lock().await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_is_one_waiter_however_many_of_its_tasks_wait() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let (holder, locks) = (light_client(&server).await, light_client(&server).await);
    let held = holder.mutex("a").lock().await.unwrap();
    let (grants, mut granted) = mpsc::unbounded_channel();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..20 {
        let (locks, grants) = (locks.clone(), grants.clone());
        // In their order: each is polled once before the next is made.
        let mut waits = Box::pin(async move {
            let lease = locks.mutex("a").wait(Wait::Forever).lock().await.unwrap();
            grants.send(n).unwrap();
            lease.release().await.unwrap();
        });
        assert!(is_pending(&mut waits).await);
        tasks.spawn(waits);
    }
    until_queued(&mut redis, "a", 1).await;
    // A client that comes later is served after one of the other's tasks.
    let other = waiter(holder.clone(), "a");
    until_queued(&mut redis, "a", 2).await;
    held.release().await.unwrap();
    drop(grants);
    assert_eq!(granted.recv().await, Some(0));
    other.await.unwrap().release().await.unwrap();
    let mut order = vec![0];
    while let Some(n) = granted.recv().await {
        order.push(n);
        assert!(queued(&mut redis, "a").await <= 1);
    }
    assert!(order.is_sorted() && order.len() == 20, "{order:?}");
    tasks.join_all().await;
}

/// A semaphore has as many waiters as could be granted at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_semaphore_has_as_many_waiters_as_could_be_let_in() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let (holder, locks) = (light_client(&server).await, light_client(&server).await);
    let held = holder.semaphore("s", 4).acquire_many(4).await.unwrap();
    let inside = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (locks, inside) = (locks.clone(), inside.clone());
        tasks.spawn(async move {
            let permit = locks.semaphore("s", 4).wait(Wait::Forever).acquire().await.unwrap();
            let now = inside.0.fetch_add(1, Ordering::SeqCst) + 1;
            inside.1.fetch_max(now, Ordering::SeqCst);
            work_for(Duration::from_millis(20)).await;
            inside.0.fetch_sub(1, Ordering::SeqCst);
            permit.release().await.unwrap();
        });
    }
    until_queued(&mut redis, "s", 4).await;
    held.release().await.unwrap();
    tasks.join_all().await;
    assert_eq!(inside.1.load(Ordering::SeqCst), 4);
}

/// A waiter that gives up leaves its place in the server's queue to the next waiter of its process,
/// which is served before clients that came later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_gives_up_leaves_its_place_to_the_next_waiter() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let (holder, locks) = (light_client(&server).await, light_client(&server).await);
    let later = light_client(&server).await;
    let held = holder.mutex("a").lock().await.unwrap();
    let mut first = locking(&locks, TTL * 2);
    assert!(is_pending(&mut first).await);
    let mut next = locking(&locks, TTL);
    assert!(is_pending(&mut next).await);
    while queued(&mut redis, "a").await == 0 {
        assert!(is_pending(&mut first).await);
        tokio::task::yield_now().await;
    }
    let later = waiter(later, "a");
    until_queued(&mut redis, "a", 2).await;

    drop(first);
    let next = tokio::spawn(next);
    held.release().await.unwrap();
    let lease = next.await.unwrap().unwrap();
    assert!(lease.remaining() < TTL, "it runs by its own TTL: {lease:?}");
    assert!(!later.is_finished());
    lease.release().await.unwrap();
    later.await.unwrap().release().await.unwrap();
}

/// A wait in the process's own queue ends in time as well, and a try does not pass it.
#[tokio::test]
async fn a_wait_behind_others_of_the_process_ends_in_time() {
    let locks = Locks::in_memory();
    let held = locks.mutex("a").lock().await.unwrap();
    let mut first = locking(&locks, TTL);
    assert!(is_pending(&mut first).await);
    let behind = locks.mutex("a").wait(Duration::from_millis(20)).lock().await;
    assert!(matches!(behind, Err(LockError::TimedOut { .. })), "{behind:?}");
    let mut second = locking(&locks, TTL);
    assert!(is_pending(&mut second).await);
    held.release().await.unwrap();
    let tried = locks.mutex("a").try_lock().await;
    assert!(matches!(tried, Err(LockError::Busy { .. })), "{tried:?}");
    first.await.unwrap().release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
    locks.mutex("a").try_lock().await.unwrap().release().await.unwrap();
}

/// A guard in a variable is in the way of its own task's next call. The client knows that it has the lock,
/// and nobody else knows who waits for what.
#[tokio::test]
async fn a_wait_beside_a_lease_of_the_same_client_says_so() {
    let server = Server::start();
    let own = light_client(&server).await;
    for locks in [Locks::in_memory(), own.clone()] {
        let short = || locks.mutex("order:1").wait(Duration::from_millis(50));
        let kept = short().lock().await.unwrap();
        for _ in 0..2 {
            let error = short().lock().await.unwrap_err();
            assert!(matches!(error, LockError::TimedOut { held_by_client: true, .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains("this client itself holds it; a caller that keeps the lease in"));
        }
        let set = locks.all(["order:1", "order:2"]).wait(Duration::from_millis(50));
        let error = set.lock().await.unwrap_err();
        assert!(matches!(error, LockError::TimedOut { held_by_client: true, .. }), "{error}");
        kept.release().await.unwrap();
        short().lock().await.unwrap().release().await.unwrap();
    }
    let other = light_client(&server).await;
    let _kept = other.mutex("order:1").lock().await.unwrap();
    let _of_another_name = own.mutex("order:3").lock().await.unwrap();
    let error = own.mutex("order:1").wait(Duration::from_millis(50)).lock().await.unwrap_err();
    assert!(matches!(error, LockError::TimedOut { held_by_client: false, .. }), "{error}");
    assert!(error.to_string().contains("others held it"), "{error}");
}
