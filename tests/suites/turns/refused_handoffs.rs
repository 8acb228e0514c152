//! Hand-offs that are refused, and their leftovers.

use std::pin::Pin;
use std::time::Duration;

use leasehold::{Fault, Lease, LockError, Locks, LossReason, Step};
use leasehold_tests::polls::is_pending;
use tokio::time::{Instant, advance, sleep, timeout};

use super::{SECOND, TTL, TURN, another, in_turn, mutex, settle, waiter};

const TOKENS: u64 = leasehold::store::TOKENS;

/// A refused hand-off lets the next waiter ask at once, even if the store is slow.
#[tokio::test(start_paused = true)]
async fn a_waiter_without_a_hand_off_asks_at_once() {
    for is_dropped in [true, false] {
        let (locks, faults) = Locks::in_memory_with_faults();
        let longer = mutex(&locks).ttl(TTL * 2);
        let (first, [second, third]) = in_turn(&locks, [mutex(&locks), longer]).await;
        // The second waiter was the next, and the turn has begun.
        second.abort();
        settle().await;
        faults.on(Step::Release).next(Fault::Delay(SECOND));
        let begun = Instant::now();
        if is_dropped {
            drop(first);
        } else {
            tokio::spawn(first.release());
        }
        assert!(third.await.unwrap().unwrap().is_held());
        assert_eq!(begun.elapsed(), Duration::ZERO, "dropped: {is_dropped}");
    }
}

/// The turn ends by its time, although nobody ran to end it.
#[tokio::test(start_paused = true)]
async fn a_turn_does_not_continue_after_a_standstill() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let (first, [second]) = in_turn(&locks, [mutex(&locks)]).await;
    faults.store().log();
    // Nobody is polled before it is dropped.
    let standstill = Box::pin(advance(TURN));
    futures_util::FutureExt::now_or_never(standstill);
    drop(first);
    assert!(second.await.unwrap().unwrap().is_held());
    assert!(faults.store().log().starts_with(&["release", "acquire"]));
}

/// All leases of a turn are one request. If an ask of it got no answer, the cancel comes after the
/// end of the last lease, and not before.
#[tokio::test(start_paused = true)]
async fn a_suspect_lease_is_cancelled_after_the_last_holder() {
    for is_dropped in [false, true] {
        let (locks, faults) = Locks::in_memory_with_faults();
        faults.on(Step::Acquire).pass(1);
        faults.on(Step::Acquire).next(Fault::LoseReply);
        let (first, [second]) = in_turn(&locks, [mutex(&locks)]).await;
        faults.store().log();
        drop(first);
        let second = second.await.unwrap().unwrap();
        assert_eq!(faults.store().log(), Vec::<&str>::new(), "it was handed over");
        sleep(SECOND * 60).await;
        assert!(second.is_held());
        assert!(faults.store().log().iter().all(|sent| *sent == "renew"));
        if is_dropped {
            drop(second);
        } else {
            second.release().await.unwrap();
        }
        settle().await;
        assert_eq!(faults.store().log(), ["release"]);
        sleep(SECOND * 16).await;
        assert_eq!(faults.store().log(), ["cancel"], "dropped: {is_dropped}");
        sleep(SECOND * 60).await;
        assert_eq!(faults.store().log(), Vec::<&str>::new());
    }
}

/// The lease ended before the next waiter took it up, so the waiter asks the store.
#[tokio::test(start_paused = true)]
async fn a_waiter_asks_the_store_when_its_hand_off_has_ended() {
    let (locks, _faults) = Locks::in_memory_with_faults();
    let (first, [second, third]) = in_turn(&locks, [mutex(&locks), mutex(&locks)]).await;
    let token = first.fence().unwrap().get();
    drop(first);
    let standstill = Box::pin(advance(TTL));
    futures_util::FutureExt::now_or_never(standstill);
    let second = second.await.unwrap().unwrap();
    assert!(second.is_held());
    assert!(second.fence().unwrap().get() >= token + TOKENS);
    second.release().await.unwrap();
    assert!(third.await.unwrap().unwrap().is_held());
}

/// Each turn ends in time, not only the first one.
#[tokio::test(start_paused = true)]
async fn consecutive_turns_end_in_time() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let (mut lease, waiters) = in_turn(&locks, [(); 5].map(|()| mutex(&locks))).await;
    let queued = async || another(faults.store()).inspect("m").await.unwrap().waiting;
    for waiter in waiters {
        assert_eq!(queued().await, 0, "the turn has begun");
        sleep(TURN * 2).await;
        assert_eq!(queued().await, u64::from(!waiter.is_finished()), "it is over");
        lease.release().await.unwrap();
        lease = waiter.await.unwrap().unwrap();
        settle().await;
    }
}

/// A waiter that has a hand-off and is not polled.
async fn told(locks: &Locks) -> Pin<Box<impl Future<Output = Result<Lease, LockError>> + use<>>> {
    let first = mutex(locks).lock().await.unwrap();
    let next = waiter(mutex(locks)).await;
    let silent = mutex(locks);
    let mut silent = Box::pin(async move { silent.lock().await });
    assert!(is_pending(&mut silent).await);
    first.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    settle().await;
    next.release().await.unwrap();
    silent
}

/// The waiter never took its hand-off. The shutdown waits until the lock is freed.
#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_untaken_hand_offs() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let silent = told(&locks).await;
    assert!(another(faults.store()).mutex("m").try_lock().await.is_err(), "it was told");
    let report = locks.shutdown().await;
    assert_eq!(report.left, 0);
    assert!(another(faults.store()).mutex("m").try_lock().await.is_ok());
    drop(silent);
}

/// A waiter that is too late for its hand-off asks like any other. The waiters behind it wait.
#[tokio::test(start_paused = true)]
async fn late_waiters_ask_one_at_a_time() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let mut silent = told(&locks).await;
    sleep(TURN * 2).await;
    let other = another(faults.store()).mutex("m").try_lock().await.unwrap();
    assert!(is_pending(&mut silent).await);
    let behind = waiter(mutex(&locks)).await;
    let waiting = another(faults.store()).inspect("m").await.unwrap().waiting;
    assert_eq!(waiting, 1);
    // Its grant is handed on.
    let silent = async { silent.await.unwrap() };
    let (lease, ()) = tokio::join!(silent, async { drop(other) });
    settle().await;
    faults.store().log();
    lease.release().await.unwrap();
    let _behind = behind.await.unwrap().unwrap();
    assert!(faults.store().log().is_empty());
}

/// A waiter that takes or drops its hand-off after a new queue began displaces nobody.
#[tokio::test(start_paused = true)]
async fn a_dropped_late_handoff_disturbs_no_new_queue() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let silent = told(&locks).await;
    sleep(TURN * 2).await;
    assert!(another(faults.store()).mutex("m").try_lock().await.is_ok(), "it was taken back");
    let lease = mutex(&locks).lock().await.unwrap();
    let waiters = [waiter(mutex(&locks)).await, waiter(mutex(&locks)).await];
    drop(silent);
    lease.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unwrap().release().await.unwrap();
    }
}

/// The lease is known to be gone, but not why.
#[tokio::test(start_paused = true)]
async fn a_vanished_lease_is_not_handed_off() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let (first, [second]) = in_turn(&locks, [mutex(&locks)]).await;
    let token = first.fence().unwrap().get();
    faults.store().hold_hints();
    let _ = another(faults.store()).force_release("m").await.unwrap();
    faults.always(Fault::Delay(TURN / 10));
    assert!(timeout(TURN * 3 / 20, first.renew()).await.is_err());
    assert!(!first.is_held());
    faults.store().deliver_hints();
    let released = first.release().await;
    assert!(released.is_err(), "{released:?}");
    assert!(second.await.unwrap().unwrap().fence().unwrap().get() >= token + TOKENS);
}

/// The answer to the grant was slow. If too little time is left for the next waiter, it asks the
/// store.
#[tokio::test(start_paused = true)]
async fn a_lease_that_ends_soon_is_not_handed_off() {
    let (locks, faults) = Locks::in_memory_with_faults();
    faults.on(Step::Acquire).next(Fault::Delay(TTL * 6 / 10));
    let first = waiter(mutex(&locks).auto_renew(false)).await;
    let second = waiter(mutex(&locks)).await;
    let first = first.await.unwrap().unwrap();
    assert!(first.remaining() < TTL / 2);
    faults.store().log();
    first.release().await.unwrap();
    let second = second.await.unwrap().unwrap();
    assert!(faults.store().log().starts_with(&["release", "acquire"]));
    assert!(second.remaining() > TTL * 9 / 10);
}

/// An unconfirmed offer is handed off as an offer. The next holder confirms it at once, or it would
/// end as soon as an offer does.
#[tokio::test(start_paused = true)]
async fn a_handed_off_offer_stays_an_offer() {
    let ttl = SECOND * 30;
    for (wait, goes_on) in [(ttl, true), (SECOND / 200, false)] {
        let (locks, faults) = Locks::in_memory_with_faults();
        let before = mutex(&locks).lock().await.unwrap();
        let first = waiter(mutex(&locks).ttl(ttl).wait(wait)).await;
        let second = waiter(mutex(&locks).ttl(ttl)).await;
        faults.on(Step::Renew).next(Fault::Delay(TURN * 3 / 4));
        before.release().await.unwrap();
        let first = first.await.unwrap().unwrap();
        assert!(first.remaining() < SECOND, "it is an offer");
        faults.store().log();
        drop(first);
        let second = second.await.unwrap().unwrap();
        settle().await;
        // A lease that lasts only a moment is not handed off.
        let asked = faults.store().log().contains(&"acquire");
        assert_eq!(asked, !goes_on);
        sleep(SECOND * 9).await;
        assert!(second.is_held());
        sleep(ttl * 3).await;
        assert!(second.is_held());
    }
}

/// Locks with several holders or re-entry go through the store.
#[tokio::test(start_paused = true)]
async fn only_mutexes_and_permits_have_turns() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lock = || locks.rw_lock("rw").ttl(TTL).wait(TTL * 100);
    let before = lock().write().await.unwrap();
    let writers = [(); 2].map(|()| lock());
    let [first, second] = writers.map(|lock| tokio::spawn(async move { lock.write().await }));
    settle().await;
    before.release().await.unwrap();
    let first = first.await.unwrap().unwrap();
    settle().await;
    faults.store().log();
    first.release().await.unwrap();
    let _second = second.await.unwrap().unwrap();
    assert_eq!(faults.store().log().first(), Some(&"release"));
}

/// The last holder learns that its lease has ended, at the deadline of the first holder.
#[tokio::test(start_paused = true)]
async fn without_renewal_a_turn_ends_with_the_first_lease() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let waiters = [(); 8].map(|()| mutex(&locks));
    let (first, waiters) = in_turn(&locks, waiters).await;
    let ends = Instant::now() + first.remaining();
    faults.on(Step::Renew).always(Fault::Unreachable);
    let mut lease = first;
    for waiter in waiters {
        sleep(TURN / 10).await;
        lease.release().await.unwrap();
        lease = waiter.await.unwrap().unwrap();
    }
    assert_eq!(lease.lost().await, LossReason::Expired);
    assert!(Instant::now() <= ends + Duration::from_millis(2), "{:?}", Instant::now() - ends);
}

/// A task leaves its release alone until hardly anything is left of the lease that lingers, or
/// until less is left than a waiter needs whose lease is not renewed.
#[tokio::test(start_paused = true)]
async fn a_lease_with_too_little_time_goes_to_nobody() {
    for (is_renewed, alone) in [(true, SECOND * 9 / 10), (false, SECOND / 5)] {
        let (locks, faults) = Locks::in_memory_with_faults();
        let mutex = || mutex(&locks).ttl(SECOND).linger(SECOND);
        let first = mutex().lock().await.unwrap();
        faults.on(Step::Release).next(Fault::Delay(SECOND / 100));
        let mut release = Box::pin(first.release());
        assert!(is_pending(&mut release).await);
        let second = waiter(mutex().auto_renew(is_renewed)).await;
        sleep(alone).await;
        let _ = release.await.unwrap();
        let second = second.await.unwrap().unwrap();
        assert!(second.remaining() > SECOND * 9 / 10, "{:?}", second.remaining());
        sleep(SECOND * 9).await;
        assert_eq!(second.is_held(), is_renewed);
    }
}

/// The waiter has the lease of one that lingers, and is not polled until hardly anything is left of
/// it.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_was_woken_long_ago_asks_the_store() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let mutex = || mutex(&locks).ttl(SECOND).linger(SECOND);
    mutex().lock().await.unwrap().release().await.map(drop).unwrap();
    let first = mutex().lock().await.unwrap();
    let token = first.fence().unwrap().get();
    let mut second = Box::pin(async { mutex().lock().await });
    assert!(is_pending(&mut second).await);
    faults.store().log();
    let _ = first.release().await.unwrap();
    settle().await;
    assert_eq!(faults.store().log(), Vec::<&str>::new(), "it was handed over");
    let standstill = Box::pin(advance(SECOND * 9 / 10));
    futures_util::FutureExt::now_or_never(standstill);
    let second = second.await.unwrap();
    assert!(second.remaining() > SECOND * 9 / 10, "{:?}", second.remaining());
    assert!(second.fence().unwrap().get() >= token + TOKENS);
}

/// Nobody renews these leases, and a part of the first one's TTL had passed when it was granted.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_not_renewed_goes_to_nobody_in_parts() {
    for (waits, is_handed_over) in [(TTL / 20, true), (TTL * 2 / 5, false)] {
        let (locks, faults) = Locks::in_memory_with_faults();
        faults.on(Step::Acquire).next(Fault::Delay(waits));
        let first = waiter(mutex(&locks).auto_renew(false)).await;
        let second = waiter(mutex(&locks).auto_renew(false)).await;
        let first = first.await.unwrap().unwrap();
        faults.store().log();
        first.release().await.unwrap();
        let second = second.await.unwrap().unwrap();
        assert_eq!(faults.store().log().is_empty(), is_handed_over);
        assert!(second.remaining() > TTL * 8 / 10, "{:?}", second.remaining());
    }
}

/// A task was handed a permit that lingers, and nobody polls it. Another task, which waits for room,
/// has that permit soon.
#[tokio::test(start_paused = true)]
async fn a_hand_off_that_nobody_takes_up_keeps_no_permit() {
    let (locks, _faults) = Locks::in_memory_with_faults();
    let permit = || locks.semaphore("s", 2).ttl(TTL).wait(TTL * 100).linger(SECOND);
    let both = [permit().acquire().await.unwrap(), permit().acquire().await.unwrap()];
    for held in both {
        let _ = held.release().await.unwrap();
    }
    let (first, _second) = (permit().acquire().await.unwrap(), permit().acquire().await.unwrap());
    let mut silent = Box::pin(async { permit().acquire().await });
    assert!(is_pending(&mut silent).await);
    let _ = first.release().await.unwrap();
    let begun = Instant::now();
    let permit = permit();
    let third = tokio::spawn(async move { permit.acquire().await }).await.unwrap().unwrap();
    assert!(begun.elapsed() < SECOND / 2, "{:?}", begun.elapsed());
    drop((third, silent));
}

/// A task asks the store, because it has waited for a turn behind a lease that lingers, and has not
/// been polled since. Its lease is for that task, and not for the next that comes.
#[tokio::test(start_paused = true)]
async fn a_task_that_asks_is_not_passed() {
    let (locks, _faults) = Locks::in_memory_with_faults();
    let lingering = || mutex(&locks).linger(SECOND);
    let _ = lingering().lock().await.unwrap().release().await.unwrap();
    let held = lingering().lock().await.unwrap();
    let mut asks = Box::pin(async { lingering().lock().await });
    assert!(is_pending(&mut asks).await);
    sleep(TURN * 3).await;
    let _ = held.release().await.unwrap();
    let mut later = Box::pin(async { lingering().lock().await });
    assert!(is_pending(&mut later).await);
    let first = asks.await.unwrap();
    assert!(is_pending(&mut later).await);
    let _ = first.release().await.unwrap();
    assert!(later.await.unwrap().is_held());
}

/// A try asks the store whether an idle permit is still there. Meanwhile others are free.
#[tokio::test(start_paused = true)]
async fn tries_get_free_permits_beside_a_question() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let permit = || locks.semaphore("s", 64).ttl(TTL).linger(TTL);
    let _ = permit().acquire().await.unwrap().release().await.unwrap();
    sleep(SECOND * 2).await;
    faults.on(Step::Release).next(Fault::Delay(SECOND / 2));
    let mut asks = Box::pin(async { permit().try_acquire().await });
    assert!(is_pending(&mut asks).await);
    let beside = permit().try_acquire().await.unwrap();
    assert!(asks.await.unwrap().is_held() && beside.is_held());
}

/// The tasks find their tick done, and wait for the next one. Then another process has it for long, and
/// the last task hardly ever is the one that asks: it waits behind the others.
#[tokio::test(start_paused = true)]
async fn the_time_until_the_next_tick_is_a_part_of_the_wait() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let other = another(faults.store());
    let minute = SECOND * 60;
    let job = |locks: &Locks| locks.mutex("job").ttl(TTL).once_per(minute).wait(minute * 10);
    job(&locks).lock().await.unwrap().complete().await.unwrap();
    let has_it = waiter(job(&other)).await;
    let mut others = Vec::new();
    for _ in 0..8 {
        others.push(waiter(job(&locks)).await);
    }
    let begun = Instant::now();
    let second = waiter(job(&locks).wait(minute * 3 / 2)).await;
    let _held = has_it.await.unwrap().unwrap();
    let error = second.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::TimedOut { .. }), "{error:?}");
    assert!(begun.elapsed() <= minute * 3 / 2 + SECOND, "{:?}", begun.elapsed());
}
