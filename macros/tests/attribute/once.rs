//! Bodies that are to succeed once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::{LockError, Locks, Tick, distributed_lock};

/// A message whose handler fails at first, by an error and by a panic.
#[distributed_lock(key = "mail:{id}", once = "24h")]
async fn mail(id: u32, runs: &AtomicU32) -> Result<u32, LockError> {
    match runs.fetch_add(1, Ordering::Relaxed) {
        0 => Err(LockError::NotInstalled),
        1 => panic!("on purpose"),
        run => Ok(run + id),
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_succeeded_is_done() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let locks = Locks::in_memory();
    let call = || tokio::spawn(locks.scope(mail(7, &RUNS)));
    assert!(matches!(call().await.unwrap(), Err(LockError::NotInstalled)));
    assert!(call().await.unwrap_err().is_panic());
    assert_eq!(call().await.unwrap().unwrap(), 9);
    for _ in 0..2 {
        let error = call().await.unwrap().unwrap_err();
        let LockError::Done { retry_after, .. } = &error else { panic!("{error}") };
        assert!(*retry_after > Duration::from_secs(24 * 60 * 60 - 60), "{error}");
    }
    assert_eq!(RUNS.load(Ordering::Relaxed), 3);
    tokio::time::advance(Duration::from_secs(24 * 60 * 60)).await;
    assert_eq!(call().await.unwrap().unwrap(), 10);
    assert_eq!(locks.scope(mail(8, &RUNS)).await.unwrap(), 12, "it is another message");
}

#[distributed_lock(key = "account:{id}", once_per = "1day")]
async fn close(id: u8) -> Result<u8, LockError> {
    debit(id).await
}

#[distributed_lock(key = "account:{id}", reentrant)]
async fn debit(id: u8) -> Result<u8, LockError> {
    Ok(id + 1)
}

#[tokio::test(start_paused = true)]
async fn a_call_inside_takes_its_callers_mutex() {
    assert_eq!(Locks::in_memory().scope(close(1)).await.unwrap(), 2);
}

/// A job of each hour, at half past.
#[distributed_lock(
    key = "hourly",
    once_per = "1h",
    offset = "30m",
    if_held = "skip",
    lease = lease
)]
async fn hourly() -> Option<Tick> {
    lease.tick()
}

#[tokio::test(start_paused = true)]
async fn a_tick_has_one_run() {
    let locks = Locks::in_memory();
    locks
        .scope(async {
            let first = hourly().await.expect("nobody has run in this tick");
            assert_eq!(first.missed, None);
            let since = first.began.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
            assert_eq!(since % 3600, 1800);
            assert_eq!(hourly().await, None, "it is skipped");
            tokio::time::advance(Duration::from_secs(3 * 3600)).await;
            let second = hourly().await.expect("three ticks later");
            assert_eq!(second.began, first.began + Duration::from_secs(3 * 3600));
            assert_eq!(second.missed, Some(2));
            assert_eq!(hourly().await, None);
        })
        .await;
}

/// A handler that says in its response that it has failed.
#[distributed_lock(key = "handler", once = "24h")]
async fn handler(runs: &AtomicU32) -> Result<u16, LockError> {
    runs.fetch_add(1, Ordering::Relaxed);
    Ok(500)
}

#[tokio::test(start_paused = true)]
async fn an_ok_is_a_success_whatever_is_inside() {
    let (locks, runs) = (Locks::in_memory(), AtomicU32::new(0));
    assert_eq!(locks.scope(handler(&runs)).await.unwrap(), 500);
    assert!(locks.scope(handler(&runs)).await.unwrap_err().is_done());
    assert_eq!(runs.into_inner(), 1);
}

/// The line of docs/guide/jobs.md.
#[distributed_lock(key = "billing-run", once_per = "1h", if_held = "skip", wait = "1m", lease = lease)]
async fn billing_run() -> Result<Option<Tick>, LockError> {
    Ok(lease.tick())
}

/// A scheduler calls it in each hour of its own clock, which is ahead of the store's or behind.
#[tokio::test(start_paused = true)]
async fn a_clock_that_differs_loses_no_tick() {
    let locks = Locks::in_memory();
    let probe = locks.mutex("billing-run").once_per(Duration::from_secs(3600));
    locks
        .scope(async {
            let mut last = billing_run().await.unwrap().expect("nobody has run in this tick");
            for is_ahead in [true, true, false, true, false, false] {
                let LockError::Done { retry_after, .. } = probe.try_lock().await.unwrap_err()
                else {
                    panic!("it was done");
                };
                let second = Duration::from_secs(1);
                let pause =
                    if is_ahead { retry_after.abs_diff(second) } else { retry_after + second };
                tokio::time::advance(pause).await;
                let tick = billing_run().await.unwrap().expect("this hour has had no run");
                assert_eq!(tick.began, last.began + Duration::from_secs(3600));
                assert_eq!((tick.missed, billing_run().await.unwrap()), (Some(0), None));
                last = tick;
            }
        })
        .await;
}

/// Called while it runs: the second call waits, and does not run again.
#[distributed_lock(key = "nightly:{date}", once = "1day")]
async fn nightly(date: &str, runs: &AtomicU32) -> Result<(), LockError> {
    runs.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let _ = date;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_is_told() {
    let runs = AtomicU32::new(0);
    let locks = Locks::in_memory();
    let call = || locks.scope(nightly("2026-11-22", &runs));
    let begun = tokio::time::Instant::now();
    let (first, second, third) = tokio::join!(call(), call(), call());
    first.unwrap();
    for other in [second, third] {
        assert!(other.unwrap_err().is_done());
    }
    assert_eq!(begun.elapsed().as_secs(), 2, "at once");
    assert_eq!(runs.into_inner(), 1);
}

/// A handler whose answers below 400 are successes.
#[distributed_lock(
    key = "answer",
    once = "24h",
    success = |answer| matches!(answer, Ok(status) if *status < 400)
)]
async fn answer(status: u16) -> Result<u16, LockError> {
    Ok(status)
}

/// A job that says by `None` that there is something left to do.
#[distributed_lock(key = "rest", once_per = "1h", if_held = "skip", success = Option::is_some)]
async fn rest(left: u32) -> Option<u32> {
    (left == 0).then_some(left)
}

#[tokio::test(start_paused = true)]
async fn a_function_says_which_results_are_successes() {
    let locks = Locks::in_memory();
    locks
        .scope(async {
            assert_eq!(answer(500).await.unwrap(), 500);
            assert_eq!(answer(404).await.unwrap(), 404);
            assert_eq!(answer(204).await.unwrap(), 204);
            assert!(answer(204).await.unwrap_err().is_done());
            assert_eq!(rest(1).await, None);
            assert_eq!(rest(0).await, Some(0));
            assert_eq!(rest(0).await, None, "it is skipped");
        })
        .await;
}

struct Least {
    pages: u32,
    text: String,
}

/// What counts as done is said by a part of an argument that the body uses whole.
#[distributed_lock(
    key = "index",
    once = "1h",
    success = {
        let pages = least.pages;
        move |result: &Result<u32, LockError>| result.as_ref().is_ok_and(|found| *found >= pages)
    }
)]
async fn index(least: Least, found: u32) -> Result<u32, LockError> {
    assert_eq!(least.text, "pages");
    Ok(found)
}

#[tokio::test]
async fn success_takes_a_part_of_an_argument() {
    let locks = Locks::in_memory();
    let call = |found| locks.scope(index(Least { pages: 3, text: "pages".to_owned() }, found));
    for found in [2, 2, 3] {
        assert_eq!(call(found).await.unwrap(), found);
    }
    assert!(call(3).await.unwrap_err().is_done());
}
