//! Faults during a wait, in memory and on a clock that the test moves.

use std::time::Duration;

use leasehold::store::{Ask, Kind};
use leasehold::{Fault, Faults, Lease, LockError, Locks, Step, Wait};
use leasehold_tests::polls::{drop_after, is_pending};
use leasehold_tests::requests::Requests;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

fn clients() -> (Faults, [Locks; 2]) {
    let (locks, faults) = Locks::in_memory_with_faults();
    let other = Locks::over(faults.store().clone());
    (faults, [locks, other])
}

fn take(locks: &Locks) -> impl Future<Output = Lease> + Send + use<> {
    let mutex = locks.mutex("a").wait(Wait::Forever);
    async move { mutex.lock().await.unwrap() }
}

/// A future that is not polled is first in its process's queue and in the store's queue. Both pass
/// over it.
#[tokio::test(start_paused = true)]
async fn an_unpolled_future_does_not_block_its_process() {
    let (_, [holder, locks]) = clients();
    let held = holder.mutex("a").lock().await.unwrap();
    let mut kept = Box::pin(take(&locks));
    assert!(is_pending(&mut kept).await); // and never again
    let second = tokio::spawn({
        let locks = locks.clone();
        async move { take(&locks).await.release().await.unwrap() }
    });
    sleep(Duration::from_millis(50)).await;
    held.release().await.unwrap();
    let begun = Instant::now();
    timeout(Duration::from_secs(60), second).await.expect("it is not starved").unwrap();
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());

    // After that nothing is delayed.
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let locks = locks.clone();
        tasks.spawn(async move { take(&locks).await.release().await.unwrap() });
    }
    tasks.join_all().await;
    assert!(begun.elapsed() < Duration::from_secs(7), "{:?}", begun.elapsed());
    // When it is polled after all, it is served.
    kept.await.release().await.unwrap();
    locks.mutex("a").try_lock().await.unwrap().release().await.unwrap();
}

/// The lease of an offer lasts until its confirmation can have been answered, however old the
/// waiter's heartbeat is.
#[tokio::test(start_paused = true)]
async fn a_hand_over_with_a_short_ttl_is_not_lost_at_once() {
    for n in 0..100 {
        let (faults, [holder, locks]) = clients();
        let held = holder.mutex("a").lock().await.unwrap();
        faults.always(Fault::Delay(Duration::from_millis(10)));
        let waits = tokio::spawn(async move {
            let mutex = locks.mutex("a").ttl(Duration::from_millis(500)).wait(Wait::Forever);
            let lease = mutex.lock().await.unwrap();
            timeout(Duration::from_secs(5), lease.lost()).await.is_err()
        });
        sleep(Duration::from_millis(15 + n * 5)).await;
        held.release().await.unwrap();
        assert!(waits.await.unwrap(), "released {} ms after it was waited for", 15 + n * 5);
    }
}

/// The store runs the confirmation, and its answer is lost, as all others are. The holder does not
/// believe in its lease for longer than the store does.
#[tokio::test(start_paused = true)]
async fn an_unanswered_hand_over_ends_with_its_ttl() {
    for ttl in [200, 1000, 5000, 30_000].map(Duration::from_millis) {
        let (faults, [holder, locks]) = clients();
        let held = holder.mutex("a").lock().await.unwrap();
        let waits = tokio::spawn(async move {
            let mutex = locks.mutex("a").ttl(ttl).wait(Wait::Forever);
            let lease = mutex.lock().await.unwrap();
            (lease.lost().await, Instant::now())
        });
        sleep(Duration::from_millis(50)).await;
        let release = held.release();
        faults.pass(1);
        faults.always(Fault::LoseReply);
        release.await.unwrap();
        let begun = Instant::now();
        let (_, lost) = waits.await.unwrap();
        assert!(lost - begun <= ttl.min(LIVE), "{ttl:?}: it believed for {:?}", lost - begun);
        // The holder lost it before anybody else got it.
        faults.heal();
        let next = take(&holder).await;
        assert!(Instant::now() >= lost);
        next.release().await.unwrap();
    }
}

/// A lock with a holder, and a waiter in the queue.
async fn held_with_a_waiter() -> (Faults, Locks, Lease, JoinHandle<Lease>) {
    let (faults, [holder, locks]) = clients();
    let held = holder.mutex("a").lock().await.unwrap();
    let waits = tokio::spawn(take(&locks));
    sleep(Duration::from_millis(50)).await;
    (faults, holder, held, waits)
}

/// Delivers the hints while another holds the lock. The waiter must ignore them.
async fn late_hints_do_no_harm(faults: &Faults, other: Lease, waits: JoinHandle<Lease>) {
    faults.store().deliver_hints();
    sleep(Duration::from_millis(50)).await;
    assert!(!waits.is_finished(), "two hold it");
    other.release().await.unwrap();
    waits.await.unwrap().release().await.unwrap();
}

/// The hint of an offer that has ended comes when its waiter is in the queue again. The waiter
/// ignores it.
#[tokio::test(start_paused = true)]
async fn a_late_hint_of_an_ended_offer_is_ignored() {
    let (faults, holder, held, waits) = held_with_a_waiter().await;
    faults.store().hold_hints();
    // Its asks are lost until the offer has ended, and another has the lock.
    faults.pass(1);
    faults.always(Fault::LoseCommand);
    held.release().await.unwrap();
    sleep(LIVE).await;
    faults.heal();
    let other = holder.mutex("a").try_lock().await.unwrap();
    sleep(Duration::from_secs(3)).await;
    late_hints_do_no_harm(&faults, other, waits).await;
}

/// The hint of an offer that passed on arrives before the waiter has asked again. The waiter still
/// counts as alive, and knows when the offer ended.
#[tokio::test(start_paused = true)]
async fn a_late_hint_of_an_offer_that_passed_on_is_ignored() {
    let (faults, holder, held, waits) = held_with_a_waiter().await;
    faults.store().hold_hints();
    held.release().await.unwrap();
    // An offer lasts a second, and the waiter asks every two seconds.
    sleep(Duration::from_millis(1050)).await;
    let other = holder.mutex("a").try_lock().await.unwrap();
    late_hints_do_no_harm(&faults, other, waits).await;
}

/// An ask whose answer was lost has confirmed an offer. The waiter gets the hint later. Its lease
/// runs from that ask, not from the hint.
#[tokio::test(start_paused = true)]
async fn an_offer_confirmed_by_an_unanswered_ask_lasts_from_that_ask() {
    let (faults, [holder, locks]) = clients();
    let held = holder.mutex("a").lock().await.unwrap();
    let begun = Instant::now();
    let mutex = locks.mutex("a").ttl(Duration::from_millis(300)).wait(Wait::Forever);
    let waits = tokio::spawn(async move {
        let lease = mutex.lock().await.unwrap();
        let lasts = lease.remaining();
        (lease, Instant::now() + lasts)
    });
    sleep(Duration::from_millis(1500)).await;
    faults.store().hold_hints();
    held.release().await.unwrap();
    // It asks again after two seconds, while the offer lasts. The ask runs, and a little later its
    // answer is known to be lost. After that nothing is answered.
    faults.next(Fault::LoseReplyAfter(Duration::from_millis(100)));
    faults.always(Fault::LoseCommand);
    sleep(Duration::from_millis(650)).await;
    faults.store().deliver_hints();
    let waits = timeout(Duration::from_secs(1), waits).await.expect("it is believed");
    let (lease, deadline) = waits.unwrap();
    let confirmed = begun + Duration::from_secs(2);
    let limit = confirmed + Duration::from_millis(310);
    assert!(deadline <= limit, "it believes {:?} too long", deadline - limit);
    drop(lease);
}

/// The same if another waiter sent that ask. The waiter that inherits the request goes by the TTL
/// that was sent.
#[tokio::test(start_paused = true)]
async fn an_offer_confirmed_for_another_waiter_lasts_for_its_ttl() {
    let (faults, [holder, locks]) = clients();
    let held = holder.mutex("a").lock().await.unwrap();
    let short = locks.mutex("a").ttl(Duration::from_millis(200)).wait(Wait::Forever);
    let mut first = Box::pin(async move { short.lock().await });
    assert!(is_pending(&mut first).await);
    let heir = locks.mutex("a").ttl(Duration::from_secs(30)).wait(Wait::Forever);
    let heir = tokio::spawn(async move {
        let lease = heir.lock().await.unwrap();
        (lease.remaining(), Instant::now())
    });
    let asked = Instant::now() + Duration::from_secs(2);
    let _ = timeout(Duration::from_millis(1500), &mut first).await;
    // The first waiter's next ask confirms its offer, and is never answered. Then that waiter is
    // dropped, and its further commands are lost.
    faults.store().hold_hints();
    held.release().await.unwrap();
    faults.next(Fault::LoseReplyAfter(Duration::from_millis(20)));
    let _ = timeout(Duration::from_millis(510), &mut first).await;
    drop(first);
    faults.always(Fault::LoseCommand);
    sleep(Duration::from_millis(100)).await;
    faults.store().deliver_hints();
    // The 200 ms are over, so nothing of that lease can be relied on.
    let heard = timeout(Duration::from_millis(500), heir).await;
    if let Ok(Ok((remaining, heard))) = heard {
        assert!(heard + remaining <= asked + Duration::from_millis(250), "{remaining:?}");
    }
}

/// A waiter is dropped while the store is away for longer than its TTL. Its place in the queue
/// outlives the TTL, and is removed all the same.
#[tokio::test(start_paused = true)]
async fn a_place_is_given_up_even_with_a_short_ttl() {
    let (faults, [holder, locks]) = clients();
    let held = holder.mutex("a").lock().await.unwrap();
    let mutex = locks.mutex("a").ttl(Duration::from_millis(100)).wait(Wait::Forever);
    let waits = tokio::spawn(async move { mutex.lock().await });
    sleep(Duration::from_millis(10)).await;
    faults.always(Fault::LoseCommand);
    waits.abort();
    sleep(Duration::from_millis(500)).await;
    faults.heal();
    sleep(Duration::from_millis(50)).await;
    held.release().await.unwrap();
    let begun = Instant::now();
    take(&holder).await.release().await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

/// The first command of a try is lost for good, and the second is refused. The try is cancelled all
/// the same, because the first may come late.
#[tokio::test(start_paused = true)]
async fn a_refused_try_with_a_copy_in_flight_is_cancelled() {
    let (faults, [holder, locks]) = clients();
    let held = holder.mutex("a").lock().await.unwrap();
    faults.store().log();
    faults.next(Fault::LoseCommand);
    let refused = locks.mutex("a").try_lock().await;
    assert!(matches!(refused, Err(LockError::Busy { .. })), "{refused:?}");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(faults.store().log(), ["acquire", "acquire", "cancel", "cancel"]);
    held.release().await.unwrap();
}

/// The first answer is lost, or the command itself. The second ask keeps the place of the first,
/// before one that came between them.
#[tokio::test(start_paused = true)]
async fn a_lost_first_ask_costs_no_place() {
    for fault in [Fault::LoseReply, Fault::LoseCommand] {
        let (faults, [holder, locks]) = clients();
        let held = holder.mutex("a").lock().await.unwrap();
        let (order, mut served) = tokio::sync::mpsc::unbounded_channel();
        let wait = |number: u32, locks: &Locks| {
            let (order, take) = (order.clone(), take(locks));
            tokio::spawn(async move {
                let lease = take.await;
                order.send(number).unwrap();
                lease.release().await.unwrap();
            })
        };
        faults.next(fault);
        let first = wait(1, &locks);
        sleep(Duration::from_millis(1)).await;
        let second = wait(2, &Locks::over(faults.store().clone()));
        sleep(Duration::from_millis(20)).await;
        held.release().await.unwrap();
        assert_eq!([served.recv().await, served.recv().await], [Some(1), Some(2)], "{fault:?}");
        first.await.unwrap();
        second.await.unwrap();
    }
}

/// Drops each waiting future after its k-th poll, for every k. The waiters behind it are served,
/// and nothing stays.
#[tokio::test(start_paused = true)]
async fn a_waiter_dropped_at_any_point_blocks_nobody() {
    let wait = Duration::from_millis(1);
    for plan in [vec![Fault::Delay(wait)], vec![Fault::LoseReply, Fault::Delay(wait)]] {
        for polls in 1.. {
            let (faults, [holder, locks]) = clients();
            let held = holder.mutex("a").lock().await.unwrap();
            let release = tokio::spawn(async move {
                sleep(wait * 3).await;
                held.release().await.unwrap();
            });
            for fault in &plan {
                faults.next(*fault);
            }
            let (dropped, behind) =
                tokio::join!(drop_after(polls, take(&locks)), timeout(LONG, take(&locks)));
            let is_done = dropped.is_some();
            let behind = match (dropped, behind) {
                // Both are in one process, and one of them holds the lock.
                (Some(first), Err(_)) => {
                    first.release().await.unwrap();
                    take(&locks).await
                }
                (_, behind) => behind.expect("it is served"),
            };
            behind.release().await.unwrap();
            release.await.unwrap();
            sleep(Duration::from_secs(1)).await;
            holder.mutex("a").try_lock().await.unwrap().release().await.unwrap();
            if is_done {
                assert!(polls > 1, "the plan never suspends");
                break;
            }
        }
    }
}

/// The time for which a waiter counts as alive without asking again.
const LIVE: Duration = Duration::from_secs(6);

const LONG: Duration = Duration::from_secs(60);

/// An owner that holds the lock is granted it again at once, although its other requests wait in
/// this process, even for an answer that never comes.
#[tokio::test(start_paused = true)]
async fn a_re_entering_owner_does_not_wait_behind_its_own_waiters() {
    let (faults, [locks, _]) = clients();
    let mine = locks.reentrant_mutex("a").owner("me").wait(Duration::from_secs(1));
    let outer = mine.lock().await.unwrap();
    let again = || {
        let mine = mine.clone();
        Box::pin(async move { mine.lock().await })
    };
    faults.always(Fault::Hang);
    let mut stuck = [(); 70].map(|()| again());
    for stuck in &mut stuck {
        assert!(is_pending(stuck).await);
    }
    faults.heal();
    let tried = mine.try_lock().await.unwrap();
    assert_eq!(tried.fence().unwrap(), outer.fence().unwrap());
    drop(stuck);
    let mut stuck = again();
    faults.next(Fault::Hang);
    assert!(is_pending(&mut stuck).await);
    let begun = Instant::now();
    let inner = mine.lock().await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
    drop((outer, tried, inner));
}

/// A mutex ignores owners: they share the process's place in the store's queue.
#[tokio::test(start_paused = true)]
async fn all_owners_of_a_mutex_share_one_queue() {
    let (_, [holder, locks]) = clients();
    let held = holder.mutex("a").lock().await.unwrap();
    let mut waiting = JoinSet::new();
    for number in 0..5 {
        let mutex = locks.mutex("a").owner(format!("worker-{number}")).wait(Wait::Forever);
        waiting.spawn(async move {
            let lease = mutex.lock().await.unwrap();
            (number, lease)
        });
        tokio::task::yield_now().await;
    }
    sleep(Duration::from_millis(1)).await;
    assert_eq!(holder.inspect("a").await.unwrap().waiting, 1);
    held.release().await.unwrap();
    for expected in 0..5 {
        let (number, lease) = waiting.join_next().await.unwrap().unwrap();
        assert_eq!(number, expected);
        let shown = holder.inspect("a").await.unwrap();
        assert_eq!(shown.holders[0].owner, Some(format!("worker-{number}")));
        lease.release().await.unwrap();
    }
}

/// The last ask of a wait does not wait, but it is not a try. It does not let in an owner that
/// reads and waits to write.
#[tokio::test(start_paused = true)]
async fn a_write_wait_that_times_out_is_not_a_try() {
    let (_, [locks, _]) = clients();
    for wait in [1, 100, 1000] {
        let mine = locks.rw_lock("a").owner("me").wait(Duration::from_millis(wait));
        let reader = mine.read().await.unwrap();
        let refused = mine.write().await;
        assert!(matches!(refused, Err(LockError::WouldDeadlock { .. })), "{wait}: {refused:?}");
        reader.release().await.unwrap();
        mine.try_write().await.unwrap().release().await.unwrap();
    }
}

/// Something else has cancelled the request, whose first ask had no answer. In time the store
/// forgets that, and then the late ask would acquire the lock for nobody: so the client cancels it.
#[tokio::test(start_paused = true)]
async fn an_ended_request_is_cancelled_if_an_ask_had_no_answer() {
    let (faults, [holder, locks]) = clients();
    let held = holder.mutex("a").lock().await.unwrap();
    // The client's first request says who it is.
    let known = locks.mutex("known").lock().await.unwrap();
    let client = locks.inspect("known").await.unwrap().holders[0].client.as_ref().unwrap().id;
    let requests = Requests::of(client);
    let [_, second] = [(); 2].map(|()| requests.next("a", Kind::Mutex, Duration::from_secs(30)));
    faults.on(Step::Acquire).next(Fault::LoseReply);
    let waits = tokio::spawn(take(&locks));
    while holder.inspect("a").await.unwrap().waiting == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    faults.store().cancel(&second).await.unwrap();
    assert_eq!(holder.inspect("a").await.unwrap().waiting, 0, "it was the request");
    faults.store().log();
    sleep(Duration::from_secs(20)).await;
    let cancels = faults.store().log().into_iter().filter(|sent| *sent == "cancel").count();
    assert_eq!(cancels, 2, "one at once, and one when the ask can no longer arrive");
    held.release().await.unwrap();
    waits.await.unwrap().release().await.unwrap();
    drop(known);
}
