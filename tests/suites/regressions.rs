//! Bugs of other lock libraries that must not occur here. Each test is named after the bug that
//! users saw. Bugs that other suites cover are left out.

#[cfg(feature = "servers")]
mod on_servers;

use std::sync::Arc;
use std::time::Duration;

use leasehold::store::memory::MemoryStore;
use leasehold::{Fault, KeyTemplate, LockError, LockKey, Locks, Released, Wait};
use leasehold_tests::members::{Fault as Member, Members};
use proptest::prelude::*;
use tokio::time::{sleep, timeout};

const TTL: Duration = Duration::from_secs(9);

const LONG: Duration = Duration::from_secs(60);

/// After one failed renewal, no later lock of the name was renewed.
#[tokio::test(start_paused = true)]
async fn a_failed_renewal_harms_no_later_lease_of_the_name() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let first = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    faults.always(Fault::LoseCommand);
    first.lost().await;
    drop(first);
    faults.heal();
    let second = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    sleep(TTL * 5).await;
    assert!(second.is_held());
}

/// The watchdog of an acquisition that was given up renewed for ever.
#[tokio::test(start_paused = true)]
async fn an_abandoned_acquire_is_not_renewed() {
    let (locks, faults) = Locks::in_memory_with_faults();
    faults.next(Fault::Delay(Duration::from_secs(1)));
    let given_up = tokio::time::timeout(Duration::from_millis(10), locks.mutex("a").lock()).await;
    assert!(given_up.is_err());
    sleep(TTL * 10).await;
    assert_eq!(faults.store().log(), ["acquire", "cancel"]);
}

/// The release of a lost lock was tried again for two seconds, and its caller waited.
#[tokio::test(start_paused = true)]
async fn releasing_a_lost_lease_does_not_block() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    faults.always(Fault::LoseCommand);
    lease.lost().await;
    let begun = tokio::time::Instant::now();
    let released = lease.release().await;
    assert!(matches!(released, Err(LockError::Lost { .. })), "{released:?}");
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

/// An acquire that was sent again after a time-out took the re-entrant branch: the count
/// was two, there was one unlock, and it was held for ever.
#[tokio::test(start_paused = true)]
async fn an_acquire_that_is_sent_again_is_no_re_entry() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let mine = locks.reentrant_mutex("a").owner("me");
    faults.next(Fault::LoseReply);
    faults.next(Fault::LoseReply);
    let lease = mine.lock().await.unwrap();
    assert_eq!(faults.store().log(), ["acquire"; 3]);
    assert_eq!(lease.release().await.unwrap(), Released::Free);
    let _other = locks.reentrant_mutex("a").owner("other").try_lock().await.unwrap();
}

/// A permit that was released twice was minted anew.
#[tokio::test(start_paused = true)]
async fn a_release_that_is_sent_again_mints_no_permit() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let semaphore = locks.semaphore("a", 2);
    let (first, second) = (semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap());
    faults.next(Fault::LoseReply);
    first.release().await.unwrap();
    assert_eq!(faults.store().log()[2..], ["release", "release"]);
    let third = semaphore.try_acquire().await.unwrap();
    assert!(semaphore.try_acquire().await.is_err());
    drop((second, third));
}

/// With an even number of servers and an even vote, a call never returned. Here such a number is
/// refused. An even vote among the answers ends the call.
#[tokio::test(start_paused = true)]
async fn an_even_vote_is_an_answer() {
    let members = Members::start(3, LONG, LONG);
    members.member(2).kill();
    let one = members.locks().mutex("a").try_lock().await.unwrap();
    members.member(1).kill();
    members.member(2).revive();
    // One server has the lock, one does not, and one does not answer.
    let answered = timeout(TTL, members.locks().mutex("a").try_lock()).await;
    let answer = answered.expect("it returns");
    assert!(matches!(answer, Err(LockError::Busy { .. })), "{answer:?}");
    drop(one);
}

/// A lock was returned 108 ms after it had expired: the validity was not looked at last.
#[tokio::test(start_paused = true)]
async fn a_quorums_lock_is_not_returned_when_it_has_expired() {
    let members = Members::start(3, TTL, TTL);
    for place in 0..3 {
        members.member(place).plan(Member::Slow(Duration::from_millis(150)));
    }
    let ttl = Duration::from_millis(100);
    let lease = members.locks().mutex("a").ttl(ttl).wait(TTL).lock().await.unwrap();
    assert!(lease.is_held(), "it asked again");
    assert!(lease.remaining() > Duration::from_millis(90));
}

/// Grants of a minority blocked the next try.
#[tokio::test(start_paused = true)]
async fn grants_of_a_minority_do_not_vote_against_the_next_try() {
    let members = Members::start(3, LONG, LONG);
    members.member(1).plan(Member::LoseCommand);
    members.member(2).plan(Member::LoseCommand);
    let locks = members.locks();
    let failed = locks.mutex("a").try_lock().await;
    assert!(matches!(failed, Err(LockError::Quorum { .. })), "{failed:?}");
    locks.mutex("a").try_lock().await.unwrap().release().await.unwrap();
}

/// One server was restarted, and the next renewal dropped a lock that still had its
/// majority.
#[tokio::test(start_paused = true)]
async fn a_server_that_was_restarted_takes_no_lock_with_it() {
    let members = Members::start(3, TTL, TTL);
    let lease = members.locks().mutex("a").ttl(TTL).lock().await.unwrap();
    for place in [0, 1, 2] {
        members.member(place).restart_empty();
        sleep(TTL).await;
        assert!(lease.is_held());
    }
    lease.release().await.unwrap();
}

/// The renewals of a live reader kept dead readers alive.
#[tokio::test(start_paused = true)]
async fn a_reader_is_not_prolonged_by_anothers_renewals() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let dead = locks.rw_lock("a").ttl(TTL).read().await.unwrap();
    faults.always(Fault::LoseCommand);
    dead.lost().await;
    faults.heal();
    let live = locks.rw_lock("a").ttl(TTL).read().await.unwrap();
    sleep(TTL * 5).await;
    assert!(live.is_held());
    assert_eq!(locks.inspect("a").await.unwrap().held, 1);
    live.release().await.unwrap();
    let _writer = locks.rw_lock("a").try_write().await.unwrap();
}

/// The owner was the thread: two tasks on one thread shared the lock, and a
/// task that had moved could not unlock.
#[tokio::test]
async fn two_tasks_on_one_thread_do_not_share_a_lock() {
    let locks = Locks::in_memory();
    let lease = locks.mutex("a").lock().await.unwrap();
    let refused = locks.mutex("a").try_lock().await;
    assert!(matches!(refused, Err(LockError::Busy { .. })));
    let elsewhere = std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(lease.release())
    });
    elsewhere.join().unwrap().unwrap();
}

/// One had A and waited for B, the other had B and waited for A.
#[tokio::test(start_paused = true)]
async fn multi_locks_in_opposite_order_do_not_deadlock() {
    let store = Arc::new(MemoryStore::default());
    let [holder, one, other] = [(); 3].map(|()| Locks::over(store.clone()));
    // Neither of the two can have both at once.
    let [a, b] = ["a", "b"].map(|name| holder.mutex(name));
    let (a, b) = (a.lock().await.unwrap(), b.lock().await.unwrap());
    let sets = [one.all(["a", "b"]), other.all(["b", "a"])].map(|set| {
        tokio::spawn(async move { set.wait(Wait::Forever).lock().await.unwrap().release().await })
    });
    sleep(Duration::from_secs(1)).await;
    a.release().await.unwrap();
    b.release().await.unwrap();
    for set in sets {
        let served = tokio::time::timeout(Duration::from_secs(60), set).await;
        served.expect("they do not wait for each other").unwrap().unwrap();
    }
}

/// The key was stored as a fencing counter for each name ever used.
#[tokio::test(start_paused = true)]
async fn tokens_grow_without_a_counter_for_each_name() {
    let locks = Locks::in_memory();
    let before = locks.mutex("a").lock().await.unwrap().fence().unwrap();
    sleep(Duration::from_secs(3600)).await;
    assert!(locks.mutex("a").lock().await.unwrap().fence().unwrap() > before);
}

/// A caller could not tell busy, timed out, unreachable and lost apart.
#[tokio::test(start_paused = true)]
async fn each_way_to_fail_is_an_error_of_its_own() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    let busy = locks.mutex("a").try_lock().await.unwrap_err();
    let timed_out = locks.mutex("a").wait(TTL / 9).lock().await.unwrap_err();
    faults.always(Fault::Unreachable);
    let unreachable = locks.mutex("b").try_lock().await.unwrap_err();
    lease.lost().await;
    let lost = lease.release().await.unwrap_err();
    assert!(matches!(busy, LockError::Busy { .. }) && busy.is_held_by_another());
    assert!(matches!(timed_out, LockError::TimedOut { .. }) && timed_out.is_held_by_another());
    assert!(matches!(unreachable, LockError::Store { .. }) && !unreachable.is_held_by_another());
    assert!(matches!(lost, LockError::Lost { .. }) && !lost.is_held_by_another());
}

/// The part of a key that a cluster hashes, after its documentation.
fn hashed(key: &str) -> &str {
    let tag = key.find('{').and_then(|open| {
        let inside = &key[open + 1..];
        inside.find('}').map(|close| &inside[..close]).filter(|tag| !tag.is_empty())
    });
    tag.unwrap_or(key)
}

/// Text with many characters that have a meaning in keys, or are escaped.
fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(
        prop_oneof![
            3 => prop_oneof![Just('{'), Just('}'), Just('%'), Just(':'), Just('2'), Just('5')],
            1 => any::<char>(),
        ],
        0..8,
    )
    .prop_map(String::from_iter)
}

proptest! {
    /// Derived keys missed the prefix or the hash tag: CROSSSLOT.
    #[test]
    fn all_keys_of_a_lock_are_in_one_slot(name in text()) {
        if let Ok(key) = LockKey::new(&name) {
            let lock = key.in_store("p", "lock");
            prop_assert!(lock.starts_with("p:lock:") && hashed(&lock) != lock, "{}", lock);
            for role in ["holders", "queue", "waiters", "wake"] {
                let other = key.in_store("p", role);
                prop_assert!(other.starts_with(&format!("p:{role}:")), "{}", other);
                prop_assert_eq!(hashed(&lock), hashed(&other));
                // On a cluster, waiters get hints over another channel.
                let channel = format!("{other}:{{x}}");
                prop_assert_eq!(hashed(&lock), hashed(&channel));
            }
        }
    }

    /// Names that differ are different locks.
    #[test]
    fn different_names_never_make_the_same_key(one in text(), other in text()) {
        if let (Ok(first), Ok(second)) = (LockKey::new(&one), LockKey::new(&other)) {
            let is_same = first.in_store("p", "lock") == second.in_store("p", "lock");
            prop_assert_eq!(is_same, one == other);
            let roles = first.in_store("p", "lock") == second.in_store("p", "holders");
            prop_assert!(!roles, "one lock's record is never another's second key");
        }
    }

    /// `("a:b", "c")` and `("a", "b:c")` were the same lock.
    #[test]
    fn different_values_never_make_the_same_key(
        one in (text(), text()),
        other in (text(), text()),
    ) {
        let key = |(first, second): &(String, String)| {
            let template = KeyTemplate::new().text("x:").part("first", first);
            template.text(":").part("second", second).finish()
        };
        if let (Ok(first), Ok(second)) = (key(&one), key(&other)) {
            prop_assert_eq!(first.name() == second.name(), one == other);
            let is_same = first.in_store("p", "lock") == second.in_store("p", "lock");
            prop_assert_eq!(is_same, one == other);
            let name = first.name();
            prop_assert_eq!(name.matches(':').count(), 2, "a value adds no segment: {}", name);
            prop_assert!(!name.contains(['{', '}']), "a value adds no slot: {}", name);
        }
    }
}
