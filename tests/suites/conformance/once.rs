//! Work that is to succeed once: for a time, or in each tick.

use std::time::{Duration, SystemTime};

use leasehold::store::{Ask, Attempt, Ended, Kind, Once, Request, Success};
use leasehold::{Lease, LockError, Locks, LossReason, Mutex, Tick};
use leasehold_tests::backend::Backend;
use leasehold_tests::waiting::until_some;
use tokio::time::Instant;

use super::{Client, LIVE, LONG, SHORT, acquire, claims, released, waits};

macro_rules! cases {
    ($case:path) => {
        $case! {
            once:
            completed_work_is_done,
            the_last_success_is_shown,
            the_tick_of_the_last_success_is_shown,
            work_that_failed_runs_again,
            done_ends_with_its_time,
            waiters_are_told_that_it_is_done,
            a_waiter_runs_when_the_first_run_fails,
            a_completion_after_the_loss_is_refused,
            a_lease_without_the_option_completes_nothing,
            a_plain_waiter_gets_the_lock_of_a_completed_run,
            a_dropped_completion_completes,
            a_leader_leads_although_the_work_is_done,
            a_tick_is_done_until_the_next_begins,
            a_patient_call_waits_for_the_next_tick,
            a_call_waits_for_no_tick_that_begins_too_late,
            an_offset_shifts_the_ticks,
            weeks_begin_on_mondays,
            a_shorter_period_counts_from_the_last_success,
            a_longer_period_counts_from_the_last_success,
            another_time_counts_from_the_last_success,
            a_success_counts_for_the_other_way_to_count,
            a_run_that_outlasts_its_tick_does_not_spend_the_next,
            an_offer_of_work_that_is_done_goes_to_the_next,
            missed_ticks_are_counted,
            a_waiter_that_was_handed_the_lock_knows_its_tick,
            a_completion_may_be_sent_twice,
            a_late_completion_marks_nothing,
            a_late_copy_of_the_acquire_completes_nothing,
            a_late_copy_of_the_acquire_completes_no_tick,
            a_late_copy_of_the_acquire_denies_no_success,
            a_late_copy_of_the_acquire_of_a_completed_run_is_not_granted,
        }
    };
}
pub(super) use cases;

/// Longer than any of these tests.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const NEARLY_A_DAY: Duration = Duration::from_secs(24 * 60 * 60 - 60);
/// A tick of these tests.
const PERIOD: Duration = Duration::from_millis(400);

fn once(locks: &Locks) -> Mutex {
    locks.mutex("a").ttl(LONG).wait(LONG).once(DAY)
}

fn once_per(locks: &Locks) -> Mutex {
    locks.mutex("a").ttl(LONG).wait(LONG).once_per(PERIOD)
}

fn done(result: Result<Lease, LockError>) -> (SystemTime, SystemTime, Duration) {
    match result {
        Err(LockError::Done { completed, until, retry_after, .. }) => {
            (completed, until, retry_after)
        }
        other => panic!("{other:?}"),
    }
}

/// Completes a run in the next tick that it gets.
async fn complete(locks: &Locks) -> Tick {
    let lease = next_tick(locks).await;
    let tick = lease.tick().expect("it has ticks");
    lease.complete().await.unwrap();
    tick
}

/// A run once the work counts as done no more, which is after this time at the latest.
async fn not_done(mutex: &Mutex, within: Duration) -> Lease {
    let run = async || match mutex.try_lock().await {
        Err(LockError::Done { retry_after, .. }) => {
            assert!(retry_after <= within, "done for {retry_after:?}");
            None
        }
        other => Some(other.unwrap()),
    };
    until_some("it is not done any more", run).await
}

/// A run in the next tick.
async fn next_tick(locks: &Locks) -> Lease {
    not_done(&once_per(locks), PERIOD).await
}

pub(super) async fn completed_work_is_done(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    once(&here).lock().await.unwrap().complete().await.unwrap();
    for locks in [&here, &elsewhere] {
        let (completed, until, retry_after) = done(once(locks).try_lock().await);
        assert_eq!(until.duration_since(completed).unwrap(), DAY);
        assert!(retry_after <= DAY && retry_after > NEARLY_A_DAY);
        done(once(locks).lock().await);
    }
    let info = here.inspect("a").await.unwrap();
    assert!(info.holders.is_empty(), "{info:?}");
}

pub(super) async fn the_last_success_is_shown(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let shown = async || elsewhere.inspect("a").await.unwrap().last_success;
    assert_eq!(shown().await, None);
    let lease = once(&here).lock().await.unwrap();
    assert_eq!(shown().await, None, "it runs");
    lease.complete().await.unwrap();
    let (completed, until, _) = done(once(&here).try_lock().await);
    let success = shown().await.expect("it has succeeded");
    assert_eq!((success.completed, success.until, success.tick), (completed, until, None));
    assert!(success.counts_for <= DAY && success.counts_for > NEARLY_A_DAY, "{success:?}");

    // Another run, of another kind of once, is another holder; the success stays.
    let lease = elsewhere.mutex("a").lock().await.unwrap();
    let info = here.inspect("a").await.unwrap();
    assert_eq!((info.held, info.last_success.map(|it| it.completed)), (1, Some(completed)));
    let _ = here.force_release("a").await.unwrap();
    assert_eq!(shown().await.map(|it| it.completed), Some(completed));
    drop(lease);
}

/// Also when its tick is over, and another run has failed since.
pub(super) async fn the_tick_of_the_last_success_is_shown(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let tick = complete(&locks).await;
    next_tick(&locks).await.release().await.unwrap();
    let success = locks.inspect("a").await.unwrap().last_success.expect("it has succeeded");
    assert_eq!((success.tick, success.until), (Some(tick.began), tick.began + PERIOD));
    assert_eq!(success.counts_for, Duration::ZERO);
}

pub(super) async fn work_that_failed_runs_again(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    once(&here).lock().await.unwrap().release().await.unwrap();
    drop(once(&here).lock().await.unwrap());
    let lease = once(&elsewhere).lock().await.unwrap();
    let _ = elsewhere.force_release("a").await.unwrap();
    drop(lease);
    once(&here).lock().await.unwrap().complete().await.unwrap();
    done(once(&elsewhere).lock().await);
}

pub(super) async fn done_ends_with_its_time(backend: &dyn Backend) {
    const TIME: Duration = Duration::from_millis(200);
    let locks = backend.locks().await;
    let short = || locks.mutex("a").ttl(LONG).once(TIME);
    let begun = Instant::now();
    short().lock().await.unwrap().complete().await.unwrap();
    let lease = not_done(&short(), TIME).await;
    // On a busy machine its time may be over at the first look. It is never over sooner.
    let took = begun.elapsed();
    assert!(took + Duration::from_millis(1) >= TIME, "it was done for {took:?}");
    drop(lease);
}

pub(super) async fn waiters_are_told_that_it_is_done(backend: &dyn Backend) {
    let here = backend.locks().await;
    let lease = once(&here).lock().await.unwrap();
    let mut waiting = Vec::new();
    // Those of one process have one place in the queue.
    let local = (0..8).map(|_| once(&here));
    waiting.extend(local.map(|mutex| tokio::spawn(async move { mutex.lock().await })));
    backend.until_queued("a", 1).await;
    for nth in 2..=4 {
        let mutex = once(&backend.locks().await);
        waiting.push(tokio::spawn(async move { mutex.lock().await }));
        backend.until_queued("a", nth).await;
    }
    lease.complete().await.unwrap();
    for waiter in waiting {
        let (.., retry_after) = done(waiter.await.unwrap());
        assert!(retry_after > NEARLY_A_DAY);
    }
    assert!(here.inspect("a").await.unwrap().waiters.is_empty());
}

pub(super) async fn a_waiter_runs_when_the_first_run_fails(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let lease = once(&here).lock().await.unwrap();
    let first = lease.fence().unwrap();
    let mutex = once(&elsewhere);
    let waiter = tokio::spawn(async move { mutex.lock().await });
    backend.until_queued("a", 1).await;
    drop(lease);
    let lease = waiter.await.unwrap().unwrap();
    assert!(lease.fence().unwrap() > first);
    lease.complete().await.unwrap();
    done(once(&here).lock().await);
}

pub(super) async fn a_completion_after_the_loss_is_refused(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let lease = once(&here).lock().await.unwrap();
    let _ = elsewhere.force_release("a").await.unwrap();
    let error = lease.complete().await.unwrap_err();
    assert!(matches!(error, LockError::Lost { .. }), "{error}");
    let lease = once(&elsewhere).lock().await.unwrap();
    lease.release().await.unwrap();
}

pub(super) async fn a_lease_without_the_option_completes_nothing(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let error = locks.mutex("a").lock().await.unwrap().complete().await.unwrap_err();
    assert!(matches!(error, LockError::InvalidOption { option: "once", .. }), "{error}");
    drop(once(&locks).lock().await.unwrap());
}

pub(super) async fn a_plain_waiter_gets_the_lock_of_a_completed_run(backend: &dyn Backend) {
    let (here, elsewhere, third) =
        (backend.locks().await, backend.locks().await, backend.locks().await);
    let lease = once(&here).lock().await.unwrap();
    let (told, plain) = (once(&elsewhere), third.mutex("a").ttl(LONG).wait(LONG));
    let told = tokio::spawn(async move { told.lock().await });
    backend.until_queued("a", 1).await;
    let plain = tokio::spawn(async move { plain.lock().await });
    backend.until_queued("a", 2).await;
    lease.complete().await.unwrap();
    drop(plain.await.unwrap().unwrap());
    done(told.await.unwrap());
}

pub(super) async fn a_dropped_completion_completes(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let lease = once(&locks).lock().await.unwrap();
    let _ = leasehold_tests::polls::drop_after(1, lease.complete()).await;
    done(once(&locks).lock().await);
}

pub(super) async fn a_leader_leads_although_the_work_is_done(backend: &dyn Backend) {
    let locks = backend.locks().await;
    once(&locks).lock().await.unwrap().complete().await.unwrap();
    for _ in 0..2 {
        assert_eq!(once(&locks).lead(|_| async { 3 }).await.unwrap(), 3);
    }
    // Nor is a plain mutex of the name refused.
    locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    done(once(&locks).lock().await);
}

pub(super) async fn a_tick_is_done_until_the_next_begins(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let tick = complete(&locks).await;
    let since = tick.began.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(since.as_millis() % PERIOD.as_millis(), 0, "{since:?}");
    assert_eq!(tick.missed, None);
    assert!((tick.began..tick.began + PERIOD).contains(&tick.granted), "{tick:?}");
    // Unless the tick ended meanwhile.
    match once_per(&locks).try_lock().await {
        Err(LockError::Done { until, .. }) => assert_eq!(until, tick.began + PERIOD),
        other => {
            let lease = other.unwrap();
            assert!(lease.tick().unwrap().began > tick.began);
            // A drop would release it in the background, behind the next try.
            lease.release().await.unwrap();
        }
    }
    let next = next_tick(&locks).await;
    assert!(next.tick().unwrap().began >= tick.began + PERIOD);
    assert_eq!(next.handle().tick(), next.tick());
}

/// Its clock may be ahead of the store's, so that it asks before its tick begins.
pub(super) async fn a_patient_call_waits_for_the_next_tick(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let tick = complete(&locks).await;
    let lease = once_per(&locks).lock().await.unwrap();
    assert!(lease.tick().unwrap().began >= tick.began + PERIOD);
    lease.complete().await.unwrap();
}

pub(super) async fn a_call_waits_for_no_tick_that_begins_too_late(backend: &dyn Backend) {
    let locks = backend.locks().await;
    // The next tick begins in half a day.
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let job =
        locks.mutex("a").ttl(LONG).wait(DAY / 4).once_per(DAY).offset(since.abs_diff(DAY / 2));
    job.lock().await.unwrap().complete().await.unwrap();
    for _ in 0..2 {
        let (.., retry_after) = done(job.lock().await);
        assert!(retry_after > DAY / 4, "{retry_after:?}");
    }
}

pub(super) async fn an_offset_shifts_the_ticks(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let offset = Duration::from_millis(123);
    let lease = once_per(&locks).offset(offset).lock().await.unwrap();
    let since = lease.tick().unwrap().began.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(since.as_millis() % PERIOD.as_millis(), offset.as_millis());
}

pub(super) async fn weeks_begin_on_mondays(backend: &dyn Backend) {
    let locks = backend.locks().await;
    for (weeks, offset) in [(1, Duration::ZERO), (1, DAY * 2), (2, Duration::ZERO)] {
        let lease = locks.mutex("a").once_per(DAY * 7 * weeks).offset(offset);
        let lease = lease.lock().await.unwrap();
        let since = lease.tick().unwrap().began.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        lease.release().await.unwrap();
        // 5 January 1970 was a Monday.
        let (monday, week) = (since.abs_diff(DAY * 4 + offset), DAY * 7 * weeks);
        assert_eq!(monday.as_millis() % week.as_millis(), 0, "{since:?}");
    }
}

/// With this offset, ticks of a day begin hours before and after the test.
fn half_a_day_ago() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Duration::from_secs(since.abs_diff(DAY / 2).as_secs())
}

/// A job of each day.
fn once_a_day(locks: &Locks) -> Mutex {
    locks.mutex("a").ttl(LONG).wait(SHORT).once_per(DAY).offset(half_a_day_ago())
}

/// A deploy has made the period shorter.
pub(super) async fn a_shorter_period_counts_from_the_last_success(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let daily = once_a_day(&locks).lock().await.unwrap();
    let day = daily.tick().unwrap();
    daily.complete().await.unwrap();
    let lease = next_tick(&locks).await;
    // It is said in its own ticks what was missed since.
    let tick = lease.tick().unwrap();
    assert!(tick.began > day.began && tick.missed.is_some_and(|missed| missed < 1000), "{tick:?}");
    lease.complete().await.unwrap();
}

/// A deploy has made the period longer. The mark stays for as long as it counts now.
pub(super) async fn a_longer_period_counts_from_the_last_success(backend: &dyn Backend) {
    let locks = backend.locks().await;
    complete(&locks).await;
    backend.pass(PERIOD).await;
    let (completed, until, left) = done(once_a_day(&locks).lock().await);
    assert!(left > DAY / 4 && until > completed + DAY / 4, "{left:?}");
    next_tick(&locks).await.release().await.unwrap();
}

pub(super) async fn another_time_counts_from_the_last_success(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let short = Duration::from_millis(500);
    let brief = || locks.mutex("a").ttl(LONG).once(short);
    once(&locks).lock().await.unwrap().complete().await.unwrap();
    not_done(&brief(), short).await.complete().await.unwrap();
    // Longer again, if it asks while the mark is there.
    while let Ok(lease) = once(&locks).try_lock().await {
        lease.release().await.unwrap();
        if let Ok(lease) = brief().lock().await {
            lease.complete().await.unwrap();
        }
    }
    backend.pass(short * 2).await;
    let (completed, until, _) = done(once(&locks).try_lock().await);
    assert_eq!(until, completed + DAY);
}

pub(super) async fn a_success_counts_for_the_other_way_to_count(backend: &dyn Backend) {
    let locks = backend.locks().await;
    once(&locks).lock().await.unwrap().complete().await.unwrap();
    done(once_a_day(&locks).lock().await);
    next_tick(&locks).await.complete().await.unwrap();
    let (completed, until, _) = done(once(&locks).lock().await);
    assert_eq!(until, completed + DAY);
}

pub(super) async fn a_run_that_outlasts_its_tick_does_not_spend_the_next(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let lease = next_tick(&locks).await;
    let tick = lease.tick().unwrap();
    backend.pass(PERIOD).await;
    lease.complete().await.unwrap();
    let lease = once_per(&locks).try_lock().await.unwrap();
    let next = lease.tick().unwrap();
    assert!(next.began > tick.began);
    let ticks = next.began.duration_since(tick.began).unwrap().as_millis() / PERIOD.as_millis();
    assert_eq!(next.missed, Some(u64::try_from(ticks).unwrap() - 1));
}

pub(super) async fn missed_ticks_are_counted(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let first = complete(&locks).await;
    backend.pass(PERIOD * 3).await;
    // A run that fails is no success.
    next_tick(&locks).await.release().await.unwrap();
    let lease = next_tick(&locks).await;
    let tick = lease.tick().unwrap();
    let ticks = tick.began.duration_since(first.began).unwrap().as_millis() / PERIOD.as_millis();
    assert!(ticks >= 3);
    assert_eq!(tick.missed, Some(u64::try_from(ticks).unwrap() - 1));
}

pub(super) async fn a_waiter_that_was_handed_the_lock_knows_its_tick(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let lease = next_tick(&here).await;
    let first = lease.tick().unwrap();
    let mutex = once_per(&elsewhere);
    let waiter = tokio::spawn(async move { mutex.lock().await });
    backend.until_queued("a", 1).await;
    lease.release().await.unwrap();
    let lease = waiter.await.unwrap().unwrap();
    let tick = lease.tick().unwrap();
    assert!(tick.began >= first.began && tick.granted >= first.granted, "{tick:?}");
    assert!((tick.began..tick.began + PERIOD).contains(&tick.granted), "{tick:?}");
}

/// A request for work that is to succeed once.
fn request(client: &Client) -> Request {
    Request { kind: Kind::Once(Once::For(DAY)), ..client.mutex(LONG) }
}

async fn completed(backend: &dyn Backend, request: &Request) -> Ended {
    let success = Success::default();
    backend.store().complete(request, success).expect("it has a queue").await.unwrap()
}

pub(super) async fn a_completion_may_be_sent_twice(backend: &dyn Backend) {
    let client = Client::new();
    let run = request(&client);
    assert!(matches!(acquire(backend, &run).await, Attempt::Granted { .. }));
    assert!(matches!(acquire(backend, &run).await, Attempt::Granted { .. }), "a copy");
    for _ in 0..2 {
        assert_eq!(completed(backend, &run).await, Ended::Released);
    }
    // Somebody else has the lock meanwhile.
    let plain = client.mutex(LONG);
    assert!(matches!(acquire(backend, &plain).await, Attempt::Granted { .. }));
    assert_eq!(completed(backend, &run).await, Ended::Released);
}

/// The run outlasted its own tick, so it dismissed no waiters; for one of them it counts.
pub(super) async fn an_offer_of_work_that_is_done_goes_to_the_next(backend: &dyn Backend) {
    let client = Client::new();
    let per = |period, offset| Kind::Once(Once::Per { period, offset });
    let run = client.request(per(SHORT, Duration::ZERO), LONG);
    let Attempt::GrantedTick { token, tick } = acquire(backend, &run).await else {
        panic!("it is free");
    };
    let daily = client.request(per(DAY, half_a_day_ago()), LONG);
    let plain = client.mutex(LONG);
    for waiter in [&daily, &plain] {
        waits(backend, waiter, LIVE).await;
    }
    backend.pass(SHORT).await;
    let success = Success { tick: Some(tick), token: Some(token) };
    let completed = backend.store().complete(&run, success).expect("it has a queue").await;
    assert_eq!(completed.unwrap(), Ended::Released);
    for _ in 0..2 {
        let answer = acquire(backend, &daily).await;
        assert!(matches!(answer, Attempt::Done { .. } | Attempt::Ended), "{answer:?}");
    }
    claims(backend, &plain).await;
}

pub(super) async fn a_late_completion_marks_nothing(backend: &dyn Backend) {
    let client = Client::new();
    let [run, next] = [(); 2].map(|()| request(&client));
    assert!(matches!(acquire(backend, &run).await, Attempt::Granted { .. }));
    let _ =
        backend.store().force_release(&run.key, leasehold_tests::requests::force()).await.unwrap();
    assert_eq!(completed(backend, &run).await, Ended::NotHeld(LossReason::Taken));
    assert!(matches!(acquire(backend, &next).await, Attempt::Granted { .. }));
    assert_eq!(completed(backend, &run).await, Ended::NotHeld(LossReason::Taken));
    assert!(matches!(acquire(backend, &next).await, Attempt::Granted { .. }), "it still holds it");
}

pub(super) async fn a_late_copy_of_the_acquire_of_a_completed_run_is_not_granted(
    backend: &dyn Backend,
) {
    let client = Client::new();
    let [run, waiter] = [(); 2].map(|()| request(&client));
    assert!(matches!(acquire(backend, &run).await, Attempt::Granted { .. }));
    waits(backend, &waiter, LIVE).await;
    assert_eq!(completed(backend, &run).await, Ended::Released);
    let info = backend.store().inspect(&run.key).await.unwrap();
    assert_eq!(info.waiting, 0, "who waits for the work has left the queue");
    for late in [&run, &waiter] {
        let answer = acquire(backend, late).await;
        assert!(matches!(answer, Attempt::Done { .. }), "{answer:?}");
    }
    let info = backend.store().inspect(&run.key).await.unwrap();
    assert_eq!((info.waiting, info.held), (0, 0));
}

pub(super) async fn a_late_copy_of_the_acquire_completes_nothing(backend: &dyn Backend) {
    complete_after_a_late_grant(backend, Once::For(DAY)).await;
}

pub(super) async fn a_late_copy_of_the_acquire_completes_no_tick(backend: &dyn Backend) {
    complete_after_a_late_grant(backend, Once::per(DAY, Duration::ZERO)).await;
}

/// The answer to a completion was lost. When it is sent again, the work counts as done no more, others have
/// had the lock, and a late copy of the ask was granted.
pub(super) async fn a_late_copy_of_the_acquire_denies_no_success(backend: &dyn Backend) {
    let (client, other) = (Client::new(), Client::new());
    let kind = Kind::Once(Once::per(SHORT, Duration::ZERO));
    let (run, next) = (client.request(kind, LONG), other.request(kind, LONG));
    let granted = async |request: &Request| match acquire(backend, request).await {
        Attempt::GrantedTick { token, tick } => Success { tick: Some(tick), token: Some(token) },
        other => panic!("{other:?}"),
    };
    let success = granted(&run).await;
    let complete = async || backend.store().complete(&run, success).unwrap().await.unwrap();
    assert_eq!(complete().await, Ended::Released);
    backend.pass(SHORT).await;
    granted(&next).await;
    let _ = released(backend, &next).await;
    granted(&run).await; // a late copy
    assert_eq!(complete().await, Ended::Released);
    granted(&next).await;
}

/// A client that has not noticed the end of its lease completes the work, after a late copy of its
/// ask was granted.
async fn complete_after_a_late_grant(backend: &dyn Backend, once: Once) {
    let (client, other) = (Client::new(), Client::new());
    let kind = Kind::Once(once);
    let (run, next) = (client.request(kind, SHORT), other.request(kind, LONG));
    let granted = async |request: &Request| match acquire(backend, request).await {
        Attempt::Granted { token } => Success { tick: None, token: Some(token) },
        Attempt::GrantedTick { token, tick } => Success { tick: Some(tick), token: Some(token) },
        other => panic!("{other:?}"),
    };
    let complete = async |request: &Request, success| {
        let command = backend.store().complete(request, success).expect("it has a queue");
        command.await.unwrap()
    };
    let first = granted(&run).await;
    backend.pass(SHORT).await;
    let late = Request { ttl: LONG, ..run };
    assert!(granted(&late).await.token > first.token);
    assert_eq!(complete(&late, first).await, Ended::NotHeld(LossReason::Taken));
    // The late grant has ended, and nothing counts as done.
    let success = granted(&next).await;
    assert_eq!(complete(&next, success).await, Ended::Released);
    assert_eq!(complete(&next, success).await, Ended::Released, "a copy");
    assert!(matches!(acquire(backend, &late).await, Attempt::Done { .. }));
}
