//! What a store knows of a job, and how its work runs again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::store::{Ask, Attempt, Kind, Note, Once, Success};
use leasehold::{JobInfo, LockError, Locks, Mutex};
use leasehold_tests::backend::Backend;
use leasehold_tests::waiting::{until, until_some};
use tokio::time::timeout;

use super::{Client, LONG};

macro_rules! cases {
    ($case:path) => {
        $case! {
            jobs:
            runs_without_a_success_are_counted,
            a_repeated_ask_is_one_run,
            a_run_is_shown_while_it_runs,
            work_without_ticks_is_no_job,
            missed_ticks_are_shown,
            done_work_runs_again,
            a_kept_lock_is_free_for_another_run,
            a_run_under_way_goes_on_and_counts,
            a_run_that_becomes_the_first_is_not_overdue,
            a_late_copy_of_a_completion_marks_nothing_again,
            a_sleeping_job_runs_again_at_once,
        }
    };
}
pub(super) use cases;

/// Ticks that do not end during a test, but once a year.
const AGE: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// A tick of a test that waits for its end.
const PERIOD: Duration = Duration::from_millis(300);
/// One that does not end while a few commands run.
const LONGER: Duration = Duration::from_secs(2);

fn once_per(locks: &Locks, name: &str, period: Duration) -> Mutex {
    locks.mutex(name).ttl(LONG).once_per(period)
}

async fn job(locks: &Locks, name: &str) -> Option<JobInfo> {
    locks.inspect(name).await.unwrap().job.map(|job| *job)
}

pub(super) async fn runs_without_a_success_are_counted(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    assert!(job(&here, "a").await.is_none());
    for count in 1..=3 {
        once_per(&here, "a", AGE).lock().await.unwrap().release().await.unwrap();
        let seen = job(&elsewhere, "a").await.unwrap();
        assert_eq!((&*seen.name, seen.failed_runs, seen.missed), ("a", count, 0));
        assert!(seen.failing_since.is_some() && seen.running.is_none() && !seen.is_overdue());
        assert_eq!((seen.tick, seen.last_success), (AGE, None));
    }
    once_per(&here, "a", AGE).lock().await.unwrap().complete().await.unwrap();
    let seen = job(&elsewhere, "a").await.unwrap();
    assert_eq!((seen.failed_runs, seen.failing_since, seen.tick), (0, None, AGE));
    assert!(seen.last_success.is_some_and(|last| last.tick.is_some()));
}

pub(super) async fn a_repeated_ask_is_one_run(backend: &dyn Backend) {
    let store = backend.store();
    let request = Client::new().request(Kind::Once(Once::per(AGE, Duration::ZERO)), LONG);
    for _ in 0..3 {
        let answer = store.acquire(&request, None).await.unwrap();
        assert!(matches!(answer, Attempt::GrantedTick { .. }), "{answer:?}");
    }
    let _ = store.release(&request, Duration::ZERO).await.unwrap();
    assert_eq!(job(&backend.locks().await, "a").await.unwrap().failed_runs, 1);
}

pub(super) async fn a_run_is_shown_while_it_runs(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let lease = once_per(&here, "a", AGE).note("TICKET-7").lock().await.unwrap();
    // Its client introduces itself in the background.
    let known = async || {
        let mut seen = job(&elsewhere, "a").await.unwrap();
        let running = seen.running.take().expect("it runs");
        running.client.is_some().then_some((seen, running))
    };
    let (seen, running) = until_some("its client is known", known).await;
    assert_eq!((running.note.as_deref(), seen.failed_runs), (Some("TICKET-7"), 0));
    assert_eq!(running.client.map(|client| client.process), Some(std::process::id()));
    lease.release().await.unwrap();
    // A holder of the lock that is no run.
    let _plain = here.mutex("a").lock().await.unwrap();
    let seen = job(&elsewhere, "a").await.unwrap();
    assert!(seen.running.is_none() && seen.failed_runs == 1, "{seen:?}");
}

pub(super) async fn work_without_ticks_is_no_job(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let mail = locks.mutex("mail").once(AGE);
    mail.lock().await.unwrap().release().await.unwrap();
    mail.lock().await.unwrap().complete().await.unwrap();
    assert!(job(&locks, "mail").await.is_none());
}

pub(super) async fn missed_ticks_are_shown(backend: &dyn Backend) {
    let locks = backend.locks().await;
    once_per(&locks, "a", PERIOD).lock().await.unwrap().complete().await.unwrap();
    let mut before = job(&locks, "a").await.unwrap();
    assert!(before.missed <= 1, "{before:?}");
    let are_missed = async || {
        let seen = job(&locks, "a").await.unwrap();
        assert!(seen.missed >= before.missed && seen.is_overdue() == (seen.missed > 0));
        before = seen;
        before.missed >= 3
    };
    until("three ticks are missed", are_missed).await;
}

pub(super) async fn done_work_runs_again(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    for mutex in [once_per(&here, "a", AGE), here.mutex("b").once(AGE)] {
        mutex.lock().await.unwrap().complete().await.unwrap();
        let Err(LockError::Done { completed, key, .. }) = mutex.try_lock().await else {
            panic!("it is done")
        };
        let again = elsewhere.run_again(&key, "ann", "TICKET-7: wrong totals").await.unwrap();
        assert_eq!((again.completed, again.is_running), (Some(completed), false));
        let asked = job(&here, key.name()).await.unwrap().asked_again.unwrap();
        assert_eq!((&*asked.by, asked.why.as_deref()), ("ann", Some("TICKET-7: wrong totals")));
        mutex.try_lock().await.unwrap().complete().await.unwrap();
        assert!(mutex.try_lock().await.unwrap_err().is_done());
        // It says so after the run, too.
        assert!(job(&here, key.name()).await.unwrap().asked_again.is_some());
    }
    let error = here.run_again("a", " ", "why").await.unwrap_err();
    assert!(matches!(error, LockError::InvalidOption { option: "by", .. }), "{error}");
    // A typing error makes no job.
    let nothing = here.run_again("c", "ann", "").await.unwrap();
    assert_eq!((nothing.completed, nothing.is_running), (None, false));
    assert!(job(&here, "c").await.is_none());
}

pub(super) async fn a_kept_lock_is_free_for_another_run(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let mutex = locks.mutex("a").ttl(LONG).hold_at_least(LONG);
    mutex.lock().await.unwrap().release().await.unwrap();
    let busy = mutex.try_lock().await.unwrap_err();
    assert!(matches!(busy, LockError::Busy { kept: true, .. }), "{busy}");
    let waiting = once_per(&locks, "a", AGE).wait(LONG);
    let waiter = tokio::spawn(async move { waiting.lock().await });
    backend.until_queued("a", 1).await;
    let again = locks.run_again("a", "ann", "").await.unwrap();
    assert_eq!((again.completed, again.is_running), (None, false));
    let lease = timeout(LONG, waiter).await.expect("it gets the lock").unwrap().unwrap();
    lease.complete().await.unwrap();
}

pub(super) async fn a_run_under_way_goes_on_and_counts(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    once_per(&here, "a", AGE).lock().await.unwrap().release().await.unwrap();
    let lease = once_per(&here, "a", AGE).lock().await.unwrap();
    let again = elsewhere.run_again("a", "ann", "").await.unwrap();
    assert_eq!((again.completed, again.is_running), (None, true));
    assert!(lease.is_held());
    // It is still shown, as the first.
    let seen = job(&elsewhere, "a").await.unwrap();
    assert!(seen.running.is_some() && seen.failed_runs == 0, "{seen:?}");
    lease.complete().await.unwrap();
    assert!(once_per(&here, "a", AGE).try_lock().await.unwrap_err().is_done());
}

/// The run of a later tick becomes the first, and its tick has not ended.
pub(super) async fn a_run_that_becomes_the_first_is_not_overdue(backend: &dyn Backend) {
    let locks = backend.locks().await;
    once_per(&locks, "a", LONGER).lock().await.unwrap().release().await.unwrap();
    let is_overdue = async || job(&locks, "a").await.unwrap().is_overdue();
    until("it is overdue", is_overdue).await;
    let lease = once_per(&locks, "a", LONGER).lock().await.unwrap();
    let again = locks.run_again("a", "ann", "").await.unwrap();
    let seen = job(&locks, "a").await.unwrap();
    assert!(again.is_running && !seen.is_overdue() && seen.missed == 0, "{seen:?}");
    lease.complete().await.unwrap();
}

pub(super) async fn a_late_copy_of_a_completion_marks_nothing_again(backend: &dyn Backend) {
    let (store, locks) = (backend.store(), backend.locks().await);
    let request = Client::new().request(Kind::Once(Once::For(AGE)), LONG);
    let answer = store.acquire(&request, None).await.unwrap();
    assert!(matches!(answer, Attempt::Granted { .. }), "{answer:?}");
    let complete = async || {
        let answer = store.complete(&request, Success::default()).expect("it can");
        let _ = answer.await.unwrap();
    };
    complete().await;
    let by = Note::new("ann").unwrap();
    let _ = store.run_again(&request.key, by, None).await.unwrap();
    complete().await;
    let _again = locks.mutex("a").once(AGE).try_lock().await.unwrap();
}

/// Where no messages come, it runs when it next asks.
pub(super) async fn a_sleeping_job_runs_again_at_once(backend: &dyn Backend) {
    if !backend.store().gives_hints() {
        return;
    }
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let runs = Arc::new(AtomicU64::new(0));
    let (counted, nightly) = (runs.clone(), once_per(&here, "nightly", AGE));
    let running = tokio::spawn(async move {
        let run = |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok::<(), LockError>(()) }
        };
        nightly.job().jitter(Duration::ZERO).run(run).await
    });
    for times in 1..4 {
        let has_run = async || {
            runs.load(Ordering::Relaxed) >= times
                && elsewhere.inspect("nightly").await.unwrap().last_success.is_some()
        };
        until("it has run", has_run).await;
        // It sleeps, or is about to.
        let again = elsewhere.run_again("nightly", "ann", "").await.unwrap();
        assert!(again.completed.is_some(), "{again:?}");
    }
    here.shutdown().await;
    running.await.unwrap().unwrap();
}
