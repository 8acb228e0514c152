//! The list of locks.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::{LockInfo, Locks, Wait};
use leasehold_tests::backend::Backend;
use leasehold_tests::waiting::until;
use tokio::time::Instant;

use super::{Client, LIVE, LONG, SHORT, granted, waits};

macro_rules! cases {
    ($case:path) => {
        $case! {
            listing:
            each_kind_is_listed,
            free_locks_are_not_listed,
            a_kept_lock_is_listed,
            a_lock_with_waiters_is_listed,
            a_lock_whose_lease_ended_under_a_waiter_is_listed,
            hostile_names_are_listed_as_they_are,
            only_names_that_match_are_listed,
            all_of_many_locks_are_listed,
            a_list_can_be_left,
            jobs_are_listed_and_the_overdue_ones_first,
        }
    };
}
pub(super) use cases;

/// A tick that does not end during a test, but once a year.
const YEAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);

async fn list(locks: &Locks, pattern: &str) -> Vec<LockInfo> {
    let (mut list, mut all) = (locks.list(pattern), Vec::new());
    while let Some(lock) = list.next().await {
        all.push(lock.unwrap());
    }
    all
}

/// The names in a list, which may have one twice.
async fn names(locks: &Locks, pattern: &str) -> BTreeSet<String> {
    list(locks, pattern).await.into_iter().map(|lock| lock.name).collect()
}

fn set<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    names.into_iter().map(ToOwned::to_owned).collect()
}

/// Each as `inspect` shows it.
pub(super) async fn each_kind_is_listed(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let leases = [
        here.mutex("m").ttl(LONG).note("why").lock().await,
        here.reentrant_mutex("e").owner("me").ttl(LONG).lock().await,
        here.semaphore("s", 3).ttl(LONG).acquire_many(2).await,
        here.rw_lock("r").ttl(LONG).read().await,
        here.rw_lock("w").ttl(LONG).write().await,
    ]
    .map(Result::unwrap);
    let all = list(&elsewhere, "*").await;
    assert_eq!(names(&elsewhere, "*").await, set(["e", "m", "r", "s", "w"]));
    for lock in all {
        let shown = elsewhere.inspect(&*lock.name).await.unwrap();
        assert_eq!((lock.name, lock.kind, lock.held), (shown.name, shown.kind, 1));
        assert_eq!(lock.holders[0].note, shown.holders[0].note);
        assert_eq!(lock.holders[0].weight, shown.holders[0].weight);
        assert_eq!(lock.holders[0].fence, shown.holders[0].fence);
    }
    drop(leases);
}

pub(super) async fn free_locks_are_not_listed(backend: &dyn Backend) {
    let locks = backend.locks().await;
    assert_eq!(names(&locks, "*").await, set([]));
    locks.mutex("m").lock().await.unwrap().release().await.unwrap();
    locks.semaphore("s", 2).acquire().await.unwrap().release().await.unwrap();
    locks.rw_lock("r").read().await.unwrap().release().await.unwrap();
    locks.mutex("done").once(LONG).lock().await.unwrap().complete().await.unwrap();
    assert_eq!(names(&locks, "*").await, set([]));
    let begun = Instant::now();
    let ended = locks.mutex("ended").ttl(SHORT).auto_renew(false).lock().await.unwrap();
    let shown = names(&locks, "*").await;
    // On a busy machine its lease may be over by now.
    assert!(shown == set(["ended"]) || begun.elapsed() >= SHORT, "{shown:?}");
    backend.pass(SHORT).await;
    assert_eq!(names(&locks, "*").await, set([]));
    drop(ended);
}

pub(super) async fn a_kept_lock_is_listed(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let job = locks.mutex("job").hold_at_least(LONG).lock().await.unwrap();
    job.release().await.unwrap();
    let [lock] = &list(&locks, "job").await[..] else { panic!("it is kept") };
    assert_eq!((lock.held, lock.kept.is_some()), (0, true));
}

pub(super) async fn a_lock_with_waiters_is_listed(backend: &dyn Backend) {
    let (here, elsewhere) = (backend.locks().await, backend.locks().await);
    let lease = here.mutex("a").ttl(LONG).lock().await.unwrap();
    let mutex = elsewhere.mutex("a").ttl(LONG).wait(Wait::Forever);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    backend.until_queued("a", 1).await;
    let [lock] = &list(&here, "?").await[..] else { panic!("it is held") };
    assert_eq!((lock.held, lock.waiting), (1, 1));
    waiting.abort();
    drop(lease);
}

/// The record has ended with the lease. The queue is still there.
pub(super) async fn a_lock_whose_lease_ended_under_a_waiter_is_listed(backend: &dyn Backend) {
    let (client, locks) = (Client::new(), backend.locks().await);
    granted(backend, &client.mutex(SHORT)).await;
    waits(backend, &client.mutex(LONG), LIVE).await;
    backend.pass(SHORT).await;
    let [lock] = &list(&locks, "*").await[..] else { panic!("somebody waits for it") };
    assert_eq!((lock.held, lock.waiting), (0, 1));
}

pub(super) async fn hostile_names_are_listed_as_they_are(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let hostile = [
        "order:{42}:pdf",
        "{a}b",
        "a}b{",
        "100%",
        "%7B",
        "*",
        "[a-z]",
        "a\\b",
        "a b",
        "lock:{x}",
        "é?",
        "<script>",
        "\u{202e}abc",
    ];
    let mut leases = Vec::new();
    for name in hostile {
        let key = leasehold::LockKey::new(name).unwrap();
        leases.push(locks.mutex(key).ttl(LONG).lock().await.unwrap());
    }
    assert_eq!(names(&locks, "*").await, set(hostile));
    for name in hostile {
        assert!(names(&locks, name).await.contains(name), "{name}");
    }
}

pub(super) async fn only_names_that_match_are_listed(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let mut leases = Vec::new();
    for name in ["order:1", "order:12", "order:2:pdf", "reorder:1", "Order:1", "o"] {
        leases.push(locks.mutex(name).ttl(LONG).lock().await.unwrap());
    }
    let found = async |pattern| names(&locks, pattern).await;
    assert_eq!(found("order:*").await, set(["order:1", "order:12", "order:2:pdf"]));
    assert_eq!(found("order:?").await, set(["order:1"]));
    assert_eq!(found("*order:1").await, set(["order:1", "reorder:1"]));
    assert_eq!(found("*:pdf").await, set(["order:2:pdf"]));
    assert_eq!(found("o").await, set(["o"]));
    for nothing in ["", "[o]*", "order", "order:1 "] {
        assert_eq!(found(nothing).await, set([]), "{nothing:?}");
    }
}

/// More than a page of them, among more that are free.
pub(super) async fn all_of_many_locks_are_listed(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let mut leases = Vec::new();
    for n in 0..600 {
        let lease = locks.mutex(format!("n:{n}")).ttl(LONG).lock().await.unwrap();
        if n % 3 == 0 {
            leases.push(lease);
        } else {
            lease.release().await.unwrap();
        }
    }
    let held: Vec<_> = (0..600).step_by(3).map(|n| format!("n:{n}")).collect();
    assert_eq!(names(&locks, "n:*").await, set(held.iter().map(String::as_str)));
}

/// A future of `next` that was dropped loses no lock, and a dropped list hurts nobody.
pub(super) async fn a_list_can_be_left(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let mut leases = Vec::new();
    for n in 0..40 {
        leases.push(locks.mutex(format!("n:{n}")).ttl(LONG).lock().await.unwrap());
    }
    let (mut list, mut found) = (locks.list("n:*"), BTreeSet::new());
    loop {
        let next = tokio::select! {
            biased;
            next = list.next() => next,
            () = tokio::task::yield_now() => continue,
        };
        let Some(lock) = next else { break };
        found.insert(lock.unwrap().name);
    }
    assert_eq!(found.len(), leases.len());
    let mut left = locks.list("n:*");
    assert!(left.next().await.is_some());
    drop(left);
    assert_eq!(names(&locks, "n:*").await, found);
}

pub(super) async fn jobs_are_listed_and_the_overdue_ones_first(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let once_per = |locks: &Locks, name: &str, period| locks.mutex(name).ttl(LONG).once_per(period);
    locks.mutex("job:mail").once(YEAR).lock().await.unwrap().complete().await.unwrap();
    once_per(&locks, "job:good", YEAR).lock().await.unwrap().complete().await.unwrap();
    once_per(&locks, "job:late", SHORT).lock().await.unwrap().complete().await.unwrap();
    once_per(&locks, "job:fails", YEAR).lock().await.unwrap().release().await.unwrap();
    once_per(&locks, "job:asked", YEAR).lock().await.unwrap().complete().await.unwrap();
    let _ = locks.run_again("job:asked", "ann", "").await.unwrap();
    locks.mutex("job:changed").once(YEAR).lock().await.unwrap().complete().await.unwrap();
    let _runs = once_per(&locks, "other", YEAR).lock().await.unwrap();
    let _plain = locks.mutex("job:plain").lock().await.unwrap();
    let late = async || locks.inspect("job:late").await.unwrap().job.unwrap();
    until("it is overdue", async || late().await.is_overdue()).await;
    // It had no ticks before, and fails since.
    let _fails = once_per(&locks, "job:changed", SHORT).wait(LONG).lock().await.unwrap();
    let names = async |pattern| {
        let jobs = locks.jobs(pattern).await.unwrap();
        jobs.into_iter().map(|job| job.name).collect::<Vec<_>>()
    };
    let all = names("job:*").await;
    assert_eq!(set(all.iter().map(String::as_str)).len(), 5, "{all:?}");
    // On a busy machine the last run is overdue, too.
    let others: Vec<_> = all.iter().filter(|name| *name != "job:changed").collect();
    assert_eq!(others[..2], ["job:late", "job:fails"]);
    assert_eq!(names("*").await.len(), 6);
    assert_eq!(names("oth?r").await, ["other"]);
    assert!(names("x*").await.is_empty());
}
