//! Sets of locks, as a user sees them: of mutexes alone, and of a mutex beside permits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::{Forced, Lease, LeaseState, LockError, Locks, LossReason, MultiLock, Wait};
use leasehold_tests::backend::Backend;
use leasehold_tests::waiting::{until, work_for};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{LONG, SHORT};

macro_rules! cases {
    ($case:path) => {
        $case! {
            lease_set:
            all_are_held_and_all_are_released,
            names_given_twice_count_once,
            permits_alone_are_a_set,
            each_lease_has_its_own_token,
            the_locks_of_a_set_are_ordinary_locks,
            a_try_names_the_busy_lock_and_takes_none,
            a_try_does_not_overtake_a_waiter,
            the_wait_covers_all_locks,
            a_wait_that_times_out_releases_all,
            held_leases_are_renewed_during_the_wait,
            the_set_is_lost_when_one_lease_is,
            a_loss_during_the_wait_starts_over,
            dropped_leases_are_released,
            a_dropped_wait_releases_all,
            overlapping_sets_take_turns,
            two_limits_are_never_exceeded,
            another_kind_is_reported,
            readers_and_writers_may_be_in_a_set,
            a_set_has_an_owner_and_a_note,
            invalid_arguments_are_refused,
        }
    };
}
pub(super) use cases;

/// A lock of a set: a semaphore with this limit, of which the set takes one permit; or a mutex.
#[derive(Clone, Copy, Debug)]
struct Member {
    name: &'static str,
    limit: Option<u32>,
}

impl Member {
    const fn mutex(name: &'static str) -> Self {
        Self { name, limit: None }
    }

    const fn permit(name: &'static str, limit: u32) -> Self {
        Self { name, limit: Some(limit) }
    }

    /// Takes the mutex, or all permits.
    fn take(
        self,
        locks: &Locks,
        wait: Duration,
    ) -> impl Future<Output = Result<Lease, LockError>> + Send + use<> {
        let locks = locks.clone();
        async move {
            match self.limit {
                None => locks.mutex(self.name).wait(wait).lock().await,
                Some(all) => locks.semaphore(self.name, all).wait(wait).acquire_many(all).await,
            }
        }
    }
}

/// In the order of their names. On a cluster each is in a slot of its own, so they are acquired one
/// after another. Elsewhere one command acquires them.
const MUTEXES: [Member; 3] = [Member::mutex("a"), Member::mutex("b"), Member::mutex("c")];

/// In one slot, so one command acquires them everywhere.
const MIXED: [Member; 3] = [Member::permit("of:{1}:acme", 2), Member::mutex("of:{1}:order"), TOTAL];
const TOTAL: Member = Member::permit("of:{1}:total", 3);

const NAMES: [&str; 3] = ["a", "b", "c"];

/// The first renewal comes after a second. A busy machine may be late by another.
const TTL: Duration = Duration::from_secs(3);

/// All of them, named in another order.
fn set(locks: &Locks, members: [Member; 3]) -> MultiLock {
    let members = members.iter().rev();
    let mutexes = members.clone().filter(|member| member.limit.is_none());
    members
        .filter_map(|member| Some((member.name, member.limit?)))
        .fold(locks.all(mutexes.map(|member| member.name)), |set, (name, limit)| {
            set.permit(name, limit)
        })
}

/// Checks that all of them can be acquired at once.
async fn are_free(locks: &Locks, members: &[Member]) {
    for member in members {
        let free = member.take(locks, Duration::ZERO).await;
        free.unwrap().release().await.unwrap();
    }
}

async fn are_busy(locks: &Locks, members: &[Member]) {
    for member in members {
        let tried = member.take(locks, Duration::ZERO).await;
        assert!(matches!(tried, Err(LockError::Busy { .. })), "{tried:?}");
    }
}

/// Waits until all of them are released in the background.
async fn become_free(locks: &Locks, members: &[Member]) {
    for member in members {
        let free = member.take(locks, LONG).await;
        free.unwrap().release().await.unwrap();
    }
}

pub(super) async fn all_are_held_and_all_are_released(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    for members in [MUTEXES, MIXED] {
        let leases = set(&first, members).lock().await.unwrap();
        assert!(leases.is_held() && leases.remaining() > LONG / 2 && leases.len() == 3);
        assert_eq!(leases.state(), LeaseState::Held);
        let names = members.map(|member| member.name);
        assert!(leases.iter().map(|lease| lease.key().name()).eq(names), "{leases:?}");
        assert_eq!(leases.run(async { 7 }).await.unwrap(), 7);
        leases.renew().await.unwrap();
        are_busy(&second, &members).await;
        leases.release().await.unwrap();
        are_free(&second, &members).await;
        set(&first, members).try_lock().await.unwrap().release().await.unwrap();
    }
}

pub(super) async fn names_given_twice_count_once(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let leases = locks.all(["b", "a", "b", "a"]).lock().await.unwrap();
    assert_eq!(leases.iter().len(), 2);
    leases.release().await.unwrap();
    let leases = locks.all(["a"; 100]).try_lock().await.unwrap();
    assert_eq!(leases.iter().len(), 1);
    leases.release().await.unwrap();
    are_free(&locks, &MUTEXES).await;
}

/// One or more, and as heavy as they like. Others are granted what is left.
pub(super) async fn permits_alone_are_a_set(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let alone = first.together().weighted_permit(TOTAL.name, 3, 2);
    let leases = alone.lock().await.unwrap();
    assert_eq!(leases.len(), 1);
    let fence = leases.fence(TOTAL.name);
    assert!(matches!(fence, Err(LockError::NotFenced { .. })), "{fence:?}");
    let beside = second.together().permit(TOTAL.name, 3).permit(MIXED[0].name, 2);
    let others = beside.lock().await.unwrap();
    for full in [&alone, &beside] {
        assert!(full.try_lock().await.unwrap_err().is_held_by_another());
    }
    leases.release().await.unwrap();
    let leases = alone.lock().await.unwrap();
    assert!(beside.try_lock().await.unwrap_err().is_held_by_another());
    leases.release().await.unwrap();
    others.release().await.unwrap();
    are_free(&first, &MIXED).await;
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

pub(super) async fn the_locks_of_a_set_are_ordinary_locks(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    for members in [MUTEXES, MIXED] {
        let leases = set(&first, members).lock().await.unwrap();
        let waits = tokio::spawn(members[2].take(&second, LONG));
        backend.until_queued(members[2].name, 1).await;
        leases.release().await.unwrap();
        let alone = waits.await.unwrap().unwrap();
        let tried = set(&first, members).try_lock().await;
        assert!(matches!(tried, Err(LockError::Busy { .. })));
        alone.release().await.unwrap();
        are_free(&first, &members).await;
    }
}

pub(super) async fn a_try_names_the_busy_lock_and_takes_none(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    for members in [MUTEXES, MIXED] {
        for busy in 0..3 {
            let held = members[busy].take(&first, Duration::ZERO).await.unwrap();
            let all = set(&second, members);
            // A wait of zero does not wait either.
            for tried in [all.try_lock().await, all.wait(Duration::ZERO).lock().await] {
                match tried {
                    Err(LockError::Busy { key, retry_after, .. }) => {
                        assert_eq!(key.name(), members[busy].name);
                        assert!(retry_after > LONG / 2, "{retry_after:?}");
                    }
                    other => panic!("{other:?}"),
                }
            }
            are_free(&first, &members[..busy]).await;
            are_free(&first, &members[busy + 1..]).await;
            held.release().await.unwrap();
        }
    }
}

/// The waiter is too heavy for what is left. The set is not.
pub(super) async fn a_try_does_not_overtake_a_waiter(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let held = first.semaphore(TOTAL.name, 3).acquire().await.unwrap();
    let waits = tokio::spawn(TOTAL.take(&second, LONG));
    backend.until_queued(TOTAL.name, 1).await;
    match set(&first, MIXED).try_lock().await {
        Err(LockError::Busy { key, .. }) => assert_eq!(key.name(), TOTAL.name),
        other => panic!("{other:?}"),
    }
    held.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
    set(&first, MIXED).try_lock().await.unwrap().release().await.unwrap();
}

pub(super) async fn the_wait_covers_all_locks(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    for members in [MUTEXES, MIXED] {
        let [a, b, c] = members;
        let held = [a.take(&first, LONG).await.unwrap(), c.take(&first, LONG).await.unwrap()];
        let waits = tokio::spawn(set(&second, members).wait(Wait::Forever).lock());
        let [held_a, held_c] = held;
        backend.until_queued(a.name, 1).await;
        are_free(&first, &[b]).await;
        held_a.release().await.unwrap();
        backend.until_queued(c.name, 1).await;
        are_busy(&first, &members).await;
        assert!(!waits.is_finished());
        held_c.release().await.unwrap();
        let leases = waits.await.unwrap().unwrap();
        are_busy(&first, &members).await;
        let least = leases.iter().map(Lease::remaining).min().unwrap();
        assert!(leases.remaining() <= least && leases.is_held() && leases.len() == 3);
        leases.release().await.unwrap();
        are_free(&first, &members).await;
    }
}

pub(super) async fn a_wait_that_times_out_releases_all(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    for members in [MUTEXES, MIXED] {
        let held = members[2].take(&first, LONG).await.unwrap();
        let begun = Instant::now();
        match set(&second, members).wait(SHORT).lock().await {
            Err(LockError::TimedOut { key, waited, .. }) => {
                assert_eq!(key.name(), members[2].name);
                assert!(waited >= SHORT && waited <= begun.elapsed(), "{waited:?}");
            }
            other => panic!("{other:?}"),
        }
        // The locks are free before the error is returned.
        are_free(&first, &members[..2]).await;
        held.release().await.unwrap();
        become_free(&first, &members[2..]).await;
    }
}

/// Waits until the lease of this mutex is renewed: the time that it has left grows.
async fn is_renewed(locks: &Locks, name: &str) {
    let mut left = Duration::MAX;
    let grows = async || match locks.mutex(name).try_lock().await {
        Err(LockError::Busy { retry_after, .. }) => {
            retry_after > std::mem::replace(&mut left, retry_after)
        }
        other => panic!("{other:?}"),
    };
    until("the lease is renewed", grows).await;
}

pub(super) async fn held_leases_are_renewed_during_the_wait(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    let held = first.mutex("c").lock().await.unwrap();
    let waits = tokio::spawn(set(&second, MUTEXES).ttl(TTL).wait(Wait::Forever).lock());
    backend.until_queued("c", 1).await;
    let fences = [first.inspect("a").await.unwrap(), first.inspect("b").await.unwrap()];
    let fences = fences.map(|info| info.holders[0].fence);
    for name in ["a", "b", "a"] {
        is_renewed(&first, name).await;
    }
    held.release().await.unwrap();
    let leases = waits.await.unwrap().unwrap();
    let now = ["a", "b"].map(|name| Some(leases.fence(name).unwrap()));
    assert_eq!(now, fences, "they are the same leases");
    leases.release().await.unwrap();
}

pub(super) async fn the_set_is_lost_when_one_lease_is(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    for (members, lost) in [(MUTEXES, 1), (MIXED, 0)] {
        let name = members[lost].name;
        let leases = set(&first, members).ttl(TTL).lock().await.unwrap();
        let work = async {
            let forced = second.force_release(name).await.unwrap();
            assert!(matches!(forced, Forced::Released { held: 1, .. }), "{forced:?}");
            std::future::pending::<()>().await;
        };
        let is_lost = |said: Result<(), LockError>| match said {
            Err(LockError::Lost { key, reason: LossReason::Forced, .. }) => {
                assert_eq!(key.name(), name);
            }
            other => panic!("{other:?}"),
        };
        is_lost(leases.run(work).await);
        let (key, reason) = leases.lost().await;
        assert_eq!((key.name(), reason), (name, LossReason::Forced));
        assert!(!leases.is_held() && leases.remaining().is_zero());
        assert!(matches!(leases.state(), LeaseState::Lost(_)));
        for fenced in members.iter().filter(|member| member.limit.is_none()) {
            is_lost(leases.fence(fenced.name).map(drop));
        }
        assert_eq!(leases.iter().filter(|lease| lease.is_held()).count(), 2, "the others");
        let others = (0..3).filter(|at| *at != lost).map(|at| members[at]);
        are_busy(&second, &others.collect::<Vec<_>>()).await;
        is_lost(leases.release().await);
        are_free(&second, &members).await;
    }
}

pub(super) async fn a_loss_during_the_wait_starts_over(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    for members in [MUTEXES, MIXED] {
        let [a, b, c] = members;
        let held = c.take(&first, LONG).await.unwrap();
        let waits = tokio::spawn(set(&second, members).ttl(TTL).wait(Wait::Forever).lock());
        backend.until_queued(c.name, 1).await;
        // It waits already, or the set could be the first to ask again.
        let next = tokio::spawn(a.take(&first, LONG));
        backend.until_queued(a.name, 1).await;
        let _ = first.force_release(a.name).await.unwrap();
        let taken = next.await.unwrap().unwrap();
        // The set learns of the loss, releases the other lock, and waits for the first again.
        backend.until_queued(a.name, 1).await;
        become_free(&first, &[b]).await;
        held.release().await.unwrap();
        become_free(&first, &[c]).await;
        assert!(!waits.is_finished());
        let fence = taken.fence().ok();
        taken.release().await.unwrap();
        let leases = waits.await.unwrap().unwrap();
        assert!(leases.is_held() && leases.len() == 3);
        assert!(fence.is_none() || leases.fence(a.name).ok() > fence);
        are_busy(&first, &members).await;
        leases.release().await.unwrap();
        are_free(&first, &members).await;
    }
}

pub(super) async fn dropped_leases_are_released(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    for members in [MUTEXES, MIXED] {
        drop(set(&first, members).lock().await.unwrap());
        become_free(&second, &members).await;
        let releases = set(&first, members).lock().await.unwrap().release();
        drop(releases);
        become_free(&second, &members).await;
    }
}

pub(super) async fn a_dropped_wait_releases_all(backend: &dyn Backend) {
    let (first, second) = (backend.locks().await, backend.locks().await);
    for members in [MUTEXES, MIXED] {
        let held = members[2].take(&first, LONG).await.unwrap();
        let waits = tokio::spawn(set(&second, members).wait(Wait::Forever).lock());
        backend.until_queued(members[2].name, 1).await;
        waits.abort();
        assert!(waits.await.is_err());
        become_free(&first, &members[..2]).await;
        backend.until_queued(members[2].name, 0).await;
        held.release().await.unwrap();
        are_free(&first, &members[2..]).await;
    }
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
    become_free(&clients[0], &MUTEXES).await;
}

pub(super) async fn another_kind_is_reported(backend: &dyn Backend) {
    let locks = backend.locks().await;
    for members in [MUTEXES, MIXED] {
        let other = match members[2].limit {
            None => locks.semaphore(members[2].name, 1).acquire().await.unwrap(),
            Some(_) => locks.mutex(members[2].name).lock().await.unwrap(),
        };
        let all = set(&locks, members);
        for refused in [all.try_lock().await, all.lock().await] {
            match refused {
                Err(LockError::WrongKind { key, .. }) => assert_eq!(key.name(), members[2].name),
                other => panic!("{other:?}"),
            }
        }
        become_free(&locks, &members[..2]).await;
        other.release().await.unwrap();
        all.try_lock().await.unwrap().release().await.unwrap();
    }
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
    are_free(&first, &MUTEXES[..1]).await;
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
    let names = |count: u32| (0..count).map(|n| format!("n:{n}"));
    let permits = names(65).fold(locks.together(), |all, name| all.permit(name, 1));
    let [acme, order, _] = MIXED.map(|member| member.name);
    for (all, wanted, text) in [
        (locks.together(), "keys", "0 keys"),
        (locks.all(names(65)), "keys", "65 keys"),
        (permits, "keys", "65 keys"),
        (locks.all(NAMES).ttl(Duration::from_millis(99)), "ttl", ""),
        (locks.all([order]).permit(order, 2), "keys", "for two kinds of lock"),
        (locks.all([order]).permit(acme, 2).permit(acme, 2), "keys", "for two permits"),
        (locks.all([order]).permit(acme, 0), "permits", "a limit of 0"),
        (locks.all([order]).weighted_permit(acme, 2, 0), "weight", "0 is not between 1"),
        (locks.all([order]).weighted_permit(acme, 2, 3), "weight", "the semaphore's limit of 2"),
    ] {
        for refused in [all.try_lock().await, all.lock().await] {
            match refused {
                Err(LockError::InvalidOption { option, problem, .. }) => {
                    assert_eq!(option, wanted);
                    assert!(problem.contains(text), "{problem}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
    for invalid in [locks.all([order, ""]), locks.all([order]).permit("", 2)] {
        let invalid = invalid.lock().await;
        assert!(matches!(invalid, Err(LockError::InvalidKey { .. })), "{invalid:?}");
    }
    are_free(&locks, &MIXED).await;
    let most = locks.all(names(64)).lock().await.unwrap();
    assert_eq!(most.iter().len(), 64);
    most.release().await.unwrap();
}

/// How many are inside now, and the most that were.
#[derive(Default)]
struct Inside {
    now: AtomicU32,
    most: AtomicU32,
}

impl Inside {
    fn enter(&self, weight: u32, limit: u32) {
        let inside = self.now.fetch_add(weight, Ordering::SeqCst) + weight;
        assert!(inside <= limit, "{inside} beside each other, of {limit}");
        self.most.fetch_max(inside, Ordering::SeqCst);
    }

    fn leave(&self, weight: u32) {
        self.now.fetch_sub(weight, Ordering::SeqCst);
    }
}

const TENANTS: usize = 3;
const OF_TENANT: u32 = 2;
const OF_ALL: u32 = 4;

/// Tasks of four clients wait, try and give up, with permits of both weights, and each tenant alone
/// could take more than half of the total.
pub(super) async fn two_limits_are_never_exceeded(backend: &dyn Backend) {
    let total = Arc::new(Inside::default());
    let tenants =
        Arc::new([const { Inside { now: AtomicU32::new(0), most: AtomicU32::new(0) } }; TENANTS]);
    let mut tasks = JoinSet::new();
    let locks = backend.locks().await;
    for n in 0..12 {
        let mine = if n % 3 == 0 { backend.locks().await } else { locks.clone() };
        let (total, tenants) = (total.clone(), tenants.clone());
        tasks.spawn(async move {
            let mut served = 0;
            for round in 0..12 {
                let tenant = (n + round / 4) % TENANTS;
                let weight = if (n + round) % 5 == 0 { 2 } else { 1 };
                let all = mine
                    .all([format!("of:{{1}}:order:{}", n % 6)])
                    .permit(format!("of:{{1}}:tenant:{tenant}"), OF_TENANT)
                    .weighted_permit("of:{1}:total", OF_ALL, weight)
                    .wait(Wait::Forever);
                let got = match round % 4 {
                    0 => timeout(Duration::from_millis(5), all.lock()).await.ok(),
                    1 => Some(all.try_lock().await)
                        .filter(|tried| !tried.as_ref().is_err_and(LockError::is_held_by_another)),
                    _ => Some(all.lock().await),
                };
                let Some(leases) = got.transpose().expect("it is served") else { continue };
                total.enter(weight, OF_ALL);
                tenants[tenant].enter(1, OF_TENANT);
                work_for(Duration::from_millis(2)).await;
                assert!(leases.is_held());
                tenants[tenant].leave(1);
                total.leave(weight);
                leases.release().await.unwrap();
                served += 1;
            }
            served
        });
    }
    let served: u32 = tasks.join_all().await.into_iter().sum();
    assert!(served >= 72, "{served}: those that wait are served");
    let most = |inside: &Inside| inside.most.load(Ordering::SeqCst);
    // Each takes 2 at most. On a machine under load, the limits themselves may not be reached.
    assert!(most(&total) > 2, "several run at a time, or it shows nothing");
    let whole = (0..TENANTS).fold(locks.together(), |all, tenant| {
        all.weighted_permit(format!("of:{{1}}:tenant:{tenant}"), OF_TENANT, OF_TENANT)
    });
    let whole = whole.weighted_permit("of:{1}:total", OF_ALL, OF_ALL);
    whole.lock().await.unwrap().release().await.unwrap();
}
