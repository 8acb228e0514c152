//! Limits that an operator sets, in place of those of the code.

use std::time::{Duration, SystemTime};

use leasehold::{LimitOf, LockError, LockKey, Locks, Wait};
use leasehold_tests::backend::Backend;
use leasehold_tests::waiting::until;
use tokio::time::timeout;

use super::LONG;

macro_rules! cases {
    ($case:path) => {
        $case! {
            limits:
            a_limit_holds_in_all_clients_until_it_is_unset,
            who_when_and_why_are_kept,
            zero_closes_a_semaphore_and_says_who_did_it,
            a_raised_limit_lets_waiters_in,
            a_lowered_limit_waits_for_its_holders,
            a_limit_that_is_unset_lets_waiters_in,
            a_label_is_for_all_its_names,
            a_limit_below_a_weight_refuses_it,
            no_permit_stays_idle_under_a_limit,
            a_set_keeps_to_the_limits,
            what_can_not_be_a_limit_is_refused,
        }
    };
}
pub(super) use cases;

/// In one slot of a cluster.
const POOL: &str = "of:{1}:pool";
const PROBE: &str = "of:{1}:probe";
const ORDER: &str = "of:{1}:order";

/// Takes so many permits.
async fn take(locks: &Locks, limit: u32, count: usize) -> Vec<leasehold::Lease> {
    let mut held = Vec::new();
    for _ in 0..count {
        held.push(locks.semaphore(POOL, limit).ttl(LONG).try_acquire().await.unwrap());
    }
    held
}

/// Waits until a client knows all that an operator has changed so far.
async fn until_known(operator: &Locks, client: &Locks) {
    for limit in [0, 1] {
        operator.limits().name(PROBE).set(limit).await.unwrap();
        let is_closed =
            async || client.semaphore(PROBE, 1).try_acquire().await.is_err_and(|it| it.is_closed());
        until("it is known", async || is_closed().await == (limit == 0)).await;
    }
    operator.limits().name(PROBE).unset().await.unwrap();
}

pub(super) async fn a_limit_holds_in_all_clients_until_it_is_unset(backend: &dyn Backend) {
    let [operator, client] = [backend.locks().await, backend.locks().await];
    drop(take(&client, 4, 2).await);
    operator.limits().name(POOL).set(1).await.unwrap();
    until_known(&operator, &client).await;
    // A client that starts later knows before its first permit.
    let later = backend.locks().await;
    let held = later.semaphore(POOL, 4).acquire().await.unwrap();
    // Two versions of the code run side by side, with different limits.
    for (locks, limit) in [(&operator, 4), (&client, 2), (&later, 9)] {
        let refused = locks.semaphore(POOL, limit).try_acquire().await;
        assert!(matches!(refused, Err(LockError::Busy { .. })), "{refused:?}");
    }
    assert!(operator.limits().name(POOL).unset().await.unwrap());
    until_known(&operator, &client).await;
    for locks in [&operator, &client] {
        locks.semaphore(POOL, 4).try_acquire().await.unwrap().release().await.unwrap();
    }
    held.release().await.unwrap();
    assert!(!operator.limits().name(POOL).unset().await.unwrap());
}

pub(super) async fn who_when_and_why_are_kept(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let limits = locks.limits();
    assert!(limits.list().await.unwrap().is_empty());
    limits.name(POOL).by("ann").why("TICKET-7:\nwhy, and wherefore ä").set(3).await.unwrap();
    limits.label("a:{b}").set(0).await.unwrap();
    limits.name(POOL).by("bob").set(u32::MAX).await.unwrap();
    limits.label("z").by("x".repeat(999)).why("y".repeat(999)).set(1).await.unwrap();
    let list = limits.list().await.unwrap();
    let of: Vec<_> = list.iter().map(|set| set.of.clone()).collect();
    let label = |text: &str| LimitOf::Label(text.to_owned());
    assert_eq!(of, [label("a:{b}"), label("z"), LimitOf::Name(POOL.to_owned())]);
    assert_eq!((list[0].limit, list[2].limit), (0, u32::MAX));
    assert_eq!((&*list[2].by, list[2].why.as_deref()), ("bob", None), "the last one counts");
    assert!(list[0].by.starts_with("process "), "{}", list[0].by);
    assert_eq!((list[1].by.len(), list[1].why.as_ref().unwrap().len()), (200, 200));
    // A paused clock stands still, and a server's may be behind this one.
    let (now, hour) = (SystemTime::now(), Duration::from_secs(60 * 60));
    assert!((now - hour..now + hour).contains(&list[2].at), "{:?}", list[2].at);
    limits.name(POOL).by("ann").why("TICKET-7:\nwhy, and wherefore ä").set(3).await.unwrap();
    let why = limits.name(POOL).get().await.unwrap().unwrap().why;
    assert_eq!(why.as_deref(), Some("TICKET-7: why, and wherefore ä"));
    assert!(limits.name(ORDER).get().await.unwrap().is_none());
}

pub(super) async fn zero_closes_a_semaphore_and_says_who_did_it(backend: &dyn Backend) {
    let [operator, client] = [backend.locks().await, backend.locks().await];
    let held = take(&client, 2, 2).await;
    let waiter = tokio::spawn({
        let pool = client.semaphore(POOL, 2).ttl(LONG).wait(Wait::Forever);
        async move { pool.acquire().await.map(drop) }
    });
    backend.until_queued(POOL, 1).await;
    operator.limits().name(POOL).by("ann").why("incident 42").set(0).await.unwrap();
    let error = timeout(LONG * 2, waiter).await.unwrap().unwrap().unwrap_err();
    let text = error.to_string();
    assert!(error.is_closed() && !error.is_held_by_another(), "{text}");
    assert!(text.contains(POOL) && text.contains("ann") && text.contains("incident 42"), "{text}");
    assert!(held[0].is_held(), "who has a permit keeps it");
    drop(held);
    let error = client.semaphore(POOL, 2).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Closed { .. }), "{error}");
    operator.limits().name(POOL).unset().await.unwrap();
    until_known(&operator, &client).await;
    client.semaphore(POOL, 2).acquire().await.unwrap().release().await.unwrap();
}

/// Those of one process get in together: nobody waits for the turn of another.
pub(super) async fn a_raised_limit_lets_waiters_in(backend: &dyn Backend) {
    let [operator, client] = [backend.locks().await, backend.locks().await];
    let held = take(&client, 1, 1).await;
    let waiters = (0..10).map(|_| {
        let pool = client.semaphore(POOL, 1).ttl(LONG).wait(Wait::Forever);
        tokio::spawn(async move { pool.acquire().await })
    });
    let waiters: Vec<_> = waiters.collect();
    backend.until_queued(POOL, 1).await;
    operator.limits().name(POOL).set(11).await.unwrap();
    let mut inside = Vec::new();
    for waiter in waiters {
        inside.push(timeout(LONG * 2, waiter).await.unwrap().unwrap().unwrap());
    }
    assert!(held[0].is_held() && inside.iter().all(leasehold::Lease::is_held));
    assert!(client.semaphore(POOL, 1).try_acquire().await.is_err(), "eleven, and no more");
}

pub(super) async fn a_lowered_limit_waits_for_its_holders(backend: &dyn Backend) {
    let [operator, client, other] =
        [backend.locks().await, backend.locks().await, backend.locks().await];
    let mut held = take(&client, 3, 3).await;
    let waiter = tokio::spawn({
        let pool = other.semaphore(POOL, 3).ttl(LONG).wait(Wait::Forever);
        async move { pool.acquire().await }
    });
    backend.until_queued(POOL, 1).await;
    operator.limits().name(POOL).set(1).await.unwrap();
    until_known(&operator, &client).await;
    until_known(&operator, &other).await;
    // The waiter has asked again by then, with the new limit.
    backend.pass(Duration::from_millis(100)).await;
    for left in [2, 1] {
        held.pop().unwrap().release().await.unwrap();
        assert!(!waiter.is_finished(), "{left} are held");
        assert!(client.semaphore(POOL, 3).try_acquire().await.is_err());
        let info = operator.inspect(POOL).await.unwrap();
        assert_eq!((info.held, info.waiting), (left, 1));
    }
    held.pop().unwrap().release().await.unwrap();
    let granted = timeout(LONG * 2, waiter).await.unwrap().unwrap().unwrap();
    assert!(client.semaphore(POOL, 3).try_acquire().await.is_err());
    granted.release().await.unwrap();
}

/// What waits since before a limit was unset asks by the limit of the code.
pub(super) async fn a_limit_that_is_unset_lets_waiters_in(backend: &dyn Backend) {
    let [operator, client] = [backend.locks().await, backend.locks().await];
    operator.limits().name(POOL).set(1).await.unwrap();
    let _held = take(&client, 3, 1).await;
    let waiter = tokio::spawn({
        let pool = client.semaphore(POOL, 3).ttl(LONG).wait(Wait::Forever);
        async move { pool.acquire().await }
    });
    backend.until_queued(POOL, 1).await;
    operator.limits().name(POOL).unset().await.unwrap();
    let _second = timeout(LONG * 2, waiter).await.unwrap().unwrap().unwrap();
    let _third = client.semaphore(POOL, 3).try_acquire().await.unwrap();
    assert!(client.semaphore(POOL, 3).try_acquire().await.is_err());
}

pub(super) async fn a_label_is_for_all_its_names(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let limits = locks.limits();
    limits.label("tenant").set(1).await.unwrap();
    limits.name("of:{1}:b").set(2).await.unwrap();
    let pool = |name: &str, label| {
        locks.semaphore(LockKey::new(name).unwrap().with_label(label), 9).ttl(LONG)
    };
    for (name, label, most) in [
        ("of:{1}:a", "tenant", 1),
        ("of:{1}:b", "tenant", 2),
        ("of:{1}:c", "other", 9),
        ("of:{1}:d", "tenant", 1),
    ] {
        let all = pool(name, label);
        let mut held = Vec::new();
        for _ in 0..most {
            held.push(all.try_acquire().await.unwrap());
        }
        let refused = all.try_acquire().await;
        assert!(matches!(refused, Err(LockError::Busy { .. })), "{name}: {refused:?}");
    }
    limits.label("tenant").unset().await.unwrap();
    pool("of:{1}:d", "tenant").try_acquire_many(9).await.unwrap().release().await.unwrap();
}

pub(super) async fn a_limit_below_a_weight_refuses_it(backend: &dyn Backend) {
    let locks = backend.locks().await;
    locks.limits().name(POOL).by("ann").set(2).await.unwrap();
    let error = locks.semaphore(POOL, 8).acquire_many(3).await.unwrap_err();
    assert!(matches!(&error, LockError::Closed { weight: 3, .. }), "{error}");
    assert!(error.to_string().contains("ann has set the limit of"), "{error}");
    locks.semaphore(POOL, 8).acquire_many(2).await.unwrap().release().await.unwrap();
}

pub(super) async fn no_permit_stays_idle_under_a_limit(backend: &dyn Backend) {
    let [operator, client] = [backend.locks().await, backend.locks().await];
    let pool = client.semaphore(POOL, 3).ttl(LONG).linger(LONG);
    for lease in take(&client, 3, 1).await {
        lease.release().await.unwrap();
    }
    let idle = pool.acquire().await.unwrap().release().await.unwrap();
    operator.limits().name(POOL).set(1).await.unwrap();
    until_known(&operator, &client).await;
    let is_free = async || operator.inspect(POOL).await.unwrap().held == 0;
    until(&format!("it is free: {idle:?}"), is_free).await;
    for _ in 0..3 {
        let ended = pool.acquire().await.unwrap().release().await.unwrap();
        assert_eq!(ended, leasehold::Released::Free);
    }
}

pub(super) async fn a_set_keeps_to_the_limits(backend: &dyn Backend) {
    let locks = backend.locks().await;
    locks.limits().name(POOL).set(1).await.unwrap();
    let set = || locks.all([ORDER]).permit(POOL, 3).ttl(LONG);
    let held = set().lock().await.unwrap();
    let other = locks.together().permit(POOL, 3).permit(PROBE, 3);
    let refused = other.try_lock().await.unwrap_err();
    assert!(matches!(&refused, LockError::Busy { key, .. } if key.name() == POOL), "{refused}");
    locks.limits().name(POOL).set(0).await.unwrap();
    for refused in [other.try_lock().await, other.lock().await] {
        let refused = refused.unwrap_err();
        assert!(matches!(&refused, LockError::Closed { key, .. } if key.name() == POOL));
    }
    locks.semaphore(PROBE, 3).try_acquire_many(3).await.unwrap().release().await.unwrap();
    held.release().await.unwrap();
    locks.limits().name(POOL).unset().await.unwrap();
    set().try_lock().await.unwrap().release().await.unwrap();
}

pub(super) async fn what_can_not_be_a_limit_is_refused(backend: &dyn Backend) {
    let locks = backend.locks().await;
    let limits = locks.limits();
    let mutex = locks.mutex(ORDER).lock().await.unwrap();
    let heavy = locks.semaphore(POOL, 5).acquire_many(4).await.unwrap();
    for (limit, what) in [
        (limits.name(ORDER).set(3).await, "only semaphores have a limit"),
        (limits.name(POOL).set(3).await, "holds 4 of it"),
        (limits.label("").set(3).await, "a label has 1 to 200 bytes"),
        (limits.label("x".repeat(201)).set(3).await, "a label has 1 to 200 bytes"),
    ] {
        let error = limit.unwrap_err();
        assert!(matches!(error, LockError::InvalidOption { option: "limit", .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
    let error = limits.name("").set(3).await.unwrap_err();
    assert!(matches!(error, LockError::InvalidKey { .. }), "{error}");
    assert!(limits.list().await.unwrap().is_empty());
    limits.name(POOL).set(0).await.unwrap();
    limits.name(POOL).set(4).await.unwrap();
    // What stays of a mutex for a while is nobody's any more.
    mutex.release().await.unwrap();
    limits.name(ORDER).set(3).await.unwrap();
    drop(heavy);
}
