//! Hand-offs inside a process: a lease passes to the next waiter without the store.

use std::time::Duration;

use leasehold::{Fault, LeaseState, LockError, Locks, LossReason, Released, Semaphore};
use leasehold_tests::polls::is_pending;
use tokio::time::{Instant, sleep};

use super::{SECOND, TTL, TURN, another, in_turn, mutex, settle, waiter};

/// Each holder has a token of its own, above that of the holder before. All are below the token of
/// the next grant.
#[tokio::test(start_paused = true)]
async fn a_released_lease_goes_to_the_next_without_the_store() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let (first, [second, third]) = in_turn(&locks, [mutex(&locks), mutex(&locks)]).await;
    let (handle, mut tokens) = (first.handle(), vec![first.fence().unwrap()]);
    faults.store().log();
    assert_eq!(first.release().await.unwrap(), Released::Free);
    let second = second.await.unwrap().unwrap();
    assert!(second.is_held() && !handle.is_held());
    assert_eq!(handle.state(), LeaseState::Released);
    assert!(locks.mutex("m").try_lock().await.is_err());
    assert_eq!(faults.store().log().len(), 0, "a try does not pass the waiters");
    tokens.push(second.fence().unwrap());
    // Dropping the lease or aborting its task does the same.
    drop(second);
    let third = third.await.unwrap().unwrap();
    tokens.push(third.fence().unwrap());
    assert!(faults.store().log().is_empty());
    third.release().await.unwrap();
    assert_eq!(faults.store().log(), ["release"]);
    tokens.push(locks.mutex("m").try_lock().await.unwrap().fence().unwrap());
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    assert!(tokens[3].get() >= tokens[0].get() + 64, "{tokens:?}: a block is reserved");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_aborted_hands_over() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let (first, [second]) = in_turn(&locks, [mutex(&locks)]).await;
    let task = tokio::spawn(async move {
        let _first = first;
        std::future::pending::<()>().await;
    });
    settle().await;
    faults.store().log();
    task.abort();
    let _second = second.await.unwrap().unwrap();
    assert!(faults.store().log().is_empty());
}

/// The lease that was handed over is renewed like any other, and so is an offer that was
/// handed over before it was confirmed.
#[tokio::test(start_paused = true)]
async fn a_handed_off_lease_is_held_while_it_is_renewed() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let (first, [second]) = in_turn(&locks, [mutex(&locks)]).await;
    first.release().await.unwrap();
    let second = second.await.unwrap().unwrap();
    sleep(TTL * 5).await;
    assert!(second.is_held());
    assert!(another(faults.store()).mutex("m").try_lock().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_unconfirmed_offer_is_handed_off_as_an_offer() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let before = mutex(&locks).lock().await.unwrap();
    let (first, second) = (waiter(mutex(&locks)).await, waiter(mutex(&locks)).await);
    // The confirmation has no answer, and so it is not known whether it was one.
    faults.always(Fault::LoseCommand);
    let freed = tokio::spawn(async move {
        let _ = before.release().await;
    });
    settle().await;
    faults.heal();
    freed.await.unwrap();
    let first = first.await.unwrap().unwrap();
    let was = first.remaining();
    drop(first);
    let second = second.await.unwrap().unwrap();
    assert!(second.remaining() <= was.max(TTL), "{was:?}, {:?}", second.remaining());
    sleep(TTL * 5).await;
    assert!(second.is_held());
    assert!(another(faults.store()).mutex("m").try_lock().await.is_err());
}

/// A lost lease is not handed off: the next waiter asks the store.
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_lost_is_not_handed_over() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let (first, [second]) = in_turn(&locks, [mutex(&locks)]).await;
    let token = first.fence().unwrap();
    let _ = another(faults.store()).force_release("m").await.unwrap();
    first.renew().await.unwrap_err();
    drop(first);
    faults.store().log();
    let second = second.await.unwrap().unwrap();
    assert!(second.fence().unwrap().get() >= token.get() + 64);
    assert!(faults.store().log().contains(&"acquire"));
}

/// The current holder hears of the loss; former ones do not.
#[tokio::test(start_paused = true)]
async fn the_current_holder_learns_of_the_loss() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let (first, [second]) = in_turn(&locks, [mutex(&locks)]).await;
    let handle = first.handle();
    first.release().await.unwrap();
    let second = second.await.unwrap().unwrap();
    let _ = another(faults.store()).force_release("m").await.unwrap();
    assert_eq!(second.lost().await, LossReason::Forced);
    assert_eq!(handle.state(), LeaseState::Released);
    assert!(is_pending(&mut Box::pin(handle.lost())).await);
}

#[tokio::test(start_paused = true)]
async fn a_suspect_lease_is_not_handed_over() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let (first, [second]) = in_turn(&locks, [mutex(&locks)]).await;
    faults.next(Fault::LoseReply);
    first.renew().await.unwrap();
    faults.always(Fault::Unreachable);
    first.renew().await.unwrap_err();
    assert_eq!(first.state(), LeaseState::Suspect);
    faults.store().log();
    drop(first);
    settle().await;
    faults.heal();
    assert!(second.await.unwrap().unwrap().is_held());
    let log = faults.store().log();
    assert!(log.contains(&"release") && log.contains(&"acquire"), "{log:?}");
}

/// A waiter with another TTL gets the lock from the store, and so do the waiters behind it.
#[tokio::test(start_paused = true)]
async fn a_waiter_with_another_ttl_asks_the_store() {
    for ttl in [TTL / 3, TTL * 3] {
        let (locks, faults) = Locks::in_memory_with_faults();
        let waiters = [mutex(&locks), mutex(&locks).ttl(ttl), mutex(&locks)];
        let (first, [second, third, fourth]) = in_turn(&locks, waiters).await;
        first.release().await.unwrap();
        let second = second.await.unwrap().unwrap();
        faults.store().log();
        second.release().await.unwrap();
        let third = third.await.unwrap().unwrap();
        assert!(faults.store().log().starts_with(&["release", "acquire"]));
        assert!(third.remaining() > ttl * 9 / 10 && third.remaining() <= ttl);
        third.release().await.unwrap();
        let fourth = fourth.await.unwrap().unwrap();
        assert!(fourth.remaining() > TTL * 9 / 10 && fourth.remaining() <= TTL);
    }
}

#[tokio::test(start_paused = true)]
async fn hold_at_least_is_not_handed_over() {
    let (locks, _faults) = Locks::in_memory_with_faults();
    let keeping = mutex(&locks).hold_at_least(TTL);
    let (first, [second, third]) = in_turn(&locks, [keeping, mutex(&locks)]).await;
    first.release().await.unwrap();
    let second = second.await.unwrap().unwrap();
    let begun = Instant::now();
    assert_eq!(second.release().await.unwrap(), Released::Kept);
    assert!(third.await.unwrap().unwrap().is_held());
    assert!(begun.elapsed() >= TTL * 9 / 10, "{:?}", begun.elapsed());
}

/// Each holder keeps the lease for its own `max_hold`, counted from its hand-off.
#[tokio::test(start_paused = true)]
async fn each_holder_has_its_own_max_hold() {
    let (locks, _faults) = Locks::in_memory_with_faults();
    let bounded = mutex(&locks).max_hold(TTL * 2);
    let (first, [second, third]) = in_turn(&locks, [bounded, mutex(&locks)]).await;
    sleep(TURN / 4).await;
    first.release().await.unwrap();
    let (second, begun) = (second.await.unwrap().unwrap(), Instant::now());
    assert_eq!(second.lost().await, LossReason::MaxHold);
    let held = begun.elapsed();
    assert!(held > TTL * 19 / 10 && held <= TTL * 2, "{held:?}");
    drop(second);
    let third = third.await.unwrap().unwrap();
    sleep(TTL * 5).await;
    assert!(third.is_held());
}

/// The wait of the next waiter is over, so the lease goes to the one behind it.
#[tokio::test(start_paused = true)]
async fn a_timed_out_waiter_is_passed_over() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let impatient = mutex(&locks).wait(TURN / 4);
    let (first, [second, third]) = in_turn(&locks, [impatient, mutex(&locks)]).await;
    sleep(TURN / 2).await;
    let timed_out = second.await.unwrap();
    assert!(matches!(timed_out, Err(LockError::TimedOut { .. })), "{timed_out:?}");
    faults.store().log();
    first.release().await.unwrap();
    let _third = third.await.unwrap().unwrap();
    assert!(faults.store().log().is_empty());
}

/// The waiter was told of its hand-off, and is dropped before it takes it up.
#[tokio::test(start_paused = true)]
async fn a_waiter_dropped_after_its_hand_off_passes_it_on() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let (first, [second, third, fourth]) = in_turn(&locks, [(); 3].map(|()| mutex(&locks))).await;
    faults.store().log();
    drop(first);
    second.abort();
    third.abort();
    let fourth = fourth.await.unwrap().unwrap();
    assert!(fourth.is_held());
    assert!(faults.store().log().is_empty());
    // Without another waiter, the hand-off is cancelled.
    let fifth = waiter(mutex(&locks)).await;
    drop(fourth);
    fifth.abort();
    settle().await;
    assert!(another(faults.store()).mutex("m").try_lock().await.is_ok());
}

/// A future that is not polled can't take its hand-off up, and delays nobody.
#[tokio::test(start_paused = true)]
async fn an_untaken_hand_off_is_cancelled() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let (first, []) = in_turn(&locks, []).await;
    first.release().await.unwrap();
    let before = mutex(&locks).lock().await.unwrap();
    let first = waiter(mutex(&locks)).await;
    let silent_mutex = mutex(&locks);
    let mut silent = Box::pin(silent_mutex.lock());
    assert!(is_pending(&mut silent).await);
    let behind = waiter(mutex(&locks)).await;
    before.release().await.unwrap();
    drop(first.await.unwrap().unwrap());
    let begun = Instant::now();
    let behind = behind.await.unwrap().unwrap();
    assert!(begun.elapsed() <= TURN * 2, "{:?}", begun.elapsed());
    behind.release().await.unwrap();
    // It asks the store when it is polled again. Its old hand-off does no harm.
    let late = silent.await.unwrap();
    assert!(late.is_held());
    assert!(another(faults.store()).mutex("m").try_lock().await.is_err());
    late.release().await.unwrap();
    assert!(another(faults.store()).mutex("m").try_lock().await.is_ok());
}

/// Detaching ends the turn, and the adopter has a greater token.
#[tokio::test(start_paused = true)]
async fn a_handed_off_lease_can_be_detached() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let (first, [second, third]) = in_turn(&locks, [mutex(&locks), mutex(&locks)]).await;
    first.release().await.unwrap();
    let second = second.await.unwrap().unwrap();
    let token = second.fence().unwrap();
    let ticket = second.detach().await.unwrap();
    sleep(SECOND).await;
    let adopted = another(faults.store()).adopt(ticket).await.unwrap();
    assert!(adopted.fence().unwrap() > token);
    assert!(!third.is_finished());
    adopted.release().await.unwrap();
    assert!(third.await.unwrap().unwrap().fence().unwrap() > token);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_handed_over_when_the_client_ends() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let (first, [second, third]) = in_turn(&locks, [mutex(&locks), mutex(&locks)]).await;
    // One waiter had its hand-off when the shutdown began, and did not take it up.
    drop(first);
    let report = locks.shutdown().await;
    assert_eq!(report.left, 0);
    for waiter in [second, third] {
        let refused = waiter.await.unwrap();
        // The waiter may have been quicker. Then it held the lock, and released it.
        assert!(refused.is_err() || report.released > 0, "{refused:?}");
        drop(refused);
    }
    settle().await;
    assert!(another(faults.store()).mutex("m").try_lock().await.is_ok());
}

fn permits(locks: &Locks, limit: u32) -> Semaphore {
    locks.semaphore("s", limit).ttl(TTL).wait(TTL * 100)
}

/// A permit goes to a request of the same weight and limit.
#[tokio::test(start_paused = true)]
async fn a_permit_goes_to_an_equal_request() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let held = permits(&locks, 4).acquire_many(4).await.unwrap();
    let mut waiting = Vec::new();
    for (limit, weight) in [(4, 2), (4, 2), (4, 2), (4, 2), (4, 1), (5, 2)] {
        let permits = permits(&locks, limit);
        waiting.push(tokio::spawn(async move { permits.acquire_many(weight).await }));
        settle().await;
    }
    let mut waiting = waiting.into_iter();
    let mut next = async || waiting.next().unwrap().await.unwrap().unwrap();
    held.release().await.unwrap();
    let (first, second) = (next().await, next().await);
    settle().await;
    faults.store().log();
    first.release().await.unwrap();
    let third = next().await;
    second.release().await.unwrap();
    let fourth = next().await;
    assert!(faults.store().log().is_empty());
    // The next is lighter, and the one behind it goes by another limit.
    third.release().await.unwrap();
    let light = next().await;
    assert!(faults.store().log().starts_with(&["release", "acquire"]));
    fourth.release().await.unwrap();
    let (other, _light) = (next().await, light);
    assert!(other.is_held());
    let all = another(faults.store());
    assert!(all.semaphore("s", 4).try_acquire().await.is_ok(), "3 of 4 are out");
    let _one = all.semaphore("s", 4).try_acquire().await.unwrap();
    assert!(all.semaphore("s", 4).try_acquire().await.is_err(), "4 of 4 are out");
}

/// From holder to holder the deadline only comes nearer, until a renewal moves it.
#[tokio::test(start_paused = true)]
async fn the_deadline_is_that_of_the_turn() {
    let (locks, _faults) = Locks::in_memory_with_faults();
    let waiters = [(); 3].map(|()| mutex(&locks).auto_renew(false));
    let (first, waiters) = in_turn(&locks, waiters).await;
    let (mut lease, begun, was) = (first, Instant::now(), Duration::from_secs(3600));
    let ends = begun + lease.remaining().min(was);
    for waiter in waiters {
        sleep(TURN / 5).await;
        lease.release().await.unwrap();
        lease = waiter.await.unwrap().unwrap();
        assert!(Instant::now() + lease.remaining() <= ends);
    }
    assert_eq!(lease.lost().await, LossReason::Expired);
    assert!(Instant::now() <= ends + Duration::from_millis(2));
}
