//! Futures that are ready at once still yield to the runtime's other tasks.

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use leasehold::{Fault, LockError, LockLayer, Locks, Step};
use leasehold_tests::polls::is_pending;
use leasehold_tests::waiting::work_for;
use tokio::task::coop::{consume_budget, has_budget_remaining, unconstrained};
use tokio::task::{JoinSet, LocalSet, yield_now};
use tower::{Layer, ServiceExt, service_fn};

/// The work that tokio lets a task do without a pause.
const BUDGET: usize = 128;

/// More than that.
const TURNS: usize = 1_000;

/// Takes turns that are ready at once, beside another task on the same thread. The other task must
/// run as well.
async fn leaves_turns(what: &str, mut turn: impl AsyncFnMut()) {
    let turns = Rc::new(Cell::new(0));
    let tasks = LocalSet::new();
    let others = turns.clone();
    tasks.spawn_local(async move {
        loop {
            others.set(others.get() + 1);
            yield_now().await;
        }
    });
    tasks
        .run_until(async {
            for _ in 0..TURNS {
                turn().await;
            }
        })
        .await;
    assert!(turns.get() > 1, "{what}: the other task had {} turns", turns.get());
}

#[tokio::test]
async fn acquiring_and_releasing_leaves_turns() {
    let locks = Locks::in_memory();
    let mutex = locks.mutex("m");
    leaves_turns("a mutex, released", async || {
        mutex.lock().await.unwrap().release().await.unwrap();
    })
    .await;
    leaves_turns("a mutex, dropped", async || drop(mutex.lock().await.unwrap())).await;
    leaves_turns("a try", async || drop(mutex.try_lock().await.unwrap())).await;
    let reentrant = locks.reentrant_mutex("e").owner("o");
    let held = reentrant.lock().await.unwrap();
    leaves_turns("a hold", async || drop(reentrant.lock().await.unwrap())).await;
    drop(held);
    let permits = locks.semaphore("s", 4);
    leaves_turns("a permit", async || drop(permits.acquire().await.unwrap())).await;
    leaves_turns("permits", async || drop(permits.try_acquire_many(3).await.unwrap())).await;
    let rw = locks.rw_lock("r");
    leaves_turns("a reader", async || drop(rw.read().await.unwrap())).await;
    leaves_turns("a writer", async || drop(rw.try_write().await.unwrap())).await;
    let all = locks.all(["x", "y"]);
    leaves_turns("several", async || drop(all.lock().await.unwrap())).await;
    leaves_turns("several, tried", async || {
        all.try_lock().await.unwrap().release().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn being_refused_leaves_turns() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let mutex = locks.mutex("m");
    let held = mutex.lock().await.unwrap();
    let busy = async || {
        let refused = mutex.try_lock().await;
        assert!(matches!(refused, Err(LockError::Busy { .. })), "{refused:?}");
    };
    leaves_turns("a lock that is held", busy).await;
    {
        let waits = |locks: &Locks| {
            let mutex = locks.mutex("m").wait(Duration::from_secs(3600));
            Box::pin(async move { mutex.lock().await })
        };
        let mut waiters = [waits(&locks), waits(&locks)];
        for waiter in &mut waiters {
            assert!(is_pending(waiter).await);
        }
        faults.store().log();
        leaves_turns("a lock that others of the process wait for", busy).await;
        assert_eq!(faults.store().log(), Vec::<&str>::new(), "the store was not asked");
    }
    let invalid = async |locks: &Locks| locks.mutex("").lock().await.unwrap_err();
    leaves_turns("a name that is not allowed", async || drop(invalid(&locks).await)).await;
    faults.on(Step::Acquire).always(Fault::Refuse);
    let refused = async || assert!(mutex.try_lock().await.is_err());
    leaves_turns("a store that refuses", refused).await;
    drop(held);
    locks.shutdown().await;
    for kind in ["one", "several"] {
        leaves_turns("a client that was shut down", async || {
            let refused = match kind {
                "one" => mutex.lock().await.unwrap_err(),
                _ => locks.all(["x", "y"]).lock().await.unwrap_err(),
            };
            assert!(matches!(refused, LockError::ShutDown), "{refused}");
        })
        .await;
    }
}

#[tokio::test]
async fn using_a_lease_leaves_turns() {
    let locks = Locks::in_memory();
    let lease = locks.mutex("m").lock().await.unwrap();
    leaves_turns("renewing", async || lease.renew().await.unwrap()).await;
    leaves_turns("looking", async || drop(locks.inspect("m").await.unwrap())).await;
    leaves_turns("asking", async || assert!(!locks.is_held_by("m", "o").await.unwrap())).await;
    leaves_turns("taking by force", async || _ = locks.force_release("m").await.unwrap()).await;
    assert!(lease.renew().await.is_err());
    leaves_turns("its loss", async || _ = lease.lost().await).await;
    let mut ticket = Some(locks.mutex("t").lock().await.unwrap().detach().await.unwrap());
    leaves_turns("adopting", async || {
        let lease = locks.adopt(ticket.take().unwrap()).await.unwrap();
        ticket = Some(lease.detach().await.unwrap());
    })
    .await;
}

/// A loop that never waits, beside a timer of the same thread.
#[tokio::test]
async fn timers_go_on_beside_a_loop() {
    let locks = Locks::in_memory();
    let timer = tokio::spawn(work_for(Duration::from_millis(1)));
    for turn in 0.. {
        if timer.is_finished() {
            break;
        }
        assert!(turn < 1_000_000, "the timer stands still");
        locks.mutex("m").lock().await.unwrap().release().await.unwrap();
    }
}

/// A task that opted out of the budget is not counted.
#[tokio::test]
async fn an_unconstrained_loop_is_not_interrupted() {
    let locks = Locks::in_memory();
    let turns = Arc::new(AtomicUsize::new(0));
    let others = turns.clone();
    let other = tokio::spawn(async move { others.fetch_add(1, Ordering::SeqCst) });
    unconstrained(async {
        for _ in 0..TURNS {
            locks.mutex("m").lock().await.unwrap().release().await.unwrap();
        }
    })
    .await;
    assert_eq!(turns.load(Ordering::SeqCst), 0);
    other.await.unwrap();
}

/// A dropped lease is free at once, whatever its task has done before.
#[tokio::test]
async fn a_drop_needs_no_turn() {
    let locks = Locks::in_memory();
    for turn in 0..TURNS {
        let lease = unconstrained(locks.mutex("m").lock()).await.unwrap();
        // It uses up what the task may do.
        while has_budget_remaining() {
            consume_budget().await;
        }
        drop(lease);
        let again = unconstrained(locks.mutex("m").try_lock()).await;
        assert!(again.is_ok(), "turn {turn}: {again:?}");
        yield_now().await;
    }
}

/// At most 32 requests ask at the same time, fewer than there are permits.
#[tokio::test]
async fn requests_that_never_wait_use_up_no_permits() {
    let locks = Locks::in_memory();
    let layer = LockLayer::semaphore(&locks, "s", 100);
    let service = layer.layer(service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(http_body_util::Empty::<bytes::Bytes>::new()))
    }));
    let service = service.boxed_clone();
    let mut tasks = JoinSet::new();
    for _ in 0..32 {
        let service = service.clone();
        tasks.spawn(async move {
            for _ in 0..TURNS {
                let request = Request::new(());
                let response = service.clone().oneshot(request).await.unwrap();
                assert_eq!(response.status(), StatusCode::OK);
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}

/// A dropped acquisition that had yielded leaves nothing held.
#[tokio::test]
async fn a_dropped_acquisition_leaves_nothing() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let another = Locks::over(faults.store().clone());
    let mut interrupted = 0;
    for used in 0..=BUDGET {
        yield_now().await;
        for _ in 0..used {
            consume_budget().await;
        }
        let mutex = locks.mutex("m");
        if is_pending(&mut Box::pin(mutex.lock())).await {
            interrupted += 1;
        }
        let free = unconstrained(another.mutex("m").try_lock()).await;
        assert!(free.is_ok(), "after {used}: {free:?}");
    }
    assert!(interrupted > 0, "the budget interrupts nothing");
}
