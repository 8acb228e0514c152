//! Waiting, as a user sees it.

use std::time::Duration;

use leasehold::{Lease, LockError, Released, Wait};
use leasehold_tests::backend::Backend;
use leasehold_tests::polls::is_pending;
use leasehold_tests::waiting::{OwnTime, until};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::{Client, SHORT, granted};

macro_rules! cases {
    ($case:path) => {
        $case! {
            waiting:
            a_try_does_not_wait,
            a_wait_ends_with_the_release,
            a_wait_ends_with_the_ttl_of_a_dead_holder,
            a_wait_ends_in_time,
            clients_are_served_in_order,
            a_semaphore_serves_clients_in_order,
            a_waiter_that_gives_up_is_passed_over,
            a_handed_over_lease_is_renewed,
            a_handed_over_lease_lasts_no_longer_than_its_ttl,
            a_handed_over_lease_can_be_kept,
            waiters_get_a_kept_lock_when_the_keeping_ends,
            a_raised_limit_lets_more_in,
            a_dropped_wait_leaves_nothing,
        }
    };
}
pub(super) use cases;

pub(super) async fn a_try_does_not_wait(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let lease = first.mutex("a").lock().await.unwrap();
    match second.mutex("a").try_lock().await {
        Err(LockError::Busy { key, retry_after, .. }) => {
            assert_eq!(key.name(), "a");
            assert!(retry_after > Duration::from_secs(20), "{retry_after:?}");
        }
        other => panic!("{other:?}"),
    }
    lease.release().await.unwrap();
}

pub(super) async fn a_wait_ends_with_the_release(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let lease = first.mutex("a").lock().await.unwrap();
    let waiter = tokio::spawn(async move { second.mutex("a").wait(Wait::Forever).lock().await });
    tokio::task::yield_now().await;
    assert!(!waiter.is_finished());
    lease.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

pub(super) async fn a_wait_ends_with_the_ttl_of_a_dead_holder(backend: &dyn Backend) {
    let locks = backend.locks().await;
    // Nobody renews or releases the lease.
    let (begun, own) = (Instant::now(), OwnTime::begin());
    granted(backend, &Client::new().mutex(SHORT * 2)).await;
    let lease = locks.mutex("a").lock().await.unwrap();
    let waited = begun.elapsed();
    assert!(waited >= SHORT * 2, "{waited:?}");
    assert!(
        own.passed() < Duration::from_secs(5),
        "it asked again when the TTL had passed: {waited:?}"
    );
    lease.release().await.unwrap();
}

pub(super) async fn a_wait_ends_in_time(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let lease = first.mutex("a").lock().await.unwrap();
    let begun = Instant::now();
    match second.mutex("a").wait(SHORT).lock().await {
        Err(LockError::TimedOut { waited, .. }) => assert!(waited >= SHORT, "{waited:?}"),
        other => panic!("{other:?}"),
    }
    assert!(begun.elapsed() >= SHORT);
    lease.release().await.unwrap();
    // The waiter leaves the queue in the background, at once.
    let lease = first.mutex("a").wait(Duration::from_secs(1)).lock().await.unwrap();
    lease.release().await.unwrap();
}

pub(super) async fn a_dropped_wait_leaves_nothing(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let lease = first.mutex("a").lock().await.unwrap();
    let waiting = tokio::time::timeout(SHORT, second.mutex("a").lock()).await;
    assert!(waiting.is_err());
    // It leaves the queue in the background.
    backend.until_queued("a", 0).await;
    lease.release().await.unwrap();
    let lease = first.mutex("a").try_lock().await.unwrap();
    lease.release().await.unwrap();
}

/// Starts a client that waits in `acquire`. Once granted, it sends its number with a sender, and
/// holds the lock until that sender is dropped.
async fn line_up<F: Future<Output = Lease> + Send + 'static>(
    granted: &mpsc::UnboundedSender<(u32, oneshot::Sender<()>)>,
    number: u32,
    acquire: F,
) {
    let granted = granted.clone();
    let mut waits = Box::pin(async move {
        let lease = acquire.await;
        let (done, release) = oneshot::channel();
        let _ = granted.send((number, done));
        let _ = release.await;
        lease.release().await.unwrap();
    });
    assert!(is_pending(&mut waits).await);
    tokio::spawn(waits);
}

async fn order_of(granted: &mut mpsc::UnboundedReceiver<(u32, oneshot::Sender<()>)>) -> Vec<u32> {
    let mut order = Vec::new();
    while let Some((number, _)) = granted.recv().await {
        order.push(number);
    }
    order
}

pub(super) async fn clients_are_served_in_order(backend: &dyn Backend) {
    let held = backend.locks().await.mutex("a").lock().await.unwrap();
    let (grants, mut granted) = mpsc::unbounded_channel();
    for number in 0..8 {
        let mutex = backend.locks().await.mutex("a").wait(Wait::Forever);
        line_up(&grants, number, async move { mutex.lock().await.unwrap() }).await;
        backend.until_queued("a", u64::from(number) + 1).await;
    }
    drop(grants);
    held.release().await.unwrap();
    assert_eq!(order_of(&mut granted).await, [0, 1, 2, 3, 4, 5, 6, 7]);
}

pub(crate) async fn a_semaphore_serves_clients_in_order(backend: &dyn Backend) {
    let held = backend.locks().await.semaphore("s", 3).acquire_many(3).await.unwrap();
    let (grants, mut granted) = mpsc::unbounded_channel();
    for (number, weight) in (0..).zip([2, 3, 1, 2, 3]) {
        let semaphore = backend.locks().await.semaphore("s", 3).wait(Wait::Forever);
        line_up(&grants, number, async move { semaphore.acquire_many(weight).await.unwrap() })
            .await;
        backend.until_queued("s", u64::from(number) + 1).await;
    }
    drop(grants);
    held.release().await.unwrap();
    for together in [vec![0], vec![1], vec![2, 3], vec![4]] {
        let mut inside = Vec::new();
        for _ in &together {
            inside.push(granted.recv().await.unwrap());
        }
        inside.sort_unstable_by_key(|(number, _)| *number);
        assert!(inside.iter().map(|(number, _)| number).eq(&together), "{together:?}");
        assert!(granted.try_recv().is_err(), "the next does not fit beside {together:?}");
    }
    assert!(granted.recv().await.is_none());
}

pub(super) async fn a_waiter_that_gives_up_is_passed_over(backend: &dyn Backend) {
    let held = backend.locks().await.mutex("a").lock().await.unwrap();
    let (first, second) = (backend.locks().await, backend.locks().await);
    let first = tokio::spawn(async move { first.mutex("a").wait(Wait::Forever).lock().await });
    backend.until_queued("a", 1).await;
    let second = tokio::spawn(async move { second.mutex("a").wait(Wait::Forever).lock().await });
    backend.until_queued("a", 2).await;
    first.abort();
    assert!(first.await.is_err());
    let begun = OwnTime::begin();
    held.release().await.unwrap();
    second.await.unwrap().unwrap().release().await.unwrap();
    assert!(begun.passed() < Duration::from_secs(1), "its offer was handed on at once");
}

pub(super) async fn a_handed_over_lease_is_renewed(backend: &dyn Backend) {
    // A busy machine may renew a second late.
    const TTL: Duration = Duration::from_secs(3);
    let (first, second) = (backend.locks().await, backend.locks().await);
    let held = first.mutex("a").lock().await.unwrap();
    let permit = first.semaphore("s", 1).acquire().await.unwrap();
    let waits = tokio::spawn(async move {
        let mutex = second.mutex("a").ttl(TTL).wait(Duration::from_secs(5));
        let semaphore = second.semaphore("s", 1).ttl(TTL).wait(Duration::from_secs(5));
        tokio::join!(mutex.lock(), semaphore.acquire())
    });
    backend.until_queued("a", 1).await;
    backend.until_queued("s", 1).await;
    held.release().await.unwrap();
    permit.release().await.unwrap();
    let (lease, permit) = waits.await.unwrap();
    let (lease, permit) = (lease.unwrap(), permit.unwrap());
    // Longer than the offer would have lasted, and than its TTL.
    let begun = Instant::now();
    let are_renewed = async || {
        let left = lease.remaining().min(permit.remaining());
        begun.elapsed() > TTL * 3 / 2 && left > TTL / 2
    };
    until("both are renewed", are_renewed).await;
    assert!(first.mutex("a").try_lock().await.is_err());
    assert!(first.semaphore("s", 1).try_acquire().await.is_err());
    assert!(lease.remaining() <= TTL, "{lease:?}");
    lease.release().await.unwrap();
    permit.release().await.unwrap();
    first.mutex("a").try_lock().await.unwrap().release().await.unwrap();
}

/// The heartbeat of the waiter lasts longer than the TTL.
pub(super) async fn a_handed_over_lease_lasts_no_longer_than_its_ttl(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let held = first.mutex("a").lock().await.unwrap();
    let mutex = second.mutex("a").ttl(SHORT).wait(Wait::Forever);
    let waits = tokio::spawn(async move {
        let lease = mutex.lock().await.unwrap();
        (lease.remaining(), lease.release().await)
    });
    backend.until_queued("a", 1).await;
    held.release().await.unwrap();
    let (remaining, released) = waits.await.unwrap();
    released.unwrap();
    assert!(remaining < SHORT, "{remaining:?}");
}

pub(super) async fn a_handed_over_lease_can_be_kept(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let held = first.mutex("a").lock().await.unwrap();
    let waits = tokio::spawn(async move {
        let mutex = second.mutex("a").wait(Duration::from_secs(5)).hold_at_least(SHORT);
        mutex.lock().await.unwrap().release().await
    });
    backend.until_queued("a", 1).await;
    let begun = Instant::now();
    held.release().await.unwrap();
    assert_eq!(waits.await.unwrap().unwrap(), Released::Kept);
    let is_kept = first.mutex("a").try_lock().await.is_err();
    assert!(is_kept || begun.elapsed() >= SHORT, "it is free at once");
    first.mutex("a").lock().await.unwrap().release().await.unwrap();
}

/// The waiter asked while it expected a longer hold. The test takes the median of several runs: the
/// machine may be busy, and a message may be lost.
pub(super) async fn waiters_get_a_kept_lock_when_the_keeping_ends(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let mut waited = Vec::new();
    while waited.len() < 5 {
        let asked = Instant::now();
        let held = first.mutex("a").hold_at_least(SHORT).lock().await.unwrap();
        let mutex = second.mutex("a").wait(Wait::Forever);
        let waits = tokio::spawn(async move { mutex.lock().await.unwrap() });
        backend.until_queued("a", 1).await;
        let released = held.release().await.unwrap();
        let begun = Instant::now();
        waits.await.unwrap().release().await.unwrap();
        if released == Released::Kept {
            waited.push(begun.elapsed());
        } else {
            assert!(asked.elapsed() >= SHORT, "it is not kept");
        }
    }
    waited.sort_unstable();
    println!("{waited:?}");
    assert!(waited[2] < SHORT * 3, "{waited:?}");
}

/// Each request is judged by its own limit: a new version of a service may have another.
pub(super) async fn a_raised_limit_lets_more_in(backend: &dyn Backend) {
    let (old, new) = (backend.locks().await, backend.locks().await);
    let first = old.semaphore("s", 1).acquire().await.unwrap();
    assert!(old.semaphore("s", 1).try_acquire().await.is_err());
    let second = new.semaphore("s", 2).try_acquire().await.unwrap();
    let waits = tokio::spawn(async move { old.semaphore("s", 1).acquire().await.unwrap() });
    backend.until_queued("s", 1).await;
    assert!(new.semaphore("s", 3).try_acquire().await.is_err(), "somebody waits");
    first.release().await.unwrap();
    let waiting = new.inspect("s").await.unwrap().waiting;
    assert_eq!(waiting, 1, "one is out, and that is its limit");
    second.release().await.unwrap();
    waits.await.unwrap().release().await.unwrap();
}
