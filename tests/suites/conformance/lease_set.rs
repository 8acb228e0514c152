//! Sets of mutexes, as a user sees them.

use std::time::Duration;

use leasehold::{Forced, LockError, Locks, LossReason, Wait};
use leasehold_tests::backend::Backend;
use tokio::time::{Instant, sleep};

use super::{LONG, SHORT};

macro_rules! cases {
    ($case:path) => {
        $case! {
            lease_set:
            all_are_held_and_all_are_released,
            names_given_twice_count_once,
            each_lease_has_its_own_token,
            the_locks_of_a_set_are_ordinary_mutexes,
            a_try_names_the_busy_lock_and_takes_none,
            the_wait_covers_all_locks,
            a_wait_that_times_out_releases_all,
            held_leases_are_renewed_during_the_wait,
            the_set_is_lost_when_one_lease_is,
            work_is_stopped_when_one_lease_is_lost,
            a_loss_during_the_wait_starts_over,
            dropped_leases_are_released,
            a_dropped_wait_releases_all,
            overlapping_sets_take_turns,
            another_kind_is_reported,
            readers_and_writers_may_be_in_a_set,
            a_set_has_an_owner_and_a_note,
            invalid_arguments_are_refused,
        }
    };
}
pub(super) use cases;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// The first renewal comes after a second. A busy machine may be late by another.
const TTL: Duration = Duration::from_secs(3);

/// Checks that all of them can be acquired at once.
async fn are_free(locks: &Locks, names: &[&str]) {
    for name in names {
        locks.mutex(*name).try_lock().await.unwrap().release().await.unwrap();
    }
}

async fn are_busy(locks: &Locks, names: &[&str]) {
    for name in names {
        let tried = locks.mutex(*name).try_lock().await;
        assert!(matches!(tried, Err(LockError::Busy { .. })), "{tried:?}");
    }
}

/// Waits until all of them are released in the background.
async fn become_free(locks: &Locks, names: &[&str]) {
    for name in names {
        let mutex = locks.mutex(*name).wait(Duration::from_secs(5));
        mutex.lock().await.unwrap().release().await.unwrap();
    }
}

pub(super) async fn all_are_held_and_all_are_released(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let leases = first.all(["c", "a", "b"]).lock().await.unwrap();
    assert!(leases.is_held() && leases.remaining() > LONG / 2);
    assert!(leases.iter().map(|lease| lease.key().name()).eq(NAMES), "{leases:?}");
    are_busy(&second, &NAMES).await;
    leases.release().await.unwrap();
    are_free(&second, &NAMES).await;
    first.all(NAMES).try_lock().await.unwrap().release().await.unwrap();
}

pub(super) async fn names_given_twice_count_once(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let leases = locks.all(["b", "a", "b", "a"]).lock().await.unwrap();
    assert_eq!(leases.iter().len(), 2);
    leases.release().await.unwrap();
    let leases = locks.all(["a"; 100]).try_lock().await.unwrap();
    assert_eq!(leases.iter().len(), 1);
    leases.release().await.unwrap();
    are_free(&locks, &NAMES).await;
}

pub(super) async fn each_lease_has_its_own_token(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let before = locks.all(NAMES).lock().await.unwrap();
    let tokens = NAMES.map(|name| before.fence(name).unwrap());
    for (lease, token) in before.iter().zip(tokens) {
        assert_eq!(lease.fence().unwrap(), token);
        assert_eq!(before.fence(lease.key()).unwrap(), token);
    }
    let other = before.fence("d").unwrap_err();
    assert!(matches!(other, LockError::InvalidOption { option: "key", .. }), "{other}");
    assert!(other.to_string().contains("`d`"), "{other}");
    before.release().await.unwrap();
    // One more grant of one of them alone.
    let alone = locks.mutex("b").lock().await.unwrap();
    assert!(alone.fence().unwrap() > tokens[1]);
    alone.release().await.unwrap();
    let after = locks.all(NAMES).lock().await.unwrap();
    for (name, token) in NAMES.iter().zip(tokens) {
        assert!(after.fence(name).unwrap() > token);
    }
    after.release().await.unwrap();
}

pub(super) async fn the_locks_of_a_set_are_ordinary_mutexes(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let leases = first.all(NAMES).lock().await.unwrap();
    let mutex = second.mutex("b").wait(Wait::Forever);
    let waits = tokio::spawn(async move { mutex.lock().await.unwrap() });
    backend.until_queued("b", 1).await;
    leases.release().await.unwrap();
    let alone = waits.await.unwrap();
    let tried = first.all(NAMES).try_lock().await;
    assert!(matches!(tried, Err(LockError::Busy { .. })));
    alone.release().await.unwrap();
    are_free(&first, &NAMES).await;
}

pub(super) async fn a_try_names_the_busy_lock_and_takes_none(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    for busy in NAMES {
        let held = first.mutex(busy).lock().await.unwrap();
        match second.all(NAMES).try_lock().await {
            Err(LockError::Busy { key, retry_after, .. }) => {
                assert_eq!(key.name(), busy);
                assert!(retry_after > LONG / 2, "{retry_after:?}");
            }
            other => panic!("{other:?}"),
        }
        let free: Vec<_> = NAMES.into_iter().filter(|name| *name != busy).collect();
        are_free(&first, &free).await;
        held.release().await.unwrap();
    }
    // A wait of zero does not wait either.
    let held = first.mutex("b").lock().await.unwrap();
    let tried = second.all(NAMES).wait(Duration::ZERO).lock().await;
    assert!(matches!(tried, Err(LockError::Busy { .. })), "{tried:?}");
    held.release().await.unwrap();
}

pub(super) async fn the_wait_covers_all_locks(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let held = [first.mutex("a").lock().await.unwrap(), first.mutex("c").lock().await.unwrap()];
    let all = second.all(NAMES).wait(Wait::Forever);
    let waits = tokio::spawn(async move { all.lock().await.unwrap() });
    let [a, c] = held;
    backend.until_queued("a", 1).await;
    are_free(&first, &["b"]).await;
    a.release().await.unwrap();
    backend.until_queued("c", 1).await;
    are_busy(&first, &NAMES).await;
    assert!(!waits.is_finished());
    c.release().await.unwrap();
    let leases = waits.await.unwrap();
    are_busy(&first, &NAMES).await;
    let least = leases.iter().map(leasehold::Lease::remaining).min().unwrap();
    assert!(leases.remaining() <= least && leases.is_held());
    leases.release().await.unwrap();
    are_free(&first, &NAMES).await;
}

pub(super) async fn a_wait_that_times_out_releases_all(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let held = first.mutex("c").lock().await.unwrap();
    let begun = Instant::now();
    match second.all(NAMES).wait(SHORT).lock().await {
        Err(LockError::TimedOut { key, waited, .. }) => {
            assert_eq!(key.name(), "c");
            assert!(waited >= SHORT && waited <= begun.elapsed(), "{waited:?}");
        }
        other => panic!("{other:?}"),
    }
    // The locks are free before the error is returned.
    are_free(&first, &["a", "b"]).await;
    held.release().await.unwrap();
    become_free(&first, &["c"]).await;
}

pub(super) async fn held_leases_are_renewed_during_the_wait(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let held = first.mutex("c").lock().await.unwrap();
    let all = second.all(NAMES).ttl(TTL).wait(Wait::Forever);
    let waits = tokio::spawn(async move { all.lock().await.unwrap() });
    backend.until_queued("c", 1).await;
    let fences = [first.inspect("a").await.unwrap(), first.inspect("b").await.unwrap()];
    let fences = fences.map(|info| info.holders[0].fence);
    let until = Instant::now() + TTL * 2;
    while Instant::now() < until {
        are_busy(&first, &["a", "b"]).await;
        sleep(Duration::from_millis(10)).await;
    }
    held.release().await.unwrap();
    let leases = waits.await.unwrap();
    let now = ["a", "b"].map(|name| Some(leases.fence(name).unwrap()));
    assert_eq!(now, fences, "they are the same leases");
    leases.release().await.unwrap();
}

pub(super) async fn the_set_is_lost_when_one_lease_is(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let leases = first.all(NAMES).ttl(TTL).lock().await.unwrap();
    let forced = second.force_release("b").await.unwrap();
    assert!(matches!(forced, Forced::Released { held: 1, .. }), "{forced:?}");
    let (key, reason) = leases.lost().await;
    assert_eq!((key.name(), reason), ("b", LossReason::Forced));
    assert!(!leases.is_held());
    assert_eq!(leases.remaining(), Duration::ZERO);
    for name in NAMES {
        match leases.fence(name) {
            Err(LockError::Lost { key, .. }) => assert_eq!(key.name(), "b"),
            other => panic!("{other:?}"),
        }
    }
    are_busy(&second, &["a", "c"]).await;
    match leases.release().await {
        Err(LockError::Lost { key, .. }) => assert_eq!(key.name(), "b"),
        other => panic!("{other:?}"),
    }
    are_free(&second, &NAMES).await;
}

pub(super) async fn work_is_stopped_when_one_lease_is_lost(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let leases = first.all(NAMES).ttl(TTL).lock().await.unwrap();
    assert_eq!(leases.run(async { 7 }).await.unwrap(), 7);
    let work = async {
        let _ = second.force_release("c").await.unwrap();
        std::future::pending::<()>().await;
    };
    match leases.run(work).await {
        Err(LockError::Lost { key, .. }) => assert_eq!(key.name(), "c"),
        other => panic!("{other:?}"),
    }
    drop(leases);
    become_free(&second, &NAMES).await;
}

pub(super) async fn a_loss_during_the_wait_starts_over(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let held = first.mutex("c").lock().await.unwrap();
    let all = second.all(NAMES).ttl(TTL).wait(Wait::Forever);
    let waits = tokio::spawn(async move { all.lock().await.unwrap() });
    backend.until_queued("c", 1).await;
    // It waits already, or the set could be the first to ask again.
    let next = first.mutex("a");
    let next = tokio::spawn(async move { next.lock().await.unwrap() });
    backend.until_queued("a", 1).await;
    let _ = first.force_release("a").await.unwrap();
    let taken = next.await.unwrap();
    // The set learns of the loss, releases the other lock, and waits for the first again.
    backend.until_queued("a", 1).await;
    become_free(&first, &["b"]).await;
    held.release().await.unwrap();
    become_free(&first, &["c"]).await;
    let fence = taken.fence().unwrap();
    assert!(!waits.is_finished());
    taken.release().await.unwrap();
    let leases = waits.await.unwrap();
    assert!(leases.is_held() && leases.fence("a").unwrap() > fence);
    assert_eq!(leases.iter().len(), 3);
    are_busy(&first, &NAMES).await;
    leases.release().await.unwrap();
    are_free(&first, &NAMES).await;
}

pub(super) async fn dropped_leases_are_released(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    drop(first.all(NAMES).lock().await.unwrap());
    become_free(&second, &NAMES).await;
    let releases = first.all(NAMES).lock().await.unwrap().release();
    drop(releases);
    become_free(&second, &NAMES).await;
}

pub(super) async fn a_dropped_wait_releases_all(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let held = first.mutex("c").lock().await.unwrap();
    let all = second.all(NAMES).wait(Wait::Forever);
    let waits = tokio::spawn(async move { all.lock().await });
    backend.until_queued("c", 1).await;
    waits.abort();
    assert!(waits.await.is_err());
    become_free(&first, &["a", "b"]).await;
    backend.until_queued("c", 0).await;
    held.release().await.unwrap();
    are_free(&first, &["c"]).await;
}

/// Sets of three form a ring: each shares a lock with each of its neighbours. They are of one
/// client, and of several.
pub(super) async fn overlapping_sets_take_turns(backend: &dyn Backend) {
    let clients = [backend.locks().await, backend.locks().await];
    let mut turns = tokio::task::JoinSet::new();
    for n in 0..12 {
        let locks = clients[n % 2].clone();
        turns.spawn(async move {
            for round in 0..5 {
                let names = [n % 3, (n + 1 + round % 2) % 3].map(|at| NAMES[at]);
                let all = locks.all(names).wait(Wait::Forever);
                let leases = all.lock().await.unwrap();
                assert_eq!(leases.iter().len(), 2);
                leases.release().await.unwrap();
            }
        });
    }
    turns.join_all().await;
    become_free(&clients[0], &NAMES).await;
}

pub(super) async fn another_kind_is_reported(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let permit = locks.semaphore("b", 1).acquire().await.unwrap();
    for refused in [locks.all(NAMES).try_lock().await, locks.all(NAMES).lock().await] {
        match refused {
            Err(LockError::WrongKind { key, .. }) => assert_eq!(key.name(), "b"),
            other => panic!("{other:?}"),
        }
    }
    become_free(&locks, &["a", "c"]).await;
    permit.release().await.unwrap();
    locks.all(NAMES).try_lock().await.unwrap().release().await.unwrap();
}

/// They are acquired one after another, and none is held while another is not free.
pub(super) async fn readers_and_writers_may_be_in_a_set(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let reads = |locks: &Locks| locks.all(["a"]).read("b").read("c");
    let leases = reads(&first).lock().await.unwrap();
    assert!(matches!(leases.fence("b"), Err(LockError::NotFenced { .. })));
    let busy = reads(&second).try_lock().await;
    assert!(matches!(&busy, Err(LockError::Busy { key, .. }) if key.name() == "a"), "{busy:?}");
    let beside = second.together().read("b").read("c").try_lock().await.unwrap();
    let writes = second.together().write("b").permit("d", 1);
    let busy = writes.try_lock().await;
    assert!(matches!(&busy, Err(LockError::Busy { key, .. }) if key.name() == "b"), "{busy:?}");
    leases.release().await.unwrap();
    beside.release().await.unwrap();
    let leases = writes.lock().await.unwrap();
    assert!(leases.fence("b").is_ok());
    let busy = first.all(["a"]).read("b").try_lock().await;
    assert!(matches!(&busy, Err(LockError::Busy { key, .. }) if key.name() == "b"), "{busy:?}");
    are_free(&first, &["a"]).await;
    leases.release().await.unwrap();
    let twice = first.together().read("b").write("b").try_lock().await;
    assert!(matches!(twice, Err(LockError::InvalidOption { option: "keys", .. })), "{twice:?}");
}

pub(super) async fn a_set_has_an_owner_and_a_note(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let set = locks.all(["a"]).permit("b", 2).owner("it").note("why");
    let leases = set.lock().await.unwrap();
    for name in ["a", "b"] {
        let info = locks.inspect(name).await.unwrap();
        assert_eq!(info.holders[0].owner.as_deref(), Some("it"), "{name}");
        assert_eq!(info.holders[0].note.as_deref(), Some("why"), "{name}");
    }
    leases.release().await.unwrap();
}

pub(super) async fn invalid_arguments_are_refused(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let nothing: [&str; 0] = [];
    let names = |count: u32| (0..count).map(|n| format!("n:{n}"));
    for (all, option) in [
        (locks.all(nothing), "keys"),
        (locks.all(names(65)), "keys"),
        (locks.all(NAMES).ttl(Duration::from_millis(99)), "ttl"),
    ] {
        match all.lock().await {
            Err(LockError::InvalidOption { option: of, .. }) => assert_eq!(of, option),
            other => panic!("{other:?}"),
        }
    }
    let invalid = locks.all(["a", ""]).lock().await;
    assert!(matches!(invalid, Err(LockError::InvalidKey { .. })), "{invalid:?}");
    are_free(&locks, &["a"]).await;
    let most = locks.all(names(64)).lock().await.unwrap();
    assert_eq!(most.iter().len(), 64);
    most.release().await.unwrap();
}
