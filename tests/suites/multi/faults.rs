//! Commands that are lost, late or refused, and callers that are dropped, in memory and on a clock
//! that the test moves.

use std::time::Duration;

use leasehold::store::{Command, Store};
use leasehold::{Fault, Faults, LeaseSet, LeaseState, LockError, Locks, LossReason, Step, Wait};
use leasehold_tests::overridden::Overridden;
use leasehold_tests::polls::drop_after;
use tokio::time::{Instant, sleep};

use super::{NAMES, Of, are_free};

const TTL: Duration = Duration::from_secs(9);

/// The delay of a slow answer.
const LATE: Duration = Duration::from_millis(1);

fn clients() -> (Faults, [Locks; 2]) {
    let (locks, faults) = Locks::in_memory_with_faults();
    let other = Locks::over(faults.store().clone());
    (faults, [locks, other])
}

fn take(locks: &Locks) -> impl Future<Output = LeaseSet> + Send + use<> {
    let all = locks.all(NAMES).ttl(TTL).wait(Wait::Forever);
    async move { all.lock().await.unwrap() }
}

/// The number of times that a command was sent since the last call.
fn count(faults: &Faults, name: &str) -> usize {
    faults.store().log().iter().filter(|sent| **sent == name).count()
}

/// Drops the future after its k-th poll, for every k. One command takes all locks, with or without
/// its answer, or the call waits for one of them.
#[tokio::test(start_paused = true)]
async fn dropping_the_acquire_at_any_point_leaves_nothing() {
    let held = |of| [None, Some("a"), Some("c")].map(|name| (of, name));
    for (of, held) in [held(Of::Mutexes), held(Of::Mixed)].concat() {
        for first in [
            Fault::Delay(LATE),
            Fault::LoseReplyAfter(LATE),
            Fault::LoseCommand,
            Fault::Unreachable,
        ] {
            for polls in 1.. {
                if is_served_when_dropped(of, held, first, polls).await {
                    assert!(polls > 1, "the plan never suspends");
                    break;
                }
            }
        }
    }
}

/// Checks what is left by a call for a set of which one lock is held for a while.
async fn is_served_when_dropped(
    of: Of,
    held: Option<&'static str>,
    first: Fault,
    polls: usize,
) -> bool {
    let (faults, [holder, locks]) = clients();
    let held = match held {
        Some(name) => Some(of.take(&holder, name).await),
        None => None,
    };
    let release = tokio::spawn(async move {
        sleep(LATE * 20).await;
        if let Some(held) = held {
            held.release().await.unwrap();
        }
    });
    faults.next(first);
    faults.always(Fault::Delay(LATE));
    let taken = drop_after(polls, of.set(&locks).ttl(TTL).wait(Wait::Forever).lock()).await;
    let is_served = taken.is_some();
    if let Some(leases) = taken {
        let leases = leases.unwrap();
        assert!(leases.is_held());
        leases.release().await.unwrap();
    }
    release.await.unwrap();
    sleep(Duration::from_secs(1)).await;
    faults.heal();
    of.are_free(&holder).await;
    sleep(TTL * 2).await;
    faults.store().log();
    sleep(TTL * 2).await;
    assert_eq!(faults.store().log(), [""; 0], "nothing is renewed after {polls} polls");
    is_served
}

/// The grant is cancelled before its caller knows of it.
#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_in_flight_is_cancelled_behind_its_answer() {
    let (faults, [holder, locks]) = clients();
    faults.next(Fault::Delay(LATE * 100));
    assert!(drop_after(1, take(&locks)).await.is_none());
    sleep(LATE * 99).await;
    assert_eq!(faults.store().log(), ["acquire_all"], "the cancels do not overtake it");
    sleep(LATE * 2).await;
    assert_eq!(faults.store().log(), ["acquire_all", "cancel", "cancel", "cancel"][1..]);
    are_free(&holder).await;
}

/// Drops the releases after their k-th poll.
#[tokio::test(start_paused = true)]
async fn dropping_the_release_at_any_point_releases_all() {
    for fault in [Fault::Delay(LATE), Fault::LoseCommand, Fault::LoseReplyAfter(LATE)] {
        for polls in 1.. {
            let (faults, [holder, locks]) = clients();
            let leases = take(&locks).await;
            faults.next(fault);
            faults.next(fault);
            faults.next(fault);
            faults.always(Fault::Delay(LATE));
            let released = drop_after(polls, leases.release()).await;
            sleep(Duration::from_secs(1)).await;
            faults.heal();
            are_free(&holder).await;
            match released {
                None => {}
                Some(Ok(())) => break,
                // One was never answered; the keeper has released it all the same.
                Some(Err(LockError::Store { .. })) if fault == Fault::LoseCommand => break,
                other => panic!("{other:?}"),
            }
        }
    }
}

/// The client sends the command again with the same ids, and these hold the locks.
#[tokio::test(start_paused = true)]
async fn a_request_with_a_lost_reply_is_repeated() {
    for of in [Of::Mutexes, Of::Mixed] {
        let (faults, [holder, locks]) = clients();
        faults.next(Fault::LoseReply);
        let leases = of.set(&locks).try_lock().await.unwrap();
        assert_eq!(faults.store().log(), ["acquire_all", "acquire_all"]);
        for lease in &leases {
            let holders = holder.inspect(lease.key()).await.unwrap().holders;
            assert_eq!((holders.len(), holders[0].fence), (1, lease.fence().ok()));
        }
        sleep(TTL).await;
        assert_eq!(count(&faults, "cancel"), 0, "they are held");
        leases.release().await.unwrap();
        of.are_free(&holder).await;
        // The second cancel comes after as long as the outcome was unknown.
        sleep(TTL * 2).await;
        // A late copy of the unanswered command would hold the locks for nobody.
        assert_eq!(count(&faults, "cancel"), NAMES.len());
    }
}

/// An earlier copy is in flight when the store refuses, and may come late.
#[tokio::test(start_paused = true)]
async fn a_refused_try_with_a_copy_in_flight_is_cancelled() {
    let (faults, [holder, locks]) = clients();
    let held = holder.mutex("c").lock().await.unwrap();
    faults.store().log();
    faults.next(Fault::LoseCommand);
    let refused = locks.all(NAMES).try_lock().await;
    assert!(matches!(refused, Err(LockError::Busy { .. })), "{refused:?}");
    sleep(Duration::from_secs(1)).await;
    let log = faults.store().log();
    assert_eq!(log[..2], ["acquire_all", "acquire_all"]);
    assert_eq!(log.iter().filter(|sent| **sent == "cancel").count(), 6, "{log:?}");
    held.release().await.unwrap();
    are_free(&holder).await;
}

/// The wait ends after an answer was lost, so the locks may have been granted.
#[tokio::test(start_paused = true)]
async fn an_acquire_abandoned_without_an_answer_is_cancelled() {
    let (faults, [holder, locks]) = clients();
    faults.always(Fault::LoseReply);
    let begun = Instant::now();
    let failed = locks.all(NAMES).wait(Duration::from_secs(3)).lock().await;
    assert!(matches!(failed, Err(LockError::Store { .. })), "{failed:?}");
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_secs(3) && waited < Duration::from_secs(4), "{waited:?}");
    let tried = locks.all(NAMES).try_lock().await;
    assert!(matches!(tried, Err(LockError::Store { .. })), "{tried:?}");
    assert!(begun.elapsed() < waited + Duration::from_secs(2), "{:?}", begun.elapsed());
    faults.heal();
    sleep(Duration::from_secs(1)).await;
    are_free(&holder).await;
}

#[tokio::test(start_paused = true)]
async fn leases_granted_too_late_do_not_count() {
    for late in [TTL * 2, TTL.mul_f64(0.998)] {
        let (faults, [holder, locks]) = clients();
        faults.next(Fault::Delay(late));
        let leases = locks.all(NAMES).ttl(TTL).wait(TTL * 4).lock().await.unwrap();
        assert!(leases.is_held() && leases.remaining() > TTL / 2, "{leases:?}");
        assert_eq!(count(&faults, "acquire_all"), 2);
        sleep(TTL * 3).await;
        assert!(leases.is_held());
        leases.release().await.unwrap();
        are_free(&holder).await;
    }
}

/// A proxy may refuse a command for several servers.
#[tokio::test(start_paused = true)]
async fn after_a_refusal_the_locks_are_acquired_one_by_one() {
    let (faults, [holder, locks]) = clients();
    faults.next(Fault::Refuse);
    let leases = locks.all(NAMES).try_lock().await.unwrap();
    assert_eq!(faults.store().log(), ["acquire_all", "acquire", "acquire", "acquire"]);
    leases.release().await.unwrap();
    are_free(&holder).await;
    faults.always(Fault::Refuse);
    let refused = locks.all(NAMES).lock().await;
    assert!(matches!(refused, Err(LockError::Store { .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_failure_midway_leaves_nothing_held() {
    let (faults, [holder, locks]) = clients();
    let held = holder.mutex("c").lock().await.unwrap();
    // One command for all, the first lock, the second lock, and then no more.
    faults.pass(3);
    faults.next(Fault::Refuse);
    let failed = locks.all(NAMES).lock().await;
    assert!(matches!(failed, Err(LockError::Store { .. })), "{failed:?}");
    held.release().await.unwrap();
    are_free(&holder).await;
}

/// The error comes after the release of the held locks, not before.
#[tokio::test(start_paused = true)]
async fn a_timed_out_wait_leaves_nothing_held() {
    let (faults, [holder, locks]) = clients();
    let _held = holder.mutex("c").lock().await.unwrap();
    let slow = Duration::from_millis(100);
    faults.pass(3);
    faults.always(Fault::Delay(slow));
    let begun = Instant::now();
    let wait = Duration::from_secs(1);
    let refused = locks.all(NAMES).wait(wait).lock().await;
    assert!(matches!(refused, Err(LockError::TimedOut { .. })), "{refused:?}");
    assert_eq!(begun.elapsed(), wait + slow * 2, "the last answer, and the releases together");
}

/// The wait covers all rounds, however many there are.
#[tokio::test(start_paused = true)]
async fn the_wait_covers_all_rounds() {
    let (_, [holder, locks]) = clients();
    let held = holder.mutex("c").lock().await.unwrap();
    let all = locks.all(NAMES).ttl(Duration::from_millis(300)).wait(Duration::from_secs(5));
    let begun = Instant::now();
    let waits = tokio::spawn(async move { all.lock().await });
    let mut forced = 0;
    while !waits.is_finished() {
        sleep(Duration::from_millis(50)).await;
        if begun.elapsed() < Duration::from_secs(4) {
            let _ = holder.force_release("a").await.unwrap();
            forced += 1;
        }
    }
    assert!(forced > 10);
    match waits.await.unwrap() {
        Err(LockError::TimedOut { key, waited, .. }) => {
            assert_eq!(key.name(), "c");
            assert!(waited >= Duration::from_secs(5), "{waited:?}");
        }
        other => panic!("{other:?}"),
    }
    assert!(begun.elapsed() < Duration::from_millis(5100), "{:?}", begun.elapsed());
    held.release().await.unwrap();
    are_free(&holder).await;
}

/// The leases that were acquired first end first.
#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_set_is_the_earliest() {
    let (faults, [holder, locks]) = clients();
    let held = holder.mutex("b").lock().await.unwrap();
    let waits = tokio::spawn(take(&locks));
    sleep(TTL / 4).await;
    held.release().await.unwrap();
    let leases = waits.await.unwrap();
    let [a, b, c] = NAMES.map(|name| {
        let of_name = leases.iter().find(|lease| lease.key().name() == name);
        of_name.expect("it is one of them").remaining()
    });
    assert!(a + TTL / 5 < c && leases.remaining() == a.min(b), "{a:?} {b:?} {c:?}");
    // The first lease that ends, ends the set.
    faults.always(Fault::LoseCommand);
    let (begun, least) = (Instant::now(), leases.remaining());
    leases.lost().await;
    assert!(begun.elapsed() <= least + LATE, "{:?}", begun.elapsed());
    assert!(!leases.is_held() && leases.iter().any(leasehold::Lease::is_held));
}

#[tokio::test(start_paused = true)]
async fn the_set_is_in_the_state_of_its_worst_lease() {
    let (faults, [_, locks]) = clients();
    let leases = take(&locks).await;
    assert_eq!((leases.len(), leases.iter().len()), (NAMES.len(), NAMES.len()));
    assert_eq!(leases.state(), LeaseState::Held);
    faults.on(Step::Renew).next(Fault::Unreachable);
    sleep(TTL / 3 + LATE).await;
    assert_eq!(leases.state(), LeaseState::Suspect, "one renewal has failed");
    leases.renew().await.unwrap();
    assert_eq!(leases.state(), LeaseState::Held);
    assert!(leases.remaining() > TTL * 9 / 10);
    assert!(faults.expire("b"));
    let lost = leases.renew().await;
    assert!(matches!(&lost, Err(LockError::Lost { key, .. }) if key.name() == "b"), "{lost:?}");
    assert_eq!(leases.state(), LeaseState::Lost(LossReason::Gone));
    assert_eq!(leases.remaining(), Duration::ZERO);
}

/// The process stands still past the deadline. The timers and the work are both ready when it goes
/// on, and the work must not run.
#[tokio::test(start_paused = true)]
async fn work_suspended_past_the_deadline_does_not_continue() {
    let (faults, [_, locks]) = clients();
    let leases = take(&locks).await;
    faults.always(Fault::LoseCommand);
    let mut went_on = false;
    let work = async {
        tokio::time::advance(TTL * 2).await;
        tokio::task::yield_now().await;
        went_on = true;
    };
    assert!(matches!(leases.run(work).await, Err(LockError::Lost { .. })));
    assert!(!went_on);
}

/// A call that does not wait takes none of the locks if one is held, not even for a moment.
#[tokio::test(start_paused = true)]
async fn a_try_that_is_refused_takes_nothing() {
    let (faults, [holder, locks]) = clients();
    let held = holder.mutex(NAMES[2]).lock().await.unwrap();
    faults.store().log();
    let refused = locks.all(NAMES).try_lock().await;
    let Err(LockError::Busy { key, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(key.name(), NAMES[2]);
    assert_eq!(faults.store().log(), ["acquire_all", "acquire"]);
    held.release().await.unwrap();
    locks.all(NAMES).try_lock().await.unwrap().release().await.unwrap();
}

/// Two tries that share a lock ask for it alone, for their errors, and so keep it from one another. They do
/// not go on.
#[tokio::test(start_paused = true)]
async fn a_try_asks_for_each_lock_once() {
    let (faults, [other, _]) = clients();
    let inner = faults.store().clone();
    let store = Overridden::new(inner.clone(), move |store, command| {
        if !matches!(command, Command::AcquireAll(..)) {
            return store.send(command);
        }
        let (other, inner, command) = (other.clone(), inner.clone(), command.into_owned());
        Box::pin(async move {
            let held = other.mutex(NAMES[1]).lock().await.unwrap();
            let answer = inner.send(command).await;
            held.release().await.unwrap();
            answer
        })
    });
    faults.store().log();
    let refused = Locks::over(store).all(NAMES).try_lock().await;
    let Err(LockError::Busy { key, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!((key.name(), count(&faults, "acquire_all")), (NAMES[1], NAMES.len() + 1));
}
