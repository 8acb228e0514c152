//! What went wrong elsewhere, and must not here. Each test is named after what
//! its users saw; what other suites show already is not said twice.

use std::time::Duration;

use leasehold::{KeyTemplate, LockError, LockKey, Locks};
use leasehold_tests::faulty::{Fault, Faulty};
use proptest::prelude::*;
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(9);

/// After one renewal that failed, all later locks of the name went without.
#[tokio::test(start_paused = true)]
async fn a_failed_renewal_harms_no_later_lease_of_the_name() {
    let (store, locks) = Faulty::start();
    let first = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    store.always(Fault::LoseCommand);
    first.lost().await;
    drop(first);
    store.always(Fault::None);
    let second = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    sleep(TTL * 5).await;
    assert!(second.is_held());
}

/// The watchdog of an acquisition that was given up renewed for ever.
#[tokio::test(start_paused = true)]
async fn nothing_is_renewed_for_an_acquisition_that_was_given_up() {
    let (store, locks) = Faulty::start();
    store.next(&[Fault::Delay(Duration::from_secs(1))]);
    let given_up = tokio::time::timeout(Duration::from_millis(10), locks.mutex("a").lock()).await;
    assert!(given_up.is_err());
    sleep(TTL * 10).await;
    assert_eq!(store.log(), ["acquire", "cancel"]);
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
    let (store, locks) = Faulty::start();
    let lease = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    let busy = locks.mutex("a").try_lock().await.unwrap_err();
    let timed_out = locks.mutex("a").wait(TTL / 9).lock().await.unwrap_err();
    store.always(Fault::Refuse);
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

/// Text with what has a meaning in keys, and what is escaped, in plenty.
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
            let (lock, holders) = (key.in_store("p", "lock"), key.in_store("p", "holders"));
            prop_assert_eq!(hashed(&lock), hashed(&holders));
            prop_assert!(lock.starts_with("p:lock:") && hashed(&lock) != lock, "{}", lock);
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
