//! Outside of a Tokio runtime, and in one without timers: each first call says what is missing, and
//! what was acquired before can be dropped and released.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use leasehold::{Fault, Lease, LeaseSet, LockError, Locks, Wait, distributed_lock};
use leasehold_tests::server::Server;
use tokio::runtime::{Builder, Runtime};

fn timed() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Runs a call where there are no timers: in no runtime, or in one that has none.
fn run<T>(has_runtime: bool, call: impl Future<Output = T>) -> T {
    if has_runtime {
        Builder::new_current_thread().enable_io().build().unwrap().block_on(call)
    } else {
        call.now_or_never().expect("it has nothing to wait for")
    }
}

#[track_caller]
fn assert_says_so<T: std::fmt::Debug>(answer: Result<T, LockError>) {
    let error = answer.expect_err("it can't wait");
    let text = error.to_string();
    assert!(matches!(error, LockError::NoRuntime), "{error:?}");
    assert!(text.contains("call it inside a Tokio runtime"), "{text}");
}

#[distributed_lock(key = "a", locks = locks)]
async fn guarded(locks: &Locks) -> Result<(), LockError> {
    Ok(())
}

/// Each call of a client whose locks are free.
fn first_calls(locks: &Locks, has_runtime: bool) {
    let mutex = locks.mutex("a");
    assert_says_so(run(has_runtime, mutex.lock()));
    assert_says_so(run(has_runtime, mutex.try_lock()));
    assert_says_so(run(has_runtime, mutex.clone().wait(Wait::Forever).lock()));
    assert_says_so(run(has_runtime, mutex.clone().linger(Duration::from_secs(1)).lock()));
    let once = mutex.clone().once(Duration::from_secs(1));
    assert_says_so(run(has_runtime, once.lock()));
    let semaphore = locks.semaphore("s", 2);
    assert_says_so(run(has_runtime, semaphore.acquire()));
    assert_says_so(run(has_runtime, semaphore.try_acquire_many(2)));
    let rw = locks.rw_lock("r");
    assert_says_so(run(has_runtime, rw.read()));
    assert_says_so(run(has_runtime, rw.try_read()));
    assert_says_so(run(has_runtime, rw.write()));
    assert_says_so(run(has_runtime, rw.try_write()));
    let reentrant = locks.reentrant_mutex("m").owner("o");
    assert_says_so(run(has_runtime, reentrant.lock()));
    assert_says_so(run(has_runtime, reentrant.try_lock()));
    assert_says_so(run(has_runtime, locks.all(["a", "b"]).lock()));
    assert_says_so(run(has_runtime, locks.all(["a", "b"]).try_lock()));
    assert_says_so(run(has_runtime, mutex.lead(|_| async {})));
    let mut election = mutex.election();
    assert_says_so(run(has_runtime, election.lead(|_| async {})));
    assert_says_so(run(has_runtime, guarded(locks)));
}

/// What a lease that was acquired in another runtime does here.
fn later_calls(locks: &Locks, has_runtime: bool) {
    let runtime = timed();
    let lease = || -> Lease { runtime.block_on(locks.mutex("a").lock()).unwrap() };
    let held = lease();
    assert_says_so(run(has_runtime, held.run(async {})));
    for lost in [&held, &held] {
        let handle = lost.handle();
        let waits = || run(has_runtime, async { handle.lost().now_or_never() });
        let panic = catch_unwind(AssertUnwindSafe(waits)).unwrap_err();
        let text = panic.downcast_ref::<String>().expect("a text");
        assert!(text.contains("call it inside a Tokio runtime"), "{text}");
    }
    let ticket = runtime.block_on(held.detach()).unwrap();
    assert_says_so(run(has_runtime, locks.adopt(ticket.clone())));
    drop(runtime.block_on(locks.adopt(ticket)).unwrap());
    assert_says_so(run(has_runtime, lease().detach()));
    drop(lease());
    let leases: LeaseSet = runtime.block_on(locks.all(["a", "b"]).lock()).unwrap();
    assert_says_so(run(has_runtime, leases.run(async {})));
    // With a waiter in the process, whose turn it is next.
    drop(leases);
    let (first, patient) = (lease(), locks.mutex("w"));
    let waited_for = runtime.block_on(patient.lock()).unwrap();
    let mut waiter = pin!(patient.lock());
    let guard = runtime.enter();
    assert!(waiter.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(guard);
    run(has_runtime, async { drop((first, waited_for)) });
    drop(runtime.block_on(waiter).unwrap());
    let lingers = locks.mutex("l").linger(Duration::from_secs(1));
    let lease = runtime.block_on(lingers.lock()).unwrap();
    run(has_runtime, async { drop(lease) });
}

fn in_memory(has_runtime: bool) {
    let locks = Locks::in_memory();
    first_calls(&locks, has_runtime);
    later_calls(&locks, has_runtime);
    let lease = timed().block_on(locks.mutex("left").lock()).unwrap();
    assert_eq!(run(has_runtime, locks.shutdown()).left, 1);
    drop(lease);
}

#[test]
fn outside_of_a_runtime_each_call_says_so() {
    in_memory(false);
}

#[test]
fn in_a_runtime_without_timers_each_call_says_so() {
    in_memory(true);
}

/// The release and its retries would need timers.
#[test]
fn a_failed_release_without_timers_does_not_panic() {
    for fault in [Fault::Unreachable, Fault::Delay(Duration::from_secs(9)), Fault::LoseReply] {
        let (locks, faults) = Locks::in_memory_with_faults();
        let lease = timed().block_on(locks.mutex("a").lock()).unwrap();
        faults.always(fault);
        run(true, async { drop(lease) });
    }
}

#[test]
fn a_client_of_a_server_says_so_too() {
    let server = Server::start();
    let url = server.url();
    for has_runtime in [false, true] {
        assert_says_so(run(has_runtime, Locks::connect(&url)));
        assert_says_so(run(has_runtime, Locks::quorum([&url, &url, &url])));
        let runtime = timed();
        let locks = runtime.block_on(Locks::connect(&url)).unwrap();
        first_calls(&locks, has_runtime);
        later_calls(&locks, has_runtime);
        first_calls(&Locks::connect_lazy(&url).unwrap(), has_runtime);
    }
    // It waits for the releases by the timers of its own thread.
    let locks = timed().block_on(Locks::connect(&url)).unwrap();
    drop(timed().block_on(locks.mutex("left").lock()).unwrap());
    let report = Builder::new_current_thread().build().unwrap().block_on(locks.shutdown());
    assert_eq!(report.left, 0);
}
