//! A closure under a lock: `run` of each kind and of sets, and `run_blocking`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use leasehold::{LeaseHandle, LeaseSetHandle, LockError, Locks, LossReason};
use leasehold_tests::polls::drop_after;
use tokio::time::sleep;

use super::{SECOND, TTL, another};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What a user's error type looks like.
#[derive(Debug)]
enum Failure {
    Lock(LockError),
    Declined,
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

fn reason(result: &Result<(), Failure>) -> Option<LossReason> {
    match result {
        Err(Failure::Lock(LockError::Lost { reason, .. })) => Some(*reason),
        _ => None,
    }
}

async fn is_free(locks: &Locks, name: &str) -> bool {
    let info = locks.inspect(name).await.unwrap();
    info.held == 0 && info.waiting == 0
}

/// A service spawns it.
#[tokio::test(start_paused = true)]
async fn each_kind_runs_a_closure_and_is_released() {
    let locks = Locks::in_memory();
    let held = |lease: LeaseHandle| {
        assert!(lease.is_held() && lease.ensure_held().is_ok());
        assert_eq!(LeaseHandle::current().unwrap().key(), lease.key());
        Ok::<_, Failure>(lease.key().name().to_owned())
    };
    let spawned = {
        let locks = locks.clone();
        tokio::spawn(async move {
            let mutex = locks.mutex("m").run(async |lease| held(lease)).await?;
            let reentrant = locks.reentrant_mutex("e").owner("o");
            let reentrant = reentrant.run(async |lease| held(lease)).await?;
            let permit = locks.semaphore("s", 4).run(async |lease| held(lease)).await?;
            let heavy = locks.semaphore("h", 4).run_many(4, async |lease| held(lease)).await?;
            let read = locks.rw_lock("r").run_read(async |lease| held(lease)).await?;
            let write = locks.rw_lock("w").run_write(async |lease| held(lease)).await?;
            let set = locks.all(["a", "b"]).run(async |leases| {
                assert_eq!(LeaseSetHandle::current().unwrap().len(), 2);
                leases.ensure_held().map_err(Failure::Lock)?;
                Ok::<_, Failure>(leases.len().to_string())
            });
            Ok::<_, Failure>([mutex, reentrant, permit, heavy, read, write, set.await?].concat())
        })
    };
    assert_eq!(spawned.await.unwrap().unwrap(), "meshrw2");
    for name in ["m", "e", "s", "h", "r", "w", "a", "b"] {
        assert!(is_free(&locks, name).await, "{name}");
    }
}

/// The closure's own error comes back as it is, and the lock is free for the next try.
#[tokio::test(start_paused = true)]
async fn work_that_fails_may_run_again_and_work_that_succeeds_may_not() {
    let locks = Locks::in_memory();
    let once = || locks.mutex("charge").once(DAY);
    let declined = once().run(async |_lease| Err::<(), _>(Failure::Declined)).await;
    assert!(matches!(declined, Err(Failure::Declined)), "{declined:?}");
    assert_eq!(once().run(async |_lease| Ok::<_, Failure>(7)).await.unwrap(), 7);
    let again = once().run(async |_lease| Ok::<_, Failure>(8)).await;
    assert!(matches!(&again, Err(Failure::Lock(error)) if error.is_done()), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn without_the_lock_the_work_does_not_begin() {
    let locks = Locks::in_memory();
    let _held = locks.all(["a", "b"]).lock().await.unwrap();
    let begins = async || -> Result<(), LockError> { panic!("it has no lock") };
    let refused = locks.mutex("a").wait(SECOND).run(async |_lease| begins().await);
    assert!(refused.await.unwrap_err().is_held_by_another());
    let set = locks.all(["b", "c"]).wait(SECOND);
    let refused = set.run(async |_leases| begins().await).await;
    assert!(refused.unwrap_err().is_held_by_another());
}

/// A set lets go of the leases that are not lost.
#[tokio::test(start_paused = true)]
async fn a_loss_drops_the_work() {
    let locks = Locks::in_memory();
    let take = async |name: &str| {
        sleep(SECOND).await;
        locks.force_release(name).await.unwrap()
    };
    let forever = async |_lease| {
        sleep(DAY).await;
        Ok::<(), Failure>(())
    };
    let mutex = locks.mutex("m");
    let (lost, _) = tokio::join!(mutex.run(forever), take("m"));
    assert_eq!(reason(&lost), Some(LossReason::Forced));
    let set = locks.all(["a", "b"]);
    let forever = async |_leases| {
        sleep(DAY).await;
        Ok::<(), Failure>(())
    };
    let (lost, _) = tokio::join!(set.run(forever), take("b"));
    assert_eq!(reason(&lost), Some(LossReason::Forced));
    assert!(is_free(&locks, "a").await);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_call_at_any_point_leaves_nothing() {
    for polls in 1.. {
        let (locks, faults) = Locks::in_memory_with_faults();
        faults.always(leasehold::Fault::Delay(Duration::from_millis(1)));
        let (mutex, set) = (locks.mutex("m").once(DAY), locks.all(["a", "b"]));
        let work = async {
            mutex
                .run(async |_lease| {
                    sleep(SECOND).await;
                    Ok::<_, LockError>(())
                })
                .await?;
            set.run(async |_leases| {
                sleep(SECOND).await;
                Ok::<_, LockError>(())
            })
            .await
        };
        let is_done = drop_after(polls, work).await.is_some();
        sleep(TTL).await;
        for name in ["m", "a", "b"] {
            assert!(is_free(&locks, name).await, "{name} after {polls} polls");
        }
        if is_done {
            assert!(polls > 6, "{polls}");
            break;
        }
    }
}

/// The thread of a blocking function, as the test sees it.
struct Thread {
    began: mpsc::Receiver<LeaseHandle>,
    go_on: mpsc::Sender<()>,
}

/// A function that says when it begins, and waits until it may go on.
fn blocking<T: Send + 'static>(
    then: impl FnOnce(&LeaseHandle) -> T + Send + 'static,
) -> (Thread, impl FnOnce(&LeaseHandle) -> T + Send + 'static) {
    let ((begins, began), (go_on, may_go_on)) = (channel(), channel());
    let work = move |lease: &LeaseHandle| {
        assert_eq!(LeaseHandle::current().unwrap().key(), lease.key());
        begins.send(lease.clone()).unwrap();
        may_go_on.recv().unwrap();
        then(lease)
    };
    (Thread { began, go_on }, work)
}

/// Another may hold the lock by then. The function asks, and its own answer counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_is_told_to_the_thread_and_the_call_waits_for_it() {
    let locks = Locks::in_memory();
    let lease = locks.mutex("m").lock().await.unwrap();
    let (thread, work) = blocking(|lease| {
        lease.ensure_held()?;
        Ok::<_, Failure>(())
    });
    let call = tokio::spawn(lease.run_blocking(work));
    let handle = thread.began.recv().unwrap();
    assert!(handle.ensure_held().is_ok());
    let _ = locks.force_release("m").await.unwrap();
    assert_eq!(handle.lost().await, LossReason::Forced);
    assert!(!call.is_finished(), "the thread is at work");
    thread.go_on.send(()).unwrap();
    assert_eq!(reason(&call.await.unwrap()), Some(LossReason::Forced));

    // It does not ask, and has done its work.
    let (thread, work) = blocking(|_lease| Ok::<_, Failure>(7));
    let call = tokio::spawn(locks.mutex("m").lock().await.unwrap().run_blocking(work));
    thread.began.recv().unwrap();
    let _ = locks.force_release("m").await.unwrap();
    thread.go_on.send(()).unwrap();
    assert_eq!(call.await.unwrap().unwrap(), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_call_keeps_the_lease_until_its_thread_has_ended() {
    let locks = Locks::in_memory();
    let mutex = || locks.mutex("m").once(DAY);
    let (thread, work) = blocking(|_lease| Ok::<_, Failure>(()));
    let call = tokio::spawn(mutex().lock().await.unwrap().run_blocking(work));
    thread.began.recv().unwrap();
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert!(mutex().try_lock().await.unwrap_err().is_held_by_another());
    thread.go_on.send(()).unwrap();
    // It is released, and not completed: nobody has the result.
    let next = mutex().wait(SECOND * 30).lock().await.unwrap();
    next.run_blocking(|_lease| Ok::<_, Failure>(())).await.unwrap();
    assert!(mutex().try_lock().await.unwrap_err().is_done());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_the_thread_releases_the_lock_and_goes_on() {
    let locks = Locks::in_memory();
    let leases = locks.all(["a", "b"]).lock().await.unwrap();
    let call = tokio::spawn(leases.run_blocking(|leases| {
        assert!(leases.ensure_held().is_err(), "on purpose");
        Ok::<_, Failure>(())
    }));
    assert!(call.await.unwrap_err().is_panic());
    let again = locks.all(["a", "b"]).wait(SECOND * 30).lock().await.unwrap();
    let len = again.run_blocking(|leases| {
        assert_eq!(LeaseSetHandle::current().unwrap().len(), 2);
        Ok::<_, Failure>(leases.len())
    });
    assert_eq!(len.await.unwrap(), 2);
    assert!(is_free(&locks, "a").await && is_free(&locks, "b").await);
}

/// All threads are busy, and the lease is lost before one is free.
#[test]
fn a_function_whose_lease_is_lost_is_not_called() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let locks = Locks::in_memory();
        let (go_on, may_go_on) = channel();
        let busy = tokio::task::spawn_blocking(move || may_go_on.recv().unwrap());
        let was_called = Arc::new(AtomicBool::new(false));
        let calls = was_called.clone();
        let lease = locks.mutex("m").lock().await.unwrap();
        let handle = lease.handle();
        let call = tokio::spawn(lease.run_blocking(move |_lease| {
            calls.store(true, Ordering::Relaxed);
            Ok::<_, Failure>(())
        }));
        let _ = locks.force_release("m").await.unwrap();
        handle.lost().await;
        go_on.send(()).unwrap();
        busy.await.unwrap();
        assert_eq!(reason(&call.await.unwrap()), Some(LossReason::Forced));
        assert!(!was_called.load(Ordering::Relaxed));
    });
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_outlives_its_lease_is_not_held() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("m").lock().await.unwrap();
    let handle = lease.handle();
    lease.release().await.unwrap();
    let _next = another(faults.store()).mutex("m").lock().await.unwrap();
    let LockError::Lost { reason, .. } = handle.ensure_held().unwrap_err() else { panic!() };
    assert_eq!(reason, LossReason::Released);
}

/// Nothing is borrowed from a handle that is made in the expression.
#[tokio::test(start_paused = true)]
async fn a_handle_may_be_a_temporary() {
    let locks = Locks::in_memory();
    let _held = locks.mutex("m").lock().await.unwrap();
    let spawned = tokio::spawn(locks.mutex("a").lock());
    tokio::select! {
        _ = locks.mutex("m").lock() => panic!("it is held"),
        _ = locks.together().permit("s", 1).lock() => {}
        _ = locks.mutex("m").lead(|_lease| std::future::pending::<()>()) => panic!("it is held"),
        _ = locks.semaphore("t", 1).run(async |_permit| {
            sleep(SECOND).await;
            Ok::<_, LockError>(())
        }) => panic!("it takes a second"),
        _ = locks.rate("m", leasehold::Rate::per_second(1)).acquire_many(2) => {}
    }
    spawned.await.unwrap().unwrap().release().await.unwrap();
}
