//! Permits beside mutexes and other permits by one command: all or none, and never queued.

use std::time::Duration;

use leasehold::LockKey;
use leasehold::LossReason::Expired;
use leasehold::store::{All, Ask, Attempt, Ended, Kind, NotAll, Renewal, Request};
use leasehold_tests::backend::Backend;

use super::{
    Client, LIVE, LONG, SHORT, acquire, answered, busy, cancelled, claims, granted, released,
    renewed, waits,
};

macro_rules! cases {
    ($case:path) => {
        $case! {
            multi_permits:
            permits_and_a_mutex_are_granted_together,
            one_full_semaphore_refuses_all,
            a_held_mutex_takes_no_permit,
            weights_count,
            each_request_keeps_to_its_own_limit,
            a_request_sent_twice_takes_one_permit_of_each,
            a_repeat_is_granted_though_others_wait,
            a_repeat_takes_nothing_from_others,
            a_late_copy_after_a_release_grants_nothing,
            a_late_copy_after_a_cancel_grants_nothing,
            a_cancelled_request_is_granted_nothing,
            a_refused_permit_is_in_no_queue,
            waiters_are_not_overtaken,
            waiters_of_a_free_semaphore_are_not_overtaken,
            an_offered_permit_is_not_free,
            expired_permits_make_room,
            another_kind_refuses_all,
            a_name_that_is_free_may_become_a_semaphore,
            other_kinds_are_not_acquired_together,
            each_permit_is_renewed_released_and_handed_over,
        }
    };
}
pub(super) use cases;

/// A lock that can be acquired with others: on a cluster, all keys of a script are in one slot.
fn of(client: &Client, name: &str, kind: Kind) -> Request {
    let key = LockKey::new(format!("of:{{one}}:{name}")).unwrap();
    Request { key, ..client.request(kind, LONG) }
}

fn mutex(client: &Client, name: &str) -> Request {
    of(client, name, Kind::Mutex)
}

fn permit(client: &Client, name: &str, limit: u32) -> Request {
    of(client, name, Kind::Semaphore { limit, weight: 1 })
}

fn heavy(client: &Client, name: &str, limit: u32, weight: u32) -> Request {
    of(client, name, Kind::Semaphore { limit, weight })
}

async fn ask(backend: &dyn Backend, requests: &[Request]) -> All {
    let send = || backend.store().acquire_all(requests, &[]).expect("it grants them together");
    answered(send).await
}

/// The tokens of requests that must be granted.
async fn all(backend: &dyn Backend, requests: &[Request]) -> Vec<u64> {
    let tokens = ask(backend, requests).await.expect("they are granted");
    assert_eq!(tokens.len(), requests.len());
    for (request, token) in requests.iter().zip(&tokens) {
        assert_eq!(request.kind.is_fenced(), *token > 0, "{request:?} has {token}");
    }
    tokens
}

/// All must be refused because of the request at `at`. None must hold anything.
async fn none(backend: &dyn Backend, requests: &[Request], at: usize) {
    assert_eq!(ask(backend, requests).await, Err(NotAll::Busy(at)));
    for request in requests {
        assert!(matches!(renewed(backend, request).await, Renewal::NotHeld(_)), "{request:?}");
    }
}

async fn ended(backend: &dyn Backend, request: &Request) {
    assert_eq!(released(backend, request).await, Ended::Released);
}

/// How much of a semaphore is taken: so many requests of weight 1 are granted.
async fn free(backend: &dyn Backend, name: &str, limit: u32) -> usize {
    let client = Client::new();
    let mut taken = Vec::new();
    loop {
        let more = permit(&client, name, limit);
        match acquire(backend, &more).await {
            Attempt::Granted { .. } => taken.push(more),
            Attempt::Busy { .. } => break,
            other => panic!("{other:?}"),
        }
    }
    for permit in &taken {
        ended(backend, permit).await;
    }
    taken.len()
}

pub(super) async fn permits_and_a_mutex_are_granted_together(backend: &dyn Backend) {
    let client = Client::new();
    let set = || [permit(&client, "acme", 2), permit(&client, "total", 3), mutex(&client, "order")];
    let first = set();
    let tokens = all(backend, &first).await;
    assert_eq!((free(backend, "acme", 2).await, free(backend, "total", 3).await), (1, 2));
    let left = busy(backend, &mutex(&client, "order")).await;
    assert!(left <= LONG && left > LONG / 2, "{left:?}");
    for (request, token) in first.iter().zip(&tokens) {
        assert_eq!(granted(backend, request).await, *token, "it is a lease like any other");
    }
    ended(backend, &first[2]).await;
    let second = set();
    assert!(all(backend, &second).await[2] > tokens[2]);
    assert_eq!((free(backend, "acme", 2).await, free(backend, "total", 3).await), (0, 1));
    for request in first[..2].iter().chain(&second) {
        ended(backend, request).await;
    }
    let alone = [heavy(&client, "acme", 2, 2), heavy(&client, "total", 3, 3)];
    all(backend, &alone).await;
}

/// Whichever it is, and whatever comes before and after it.
pub(super) async fn one_full_semaphore_refuses_all(backend: &dyn Backend) {
    for full in 0..3 {
        let client = Client::new();
        let names = ["a", "b", "c"];
        let holder = permit(&client, names[full], 1);
        granted(backend, &holder).await;
        let mut set = names.map(|name| permit(&client, name, 1)).to_vec();
        set.push(mutex(&client, "m"));
        none(backend, &set, full).await;
        // Nor does it hold what comes after it, or a part of its weight.
        for name in names {
            assert_eq!(free(backend, name, 1).await, usize::from(name != names[full]), "{name}");
        }
        let after = mutex(&client, "m");
        granted(backend, &after).await;
        ended(backend, &after).await;
        ended(backend, &holder).await;
        all(backend, &set).await;
        for request in &set {
            ended(backend, request).await;
        }
    }
}

pub(super) async fn a_held_mutex_takes_no_permit(backend: &dyn Backend) {
    for at in [0, 1, 2] {
        let client = Client::new();
        let holder = mutex(&client, "order");
        granted(backend, &holder).await;
        let mut set = vec![permit(&client, "acme", 2), permit(&client, "total", 3)];
        set.insert(at, mutex(&client, "order"));
        none(backend, &set, at).await;
        assert_eq!((free(backend, "acme", 2).await, free(backend, "total", 3).await), (2, 3));
        ended(backend, &holder).await;
    }
}

pub(super) async fn weights_count(backend: &dyn Backend) {
    let client = Client::new();
    let first = [heavy(&client, "a", 8, 6), heavy(&client, "b", 4, 4)];
    all(backend, &first).await;
    assert_eq!((free(backend, "a", 8).await, free(backend, "b", 4).await), (2, 0));
    none(backend, &[heavy(&client, "a", 8, 3), permit(&client, "c", 1)], 0).await;
    none(backend, &[heavy(&client, "a", 8, 2), permit(&client, "b", 4)], 1).await;
    let second = [heavy(&client, "a", 8, 2), permit(&client, "c", 1)];
    all(backend, &second).await;
    assert_eq!(free(backend, "a", 8).await, 0);
    ended(backend, &first[0]).await;
    assert_eq!(free(backend, "a", 8).await, 6);
    ended(backend, &second[0]).await;
    assert_eq!(free(backend, "a", 8).await, 8);
}

pub(super) async fn each_request_keeps_to_its_own_limit(backend: &dyn Backend) {
    let client = Client::new();
    all(backend, &[permit(&client, "a", 2), permit(&client, "b", 2)]).await;
    none(backend, &[permit(&client, "a", 1), permit(&client, "b", 2)], 0).await;
    all(backend, &[permit(&client, "a", 3), permit(&client, "b", 2)]).await;
    none(backend, &[permit(&client, "a", 3), permit(&client, "b", 2)], 1).await;
    none(backend, &[permit(&client, "a", 2), permit(&client, "b", 3)], 0).await;
    all(backend, &[permit(&client, "a", 3), permit(&client, "b", 3)]).await;
}

pub(super) async fn a_request_sent_twice_takes_one_permit_of_each(backend: &dyn Backend) {
    let client = Client::new();
    let mut set = [permit(&client, "a", 2), heavy(&client, "b", 3, 2), mutex(&client, "m")];
    let tokens = all(backend, &set).await;
    assert_eq!(all(backend, &set).await, tokens);
    assert_eq!((free(backend, "a", 2).await, free(backend, "b", 3).await), (1, 1));
    let others = [permit(&client, "a", 2), permit(&client, "b", 3)];
    all(backend, &others).await;
    // Though both are full. The TTL of each starts anew.
    for request in &mut set {
        request.ttl = LONG * 2;
    }
    assert_eq!(all(backend, &set).await, tokens);
    for other in &others {
        ended(backend, other).await;
    }
    for name in ["a", "b"] {
        let left = busy(backend, &heavy(&client, name, 3, 3)).await;
        assert!(left > LONG, "{left:?}");
    }
    for request in &set {
        ended(backend, request).await;
    }
    assert_eq!((free(backend, "a", 2).await, free(backend, "b", 3).await), (2, 3));
}

pub(super) async fn a_repeat_is_granted_though_others_wait(backend: &dyn Backend) {
    let client = Client::new();
    let set = [permit(&client, "a", 1), permit(&client, "b", 1)];
    all(backend, &set).await;
    let waiter = permit(&client, "b", 1);
    waits(backend, &waiter, LIVE).await;
    all(backend, &set).await;
    ended(backend, &set[1]).await;
    claims(backend, &waiter).await;
}

pub(super) async fn a_repeat_takes_nothing_from_others(backend: &dyn Backend) {
    let client = Client::new();
    let mut set = [permit(&client, "a", 1), permit(&client, "b", 1)];
    for request in &mut set {
        request.ttl = SHORT;
    }
    all(backend, &set).await;
    set[0].ttl = LONG;
    assert_eq!(renewed(backend, &set[0]).await, Renewal::Renewed);
    backend.pass(SHORT).await;
    let other = permit(&client, "b", 1);
    granted(backend, &other).await;
    assert_eq!(ask(backend, &set).await, Err(NotAll::Busy(1)));
    assert_eq!(renewed(backend, &other).await, Renewal::Renewed);
    assert_eq!(renewed(backend, &set[0]).await, Renewal::Renewed, "it was held all the time");
}

/// Whichever was released, or all of them.
pub(super) async fn a_late_copy_after_a_release_grants_nothing(backend: &dyn Backend) {
    for last in 0..3 {
        let client = Client::new();
        let set = [permit(&client, "a", 2), permit(&client, "b", 2), mutex(&client, "m")];
        all(backend, &set).await;
        ended(backend, &set[last]).await;
        assert_eq!(ask(backend, &set).await, Err(NotAll::Busy(last)));
        let is_gone = |at: usize| usize::from(at == last);
        assert_eq!(free(backend, "b", 2).await, 1 + is_gone(1));
        assert_eq!(free(backend, "a", 2).await, 1 + is_gone(0));
        for request in set.iter().filter(|request| request.id != set[last].id) {
            ended(backend, request).await;
        }
    }
    let client = Client::new();
    let set = [permit(&client, "c", 2), permit(&client, "d", 2), mutex(&client, "n")];
    all(backend, &set).await;
    for request in &set {
        ended(backend, request).await;
    }
    none(backend, &set, 0).await;
    assert_eq!((free(backend, "c", 2).await, free(backend, "d", 2).await), (2, 2));
}

pub(super) async fn a_late_copy_after_a_cancel_grants_nothing(backend: &dyn Backend) {
    let client = Client::new();
    let set = [mutex(&client, "m"), permit(&client, "a", 2), heavy(&client, "b", 3, 2)];
    all(backend, &set).await;
    for request in &set {
        assert!(cancelled(backend, request).await);
        assert!(!cancelled(backend, request).await);
    }
    none(backend, &set, 0).await;
    none(backend, &set[1..], 0).await;
    none(backend, &set[2..], 0).await;
    assert_eq!((free(backend, "a", 2).await, free(backend, "b", 3).await), (2, 3));
}

/// The cancel overtakes the request.
pub(super) async fn a_cancelled_request_is_granted_nothing(backend: &dyn Backend) {
    let client = Client::new();
    let set = [permit(&client, "a", 2), permit(&client, "b", 2), mutex(&client, "m")];
    assert!(!cancelled(backend, &set[1]).await);
    none(backend, &set, 1).await;
    assert_eq!((free(backend, "a", 2).await, free(backend, "b", 2).await), (2, 2));
}

pub(super) async fn a_refused_permit_is_in_no_queue(backend: &dyn Backend) {
    let client = Client::new();
    let holder = permit(&client, "b", 1);
    granted(backend, &holder).await;
    none(backend, &[permit(&client, "a", 1), permit(&client, "b", 1)], 1).await;
    ended(backend, &holder).await;
    assert_eq!((free(backend, "a", 1).await, free(backend, "b", 1).await), (1, 1));
}

/// A heavy waiter leaves room that a light request may not take past it.
pub(super) async fn waiters_are_not_overtaken(backend: &dyn Backend) {
    let client = Client::new();
    let holder = heavy(&client, "b", 4, 2);
    granted(backend, &holder).await;
    let waiter = heavy(&client, "b", 4, 3);
    waits(backend, &waiter, LIVE).await;
    let set = [permit(&client, "a", 4), permit(&client, "b", 4), mutex(&client, "m")];
    none(backend, &set, 1).await;
    assert_eq!(free(backend, "a", 4).await, 4);
    ended(backend, &holder).await;
    claims(backend, &waiter).await;
    all(backend, &set).await;
    assert_eq!(free(backend, "b", 4).await, 0);
}

/// The permit expired, and its waiter has not asked since.
pub(super) async fn waiters_of_a_free_semaphore_are_not_overtaken(backend: &dyn Backend) {
    let client = Client::new();
    let holder = Request { ttl: SHORT, ..permit(&client, "b", 1) };
    granted(backend, &holder).await;
    let waiter = permit(&client, "b", 1);
    waits(backend, &waiter, LIVE).await;
    backend.pass(SHORT).await;
    let set = [mutex(&client, "m"), permit(&client, "a", 1), permit(&client, "b", 1)];
    none(backend, &set, 2).await;
    granted(backend, &waiter).await;
    ended(backend, &waiter).await;
    all(backend, &set).await;
}

pub(super) async fn an_offered_permit_is_not_free(backend: &dyn Backend) {
    let client = Client::new();
    let holder = permit(&client, "b", 1);
    granted(backend, &holder).await;
    let waiter = permit(&client, "b", 1);
    waits(backend, &waiter, LIVE).await;
    ended(backend, &holder).await;
    none(backend, &[permit(&client, "a", 1), permit(&client, "b", 1)], 1).await;
    claims(backend, &waiter).await;
}

pub(super) async fn expired_permits_make_room(backend: &dyn Backend) {
    let client = Client::new();
    // The first must last until the last is granted and another is refused.
    let ttl = SHORT * 5;
    for name in ["a", "b"] {
        for _ in 0..3 {
            let short = Request { ttl, ..heavy(&client, name, 7, 2) };
            granted(backend, &short).await;
        }
        granted(backend, &permit(&client, name, 7)).await;
    }
    none(backend, &[permit(&client, "a", 7), permit(&client, "b", 7)], 0).await;
    backend.pass(ttl).await;
    none(backend, &[heavy(&client, "a", 7, 6), heavy(&client, "b", 7, 7)], 1).await;
    all(backend, &[heavy(&client, "a", 7, 6), heavy(&client, "b", 7, 5)]).await;
    assert_eq!((free(backend, "a", 7).await, free(backend, "b", 7).await), (0, 1));
}

pub(super) async fn another_kind_refuses_all(backend: &dyn Backend) {
    let client = Client::new();
    let [held, reader, taken] =
        [mutex(&client, "b"), of(&client, "r", Kind::Read), permit(&client, "s", 3)];
    for holder in [&held, &reader, &taken] {
        granted(backend, holder).await;
    }
    none(backend, &[permit(&client, "a", 3), permit(&client, "b", 3)], 1).await;
    none(backend, &[permit(&client, "a", 3), permit(&client, "r", 3)], 1).await;
    none(backend, &[permit(&client, "a", 3), mutex(&client, "s")], 1).await;
    for holder in [&held, &reader, &taken] {
        assert_eq!(renewed(backend, holder).await, Renewal::Renewed);
    }
}

pub(super) async fn a_name_that_is_free_may_become_a_semaphore(backend: &dyn Backend) {
    let client = Client::new();
    let first = mutex(&client, "a");
    let token = granted(backend, &first).await;
    ended(backend, &first).await;
    let set = [permit(&client, "a", 3), permit(&client, "b", 3)];
    all(backend, &set).await;
    assert_eq!(acquire(backend, &mutex(&client, "a")).await, Attempt::WrongKind);
    ended(backend, &set[0]).await;
    assert!(granted(backend, &mutex(&client, "a")).await > token, "the record keeps its token");
}

pub(super) async fn other_kinds_are_not_acquired_together(backend: &dyn Backend) {
    let client = Client::new();
    for kind in [Kind::Read, Kind::Write, Kind::Reentrant] {
        let set = [permit(&client, "a", 3), of(&client, "b", kind)];
        assert!(backend.store().acquire_all(&set, &[]).is_none(), "{kind:?}");
    }
}

pub(super) async fn each_permit_is_renewed_released_and_handed_over(backend: &dyn Backend) {
    let client = Client::new();
    let mut set = [permit(&client, "a", 1), permit(&client, "b", 1), mutex(&client, "m")];
    for request in &mut set {
        request.ttl = SHORT * 3;
    }
    all(backend, &set).await;
    set[0].ttl = LONG;
    assert_eq!(renewed(backend, &set[0]).await, Renewal::Renewed);
    let waiter = permit(&client, "b", 1);
    waits(backend, &waiter, LIVE).await;
    ended(backend, &set[1]).await;
    claims(backend, &waiter).await;
    backend.pass(SHORT * 3 + Duration::from_millis(1)).await;
    assert_eq!(renewed(backend, &set[0]).await, Renewal::Renewed);
    assert_eq!(renewed(backend, &set[2]).await, Renewal::NotHeld(Expired));
    assert_eq!(renewed(backend, &set[1]).await, Renewal::NotHeld(Expired));
}
