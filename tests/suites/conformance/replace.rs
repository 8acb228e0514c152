//! A newer run takes the place of an older one.

use std::time::Duration;

use leasehold::{Lease, LeaseState, LockError, Locks, LossReason, Mutex};
use leasehold_tests::backend::Backend;
use leasehold_tests::waiting::OwnTime;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{LONG, SHORT};

macro_rules! cases {
    ($case:path) => {
        $case! {
            replace:
            a_newer_run_takes_the_place,
            a_newer_run_of_the_same_process_takes_the_place,
            each_of_several_is_replaced_by_the_next,
            a_try_replaces_nothing,
            a_plain_lock_is_not_replaced,
            a_run_that_is_slow_to_stop_keeps_the_lock,
            who_waits_first_replaces_at_once,
            a_run_is_replaced_at_the_end_of_its_tick,
            a_replaceable_lease_can_be_detached,
            a_run_that_nobody_renews_keeps_what_it_was_granted,
            a_shutdown_waits_for_a_run_that_stops,
        }
    };
}
pub(super) use cases;

/// Ends long after the tests.
const PATIENT: Duration = Duration::from_secs(60);
/// The length of a tick.
const PERIOD: Duration = Duration::from_millis(500);

fn mutex(locks: &Locks) -> Mutex {
    locks.mutex("a").ttl(LONG).wait(PATIENT).replace(true)
}

fn waiter(mutex: Mutex) -> JoinHandle<Result<Lease, LockError>> {
    tokio::spawn(async move { mutex.lock().await })
}

async fn lost(lease: &Lease) -> LossReason {
    timeout(PATIENT, lease.lost()).await.expect("it is lost")
}

async fn granted(waiter: JoinHandle<Result<Lease, LockError>>) -> Lease {
    timeout(PATIENT, waiter).await.expect("it gets the lock").unwrap().unwrap()
}

pub(super) async fn a_newer_run_takes_the_place(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let older = mutex(&here).lock().await.unwrap();
    let (fence, begun) = (older.fence().unwrap(), OwnTime::begin());
    let newer = waiter(mutex(&elsewhere));
    assert_eq!(lost(&older).await, LossReason::Replaced);
    assert_eq!(older.state(), LeaseState::Lost(LossReason::Replaced));
    assert!(!older.is_held() && older.fence().is_err());
    // It has the lock until its work has stopped.
    backend.pass(SHORT / 3).await;
    assert!(!newer.is_finished());
    let released = older.release().await;
    assert!(matches!(released, Err(LockError::Lost { reason: LossReason::Replaced, .. })));
    let newer = granted(newer).await;
    assert!(newer.fence().unwrap() > fence && newer.is_held());
    if backend.store().gives_hints() {
        assert!(begun.passed() < LONG, "{:?}", begun.passed());
    }
    newer.release().await.unwrap();
}

pub(super) async fn a_newer_run_of_the_same_process_takes_the_place(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let older = mutex(&locks).lock().await.unwrap();
    let newer = waiter(mutex(&locks));
    assert_eq!(lost(&older).await, LossReason::Replaced);
    drop(older);
    drop(granted(newer).await);
}

pub(super) async fn each_of_several_is_replaced_by_the_next(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let mut before = mutex(&locks).lock().await.unwrap();
    let mut newer = Vec::new();
    for _ in 0..4 {
        let locks = backend.locks().await;
        newer.push(waiter(mutex(&locks)));
        backend.until_queued("a", newer.len() as u64).await;
    }
    for newer in newer {
        assert_eq!(lost(&before).await, LossReason::Replaced);
        drop(before);
        before = granted(newer).await;
    }
    // Nobody waits for the last.
    backend.pass(SHORT / 3).await;
    assert!(before.is_held());
}

pub(super) async fn a_try_replaces_nothing(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let older = mutex(&here).lock().await.unwrap();
    for _ in 0..3 {
        let refused = mutex(&elsewhere).try_lock().await;
        assert!(matches!(refused, Err(LockError::Busy { .. })), "{refused:?}");
    }
    backend.pass(SHORT / 3).await;
    assert!(older.is_held());
    older.release().await.unwrap();
}

pub(super) async fn a_plain_lock_is_not_replaced(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let older = mutex(&here).replace(false).lock().await.unwrap();
    let newer = waiter(mutex(&elsewhere));
    backend.until_queued("a", 1).await;
    backend.pass(SHORT / 3).await;
    assert!(older.is_held());
    older.release().await.unwrap();
    drop(granted(newer).await);
}

/// Its lease is renewed until it has stopped.
pub(super) async fn a_run_that_is_slow_to_stop_keeps_the_lock(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let older = mutex(&here).ttl(SHORT).lock().await.unwrap();
    let newer = waiter(mutex(&elsewhere));
    assert_eq!(lost(&older).await, LossReason::Replaced);
    backend.pass(SHORT * 4).await;
    assert!(!newer.is_finished());
    drop(older);
    drop(granted(newer).await);
}

/// It waited before the lease that may be replaced began.
pub(super) async fn who_waits_first_replaces_at_once(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let plain = mutex(&here).replace(false).lock().await.unwrap();
    let first = waiter(mutex(&here));
    backend.until_queued("a", 1).await;
    let second = waiter(mutex(&elsewhere));
    backend.until_queued("a", 2).await;
    plain.release().await.unwrap();
    let first = granted(first).await;
    assert_eq!(lost(&first).await, LossReason::Replaced);
    drop(first);
    drop(granted(second).await);
}

pub(super) async fn a_run_is_replaced_at_the_end_of_its_tick(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let run = async |locks| mutex(locks).once_per(PERIOD).lock().await.unwrap();
    let older = run(&here).await;
    let tick = older.tick().unwrap();
    // A caller in the same tick, if it is still the same, waits and takes nothing.
    let newer = waiter(mutex(&elsewhere).once_per(PERIOD));
    assert_eq!(lost(&older).await, LossReason::Replaced);
    drop(older);
    let newer = granted(newer).await;
    let next = newer.tick().unwrap();
    assert!(next.began >= tick.began + PERIOD, "{tick:?}, {next:?}");
    // Without a waiter, too.
    assert_eq!(lost(&newer).await, LossReason::Replaced);
    drop(newer);
    let last = run(&here).await;
    assert!(last.tick().unwrap().began >= next.began + PERIOD);
}

pub(super) async fn a_replaceable_lease_can_be_detached(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let lease = mutex(&here).lock().await.unwrap();
    // Its mark is set, or is about to be.
    backend.pass(SHORT / 3).await;
    let ticket = lease.detach().await.unwrap();
    let adopted = elsewhere.adopt(ticket).await.unwrap();
    assert!(adopted.is_held());
    adopted.release().await.unwrap();
}

pub(super) async fn a_shutdown_waits_for_a_run_that_stops(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let older = mutex(&here).lock().await.unwrap();
    let newer = waiter(mutex(&elsewhere));
    assert_eq!(lost(&older).await, LossReason::Replaced);
    let shutdown = tokio::spawn(async move { here.shutdown().await });
    backend.pass(SHORT / 3).await;
    assert!(!shutdown.is_finished(), "its work may go on");
    drop(older);
    let report = timeout(PATIENT, shutdown).await.expect("nothing is left").unwrap();
    assert_eq!((report.released, report.left), (1, 0));
    granted(newer).await.release().await.unwrap();
}

/// It waited, so its grant was an offer, which lasts for a second until its first renewal.
pub(super) async fn a_run_that_nobody_renews_keeps_what_it_was_granted(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let before = here.mutex("a").ttl(PATIENT).lock().await.unwrap();
    let waits = elsewhere.mutex("a").ttl(PATIENT).wait(PATIENT).replace(true).auto_renew(false);
    let waits = waiter(waits);
    backend.until_queued("a", 1).await;
    before.release().await.unwrap();
    let lease = granted(waits).await;
    backend.pass(Duration::from_millis(1500)).await;
    assert!(lease.is_held());
    let other = here.mutex("a").try_lock().await;
    assert!(matches!(other, Err(LockError::Busy { .. })), "{other:?}");
    lease.release().await.unwrap();
}
