//! `expire` of the fault injection has the same effect as time, for every kind of lock.

use leasehold_tests::requests::Requests;
use std::fmt::Debug;
use std::time::Duration;

use leasehold::store::{
    Ask, Attempt, ClientId, Kind, Owner, QueuePosition, Request, Store, Waiting,
};
use leasehold::{Faults, Lease, LockError, LockKey, Locks, LossReason, Released, Wait};
use leasehold_tests::hints::HintRecorder;
use tokio::time::{Instant, advance, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const TTL: Duration = Duration::from_secs(30);

/// The ways in which the holders' leases end.
#[derive(Clone, Copy)]
enum End {
    TimeIsOver,
    Expire,
}

/// The requests of one client, by numbers that are the same in both worlds.
struct World {
    faults: Faults,
    requests: Requests,
    answers: Vec<String>,
    /// The first time that was noted.
    first_time: Option<u64>,
}

impl World {
    fn request(&self, kind: Kind, owner: Option<&str>, ttl: Duration) -> Request {
        let owner = owner.map(|owner| Owner::new(owner).unwrap());
        Request { owner, ..self.requests.next("a", kind, ttl) }
    }

    fn store(&self) -> &dyn Store {
        &**self.faults.store()
    }

    /// Notes an answer. The clocks of two worlds differ by the time between them, so a time is
    /// noted as that since the first: a number of 16 digits is one.
    fn note(&mut self, what: &str, answer: impl Debug) {
        let text = format!("{what}: {answer:?}");
        let words = text.split_inclusive(|letter: char| !letter.is_ascii_digit());
        let since_first = |word: &str| match word.get(..16).and_then(|it| it.parse::<u64>().ok()) {
            Some(time) => {
                let first = *self.first_time.get_or_insert(time);
                format!("{}{}", time.abs_diff(first), &word[16..])
            }
            None => word.to_owned(),
        };
        self.answers.push(words.map(since_first).collect());
    }

    async fn inspect(&mut self) {
        let info = self.store().inspect(&LockKey::new("a").unwrap()).await.unwrap();
        self.note("inspect", info);
    }
}

/// All answers after the leases of `holders` have ended, with or without a waiter.
async fn after(
    end: End,
    client: ClientId,
    holders: &[(Kind, Option<&str>)],
    (next, owner): (Kind, Option<&str>),
    is_waited_for: bool,
    keep: bool,
) -> Vec<String> {
    let (_locks, faults) = Locks::in_memory_with_faults();
    let mut world =
        World { faults, requests: Requests::of(client), answers: Vec::new(), first_time: None };
    let mut hints = HintRecorder::new(world.store(), client);
    // For an end by time, the TTL must be over in both worlds. All clocks are the same.
    let ttl = if let End::TimeIsOver = end { SECOND } else { HOUR };
    let holders: Vec<_> =
        holders.iter().map(|(kind, owner)| world.request(*kind, *owner, ttl)).collect();
    for holder in &holders {
        let granted = world.store().acquire(holder, None).await.unwrap();
        assert!(matches!(granted, Attempt::Granted { .. }), "{granted:?}");
    }
    let waiter = world.request(next, owner, TTL);
    let mut waiting =
        Waiting { live: SECOND * 6, position: QueuePosition::New { age: Duration::ZERO } };
    if is_waited_for {
        let queued = world.store().acquire(&waiter, Some(waiting)).await.unwrap();
        let Attempt::Queued { position, .. } = queued else { panic!("{queued:?}") };
        waiting.position = QueuePosition::Assigned(position);
    }
    if keep {
        let _ = world.store().release(&holders[0], ttl).await.unwrap();
    }
    // The waiter must ask when the keeping ends; nobody is told of the end itself.
    assert_eq!(hints.received.try_recv().is_ok(), keep && is_waited_for);
    advance(SECOND).await;
    if let End::Expire = end {
        assert!(world.faults.expire("a"));
    }
    assert!(hints.received.try_recv().is_err(), "nobody is told");

    world.inspect().await;
    assert!(!world.faults.expire("a"), "there is nothing more");
    let renewed = world.store().renew(&holders[0]).await;
    world.note("renew", renewed.unwrap());
    let newcomer = world.request(next, owner, TTL);
    let tried = world.store().acquire(&newcomer, None).await;
    world.note("try", tried.unwrap());
    let asked = world.store().acquire(&waiter, Some(waiting)).await;
    world.note("ask", asked.unwrap());
    world.inspect().await;
    for holder in &holders {
        let renewed = world.store().renew(holder).await;
        world.note("renew", renewed.unwrap());
        let released = world.store().release(holder, Duration::ZERO).await;
        world.note("release", released.unwrap());
        let cancelled = world.store().cancel(holder).await;
        world.note("cancel", cancelled.unwrap());
    }
    for request in [&waiter, &newcomer] {
        let renewed = world.store().renew(request).await;
        world.note("renew", renewed.unwrap());
        let released = world.store().release(request, Duration::ZERO).await;
        world.note("release", released.unwrap());
        world.inspect().await;
    }
    while let Ok(hint) = hints.received.try_recv() {
        world.note("hint", hint);
    }
    world.answers
}

#[tokio::test(start_paused = true)]
async fn the_store_answers_as_after_an_expiry() {
    const PERMIT: Kind = Kind::Semaphore { limit: 2, weight: 1 };
    const HEAVY: Kind = Kind::Semaphore { limit: 2, weight: 2 };
    type Who = (Kind, Option<&'static str>);
    let cases: [(&[Who], Who); 7] = [
        (&[(Kind::Mutex, None)], (Kind::Mutex, None)),
        (&[(Kind::Mutex, Some("me"))], (Kind::Mutex, Some("me"))),
        (
            &[(Kind::Reentrant, Some("me")), (Kind::Reentrant, Some("me"))],
            (Kind::Reentrant, Some("other")),
        ),
        (&[(PERMIT, None), (PERMIT, None)], (HEAVY, None)),
        (&[(Kind::Read, None), (Kind::Read, Some("me"))], (Kind::Write, Some("me too"))),
        (&[(Kind::Write, Some("me")), (Kind::Read, Some("me"))], (Kind::Read, None)),
        // A free name may change its kind.
        (&[(PERMIT, None), (PERMIT, None)], (PERMIT, None)),
    ];
    for (holders, next) in cases {
        for (is_waited_for, keep) in [(false, false), (true, false), (false, true), (true, true)] {
            if keep && holders[0].0 != Kind::Mutex {
                continue;
            }
            let client = ClientId::random();
            let over = after(End::TimeIsOver, client, holders, next, is_waited_for, keep).await;
            let expired = after(End::Expire, client, holders, next, is_waited_for, keep).await;
            assert_eq!(over, expired, "{holders:?}, then {next:?}, {is_waited_for} {keep}");
            assert!(over.len() > 10);
        }
    }
}

/// Acquires a lease of each kind: the first one, or one that can't be held beside it.
async fn of_kind(kind: usize, locks: &Locks, is_first: bool) -> Result<Lease, LockError> {
    let owner = if is_first { "first" } else { "second" };
    match kind {
        0 => locks.mutex("a").ttl(TTL).wait(Wait::Forever).lock().await,
        1 => {
            let mutex = locks.reentrant_mutex("a").owner(owner).ttl(TTL);
            mutex.wait(Wait::Forever).lock().await
        }
        2 => locks.semaphore("a", 1).ttl(TTL).wait(Wait::Forever).acquire().await,
        3 if is_first => locks.rw_lock("a").ttl(TTL).read().await,
        _ => locks.rw_lock("a").ttl(TTL).wait(Wait::Forever).write().await,
    }
}

const KINDS: std::ops::Range<usize> = 0..5;

#[tokio::test(start_paused = true)]
async fn a_holder_learns_of_an_injected_expiry_at_its_next_renewal() {
    for kind in KINDS {
        let (locks, faults) = Locks::in_memory_with_faults();
        let lease = of_kind(kind, &locks, true).await.unwrap();
        let other = locks.mutex("b").ttl(TTL).lock().await.unwrap();
        sleep(SECOND).await;
        assert!(faults.expire("a"));
        assert!(lease.is_held(), "{kind}: nobody has told it");
        let begun = Instant::now();
        let reason = timeout(TTL / 3, lease.lost()).await.expect("a third of the TTL");
        assert_eq!(reason, LossReason::Gone, "{kind}");
        assert_eq!(begun.elapsed().as_secs(), 9, "{kind}");
        assert!(matches!(lease.release().await, Err(LockError::Lost { .. })), "{kind}");
        sleep(TTL * 2).await;
        assert!(other.is_held(), "{kind}: another lock");
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_learns_of_an_injected_expiry_at_its_release() {
    for kind in KINDS {
        let (locks, faults) = Locks::in_memory_with_faults();
        let lease = of_kind(kind, &locks, true).await.unwrap();
        assert!(faults.expire("a"));
        let released = lease.release().await;
        let Err(LockError::Lost { reason: LossReason::Gone, .. }) = released else {
            panic!("{kind}: {released:?}")
        };
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_are_granted_within_two_seconds() {
    for kind in KINDS {
        for waited in [10, 1500, 5000].map(Duration::from_millis) {
            let (locks, faults) = Locks::in_memory_with_faults();
            // Another process, so its waiter is in the store's queue as well.
            let other = Locks::over(faults.store().clone());
            let first = of_kind(kind, &locks, true).await.unwrap();
            let second = tokio::spawn(async move { of_kind(kind, &other, false).await.unwrap() });
            sleep(waited).await;
            assert!(faults.expire("a"));
            let begun = Instant::now();
            let second = second.await.unwrap();
            assert!(begun.elapsed() < SECOND * 2 + SECOND / 100, "{kind}: {:?}", begun.elapsed());
            if let (Ok(first), Ok(second)) = (first.fence(), second.fence()) {
                assert!(second > first, "{kind}");
            }
            let reason = timeout(TTL / 3, first.lost()).await.expect("a third of the TTL");
            // Permits and readers have no next holder.
            let expected = [LossReason::Taken, LossReason::Gone][usize::from(kind == 2)];
            assert_eq!(reason, expected, "{kind}");
            sleep(TTL * 2).await;
            assert_eq!(second.release().await.unwrap(), Released::Free, "{kind}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn expire_returns_true_if_a_lease_was_held() {
    let (locks, faults) = Locks::in_memory_with_faults();
    assert!(!faults.expire("a") && !faults.expire("") && !faults.expire("a\0"));
    let lease = locks.mutex("a").lock().await.unwrap();
    assert!(!faults.expire("A"));
    assert!(faults.expire(lease.key().clone()));
    assert!(!faults.expire("a"));
    drop(lease);
    // A free lock's record stays for a while.
    locks.semaphore("s", 1).acquire().await.unwrap().release().await.unwrap();
    assert!(!faults.expire("s"));
    let _lease = locks.mutex("b").ttl(TTL).lock().await.unwrap();
    advance(TTL).await;
    assert!(!faults.expire("b"), "it has run out already");
}

/// A test need not wait for the next tick of a job.
#[tokio::test(start_paused = true)]
async fn expire_ends_a_kept_lock() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let job = locks.mutex("job").hold_at_least(HOUR);
    assert_eq!(job.lock().await.unwrap().release().await.unwrap(), Released::Kept);
    assert!(job.try_lock().await.is_err());
    assert!(faults.expire("job"));
    let _tick = job.try_lock().await.unwrap();
}
