//! Several locks by one command: all or none, and never queued. They are mutexes, permits, and both.

use leasehold::LockKey;
use leasehold::store::{All, Ask, Attempt, Ended, Kind, NotAll, Renewal, Request};
use leasehold_tests::backend::Backend;

use super::{
    Client, LIVE, LONG, PERMIT, SHORT, acquire, answered, busy, cancelled, claims, granted,
    released, renewed, waits,
};

macro_rules! cases {
    ($case:path) => {
        $case! {
            multi_atomic:
            free_locks_are_granted_together,
            the_greatest_number_is_granted_together,
            one_held_lock_refuses_all,
            a_refused_request_is_in_no_queue,
            weights_count,
            each_request_keeps_to_its_own_limit,
            a_request_sent_twice_has_the_first_answer,
            a_repeat_is_granted_leases_that_ended_meanwhile,
            a_repeat_is_granted_though_others_wait,
            a_repeat_takes_nothing_from_others,
            a_late_copy_after_a_release_grants_nothing,
            a_late_copy_after_a_cancel_grants_nothing,
            a_cancelled_request_refuses_all,
            another_kind_refuses_all,
            a_name_that_is_free_may_change_its_kind,
            other_kinds_are_not_acquired_together,
            a_kept_lock_refuses_all,
            an_offered_lock_refuses_all,
            a_heavy_waiter_is_not_overtaken,
            waiters_are_not_overtaken_after_an_expiry,
            waiters_of_a_free_lock_are_not_overtaken,
            expired_permits_make_room,
            each_lease_is_renewed_alone_and_handed_over,
            the_tokens_of_each_lock_grow,
        }
    };
}
pub(super) use cases;

/// With names that no other set has.
const KINDS: [(Kind, [&str; 3]); 2] = [(Kind::Mutex, ["a", "b", "c"]), (PERMIT, ["d", "e", "f"])];

/// A lock that can be acquired with others: on a cluster, all keys of a script are in one slot.
fn of(client: &Client, name: &str, kind: Kind) -> Request {
    let key = LockKey::new(format!("of:{{one}}:{name}")).unwrap();
    Request { key, ..client.request(kind, LONG) }
}

fn mutex(client: &Client, name: &str) -> Request {
    of(client, name, Kind::Mutex)
}

fn permit(client: &Client, name: &str, limit: u32) -> Request {
    heavy(client, name, limit, 1)
}

fn heavy(client: &Client, name: &str, limit: u32, weight: u32) -> Request {
    of(client, name, Kind::Semaphore { limit, weight })
}

/// Another request for the same lock.
fn like(request: &Request, client: &Client) -> Request {
    Request { key: request.key.clone(), ..client.request(request.kind, LONG) }
}

fn several<const N: usize>(client: &Client, names: [&str; N], kind: Kind) -> [Request; N] {
    names.map(|name| of(client, name, kind))
}

/// Sets of mutexes, of permits, and of both. Each request takes all that its lock has.
fn sets(client: &Client) -> [[Request; 3]; 3] {
    let [mutexes, permits] = KINDS.map(|(kind, names)| several(client, names, kind));
    [mutexes, permits, [permit(client, "g", 1), mutex(client, "h"), heavy(client, "i", 3, 3)]]
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

/// Checks that nobody has any of these locks.
async fn are_free(backend: &dyn Backend, requests: &[Request]) {
    let client = Client::new();
    for request in requests {
        let other = like(request, &client);
        granted(backend, &other).await;
        ended(backend, &other).await;
    }
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

pub(super) async fn free_locks_are_granted_together(backend: &dyn Backend) {
    let client = Client::new();
    for mut set in sets(&client) {
        let tokens = all(backend, &set).await;
        for (request, token) in set.iter().zip(tokens) {
            let left = busy(backend, &like(request, &client)).await;
            assert!(left <= LONG && left > LONG / 2, "{left:?}");
            assert_eq!(granted(backend, request).await, token, "it is a lease like any other");
            ended(backend, request).await;
        }
        set = set.map(|request| like(&request, &client));
        set.reverse();
        all(backend, &set).await;
    }
}

pub(super) async fn the_greatest_number_is_granted_together(backend: &dyn Backend) {
    let client = Client::new();
    let requests: Vec<_> = (0..64).map(|n| mutex(&client, &n.to_string())).collect();
    all(backend, &requests).await;
    none(backend, &several(&client, ["a", "63"], Kind::Mutex), 1).await;
}

/// Whichever it is, and whatever comes before and after it.
pub(super) async fn one_held_lock_refuses_all(backend: &dyn Backend) {
    let client = Client::new();
    for held in 0..3 {
        for set in sets(&client) {
            let holder = like(&set[held], &client);
            granted(backend, &holder).await;
            none(backend, &set, held).await;
            are_free(backend, &set[..held]).await;
            are_free(backend, &set[held + 1..]).await;
            ended(backend, &holder).await;
            all(backend, &set).await;
            for request in &set {
                ended(backend, request).await;
            }
        }
    }
}

pub(super) async fn a_refused_request_is_in_no_queue(backend: &dyn Backend) {
    let client = Client::new();
    for (kind, [a, b, _]) in KINDS {
        let holder = of(&client, b, kind);
        granted(backend, &holder).await;
        let set = several(&client, [a, b], kind);
        none(backend, &set, 1).await;
        ended(backend, &holder).await;
        are_free(backend, &set).await;
    }
}

/// Those of a request that was sent twice count once.
pub(super) async fn weights_count(backend: &dyn Backend) {
    let client = Client::new();
    let first = [heavy(&client, "a", 8, 6), heavy(&client, "b", 4, 4), permit(&client, "d", 2)];
    for _ in 0..2 {
        all(backend, &first).await;
    }
    assert_eq!((free(backend, "a", 8).await, free(backend, "b", 4).await), (2, 0));
    assert_eq!(free(backend, "d", 2).await, 1);
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

/// And though all is full. The TTL of each starts anew.
pub(super) async fn a_request_sent_twice_has_the_first_answer(backend: &dyn Backend) {
    let client = Client::new();
    for mut set in sets(&client) {
        let tokens = all(backend, &set).await;
        for request in &mut set {
            request.ttl = LONG * 2;
        }
        assert_eq!(all(backend, &set).await, tokens);
        for request in &set {
            assert!(busy(backend, &like(request, &client)).await > LONG);
            ended(backend, request).await;
        }
        are_free(backend, &set).await;
    }
}

pub(super) async fn a_repeat_is_granted_leases_that_ended_meanwhile(backend: &dyn Backend) {
    let client = Client::new();
    for (kind, [a, b, _]) in KINDS {
        let mut set = several(&client, [a, b], kind).map(|it| Request { ttl: SHORT, ..it });
        let before = all(backend, &set).await;
        set[0].ttl = LONG;
        assert_eq!(renewed(backend, &set[0]).await, Renewal::Renewed);
        backend.pass(SHORT).await;
        let after = all(backend, &set).await;
        assert_eq!(after[0], before[0], "it was held all the time");
        assert!(after[1] > before[1] || !kind.is_fenced(), "it had ended");
    }
}

pub(super) async fn a_repeat_is_granted_though_others_wait(backend: &dyn Backend) {
    let client = Client::new();
    for (kind, [a, b, _]) in KINDS {
        let set = several(&client, [a, b], kind);
        all(backend, &set).await;
        let waiter = like(&set[1], &client);
        waits(backend, &waiter, LIVE).await;
        all(backend, &set).await;
        ended(backend, &set[1]).await;
        claims(backend, &waiter).await;
    }
}

pub(super) async fn a_repeat_takes_nothing_from_others(backend: &dyn Backend) {
    let client = Client::new();
    for (kind, [a, b, _]) in KINDS {
        let mut set = several(&client, [a, b], kind).map(|it| Request { ttl: SHORT, ..it });
        all(backend, &set).await;
        set[0].ttl = LONG;
        assert_eq!(renewed(backend, &set[0]).await, Renewal::Renewed);
        backend.pass(SHORT).await;
        let other = like(&set[1], &client);
        granted(backend, &other).await;
        assert_eq!(ask(backend, &set).await, Err(NotAll::Busy(1)));
        ended(backend, &other).await;
        assert_eq!(renewed(backend, &set[0]).await, Renewal::Renewed, "it was held all the time");
    }
}

/// Whichever was released, or all of them.
pub(super) async fn a_late_copy_after_a_release_grants_nothing(backend: &dyn Backend) {
    let client = Client::new();
    for last in 0..3 {
        for mut set in sets(&client) {
            all(backend, &set).await;
            ended(backend, &set[last]).await;
            assert_eq!(ask(backend, &set).await, Err(NotAll::Busy(last)));
            are_free(backend, &set[last..=last]).await;
            set.swap(last, 2);
            for request in &set[..2] {
                ended(backend, request).await;
            }
            none(backend, &set, 0).await;
            are_free(backend, &set).await;
        }
    }
}

pub(super) async fn a_late_copy_after_a_cancel_grants_nothing(backend: &dyn Backend) {
    let client = Client::new();
    for set in sets(&client) {
        all(backend, &set).await;
        for request in &set {
            assert!(cancelled(backend, request).await);
            assert!(!cancelled(backend, request).await);
        }
        for from in 0..3 {
            none(backend, &set[from..], 0).await;
        }
        are_free(backend, &set).await;
    }
}

/// The cancel overtakes the request.
pub(super) async fn a_cancelled_request_refuses_all(backend: &dyn Backend) {
    let client = Client::new();
    for at in 0..3 {
        for set in sets(&client) {
            assert!(!cancelled(backend, &set[at]).await);
            none(backend, &set, at).await;
            are_free(backend, &set).await;
        }
    }
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
    none(backend, &[mutex(&client, "m"), mutex(&client, "s")], 1).await;
    for holder in [&held, &reader, &taken] {
        assert_eq!(renewed(backend, holder).await, Renewal::Renewed);
    }
}

pub(super) async fn a_name_that_is_free_may_change_its_kind(backend: &dyn Backend) {
    let client = Client::new();
    let first = mutex(&client, "a");
    let token = granted(backend, &first).await;
    ended(backend, &first).await;
    let permits = [permit(&client, "a", 3), permit(&client, "b", 3)];
    all(backend, &permits).await;
    assert_eq!(acquire(backend, &mutex(&client, "a")).await, Attempt::WrongKind);
    for permit in &permits {
        ended(backend, permit).await;
    }
    let tokens = all(backend, &[mutex(&client, "a"), mutex(&client, "b")]).await;
    assert!(tokens[0] > token, "the record keeps its token");
    assert_eq!(acquire(backend, &permit(&client, "b", 3)).await, Attempt::WrongKind);
}

pub(super) async fn other_kinds_are_not_acquired_together(backend: &dyn Backend) {
    let client = Client::new();
    for kind in [Kind::Read, Kind::Write, Kind::Reentrant] {
        let set = [permit(&client, "a", 3), of(&client, "b", kind)];
        assert!(backend.store().acquire_all(&set, &[]).is_none(), "{kind:?}");
    }
}

pub(super) async fn a_kept_lock_refuses_all(backend: &dyn Backend) {
    let client = Client::new();
    let job = mutex(&client, "b");
    granted(backend, &job).await;
    assert_eq!(backend.store().release(&job, LONG).await.unwrap(), Ended::Kept);
    none(backend, &several(&client, ["a", "b"], Kind::Mutex), 1).await;
}

/// The waiter with the offer asked before these requests.
pub(super) async fn an_offered_lock_refuses_all(backend: &dyn Backend) {
    let client = Client::new();
    for (kind, [a, b, _]) in KINDS {
        let [holder, first] = several(&client, [b, b], kind);
        granted(backend, &holder).await;
        waits(backend, &first, LIVE).await;
        ended(backend, &holder).await;
        none(backend, &several(&client, [a, b], kind), 1).await;
        claims(backend, &first).await;
    }
}

/// It leaves room that a light request may not take past it.
pub(super) async fn a_heavy_waiter_is_not_overtaken(backend: &dyn Backend) {
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

/// The lease expired, and its waiter has not asked since.
pub(super) async fn waiters_are_not_overtaken_after_an_expiry(backend: &dyn Backend) {
    let client = Client::new();
    for (kind, names) in KINDS {
        let [.., holder] = several(&client, names, kind);
        let waiter = like(&holder, &client);
        granted(backend, &Request { ttl: SHORT, ..holder }).await;
        waits(backend, &waiter, LIVE).await;
        backend.pass(SHORT).await;
        let set = several(&client, names, kind);
        none(backend, &set, 2).await;
        granted(backend, &waiter).await;
        ended(backend, &waiter).await;
        all(backend, &set).await;
    }
}

/// The lock is free, because the release passed over so many dead waiters that it did not reach the
/// live one.
pub(super) async fn waiters_of_a_free_lock_are_not_overtaken(backend: &dyn Backend) {
    let client = Client::new();
    let holder = mutex(&client, "b");
    granted(backend, &holder).await;
    for _ in 0..100 {
        waits(backend, &mutex(&client, "b"), SHORT).await;
    }
    waits(backend, &mutex(&client, "b"), LIVE).await;
    backend.pass(SHORT).await;
    ended(backend, &holder).await;
    none(backend, &several(&client, ["a", "b"], Kind::Mutex), 1).await;
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

pub(super) async fn each_lease_is_renewed_alone_and_handed_over(backend: &dyn Backend) {
    let client = Client::new();
    for mut set in sets(&client) {
        all(backend, &set).await;
        set[0].ttl = LONG * 2;
        assert_eq!(renewed(backend, &set[0]).await, Renewal::Renewed);
        assert!(busy(backend, &like(&set[0], &client)).await > LONG);
        assert!(busy(backend, &like(&set[2], &client)).await <= LONG);
        for request in &set {
            let next = like(request, &client);
            waits(backend, &next, LIVE).await;
            ended(backend, request).await;
            claims(backend, &next).await;
        }
    }
}

pub(super) async fn the_tokens_of_each_lock_grow(backend: &dyn Backend) {
    let client = Client::new();
    let mut last = [0; 2];
    for ttl in [LONG; 20].into_iter().chain([SHORT]) {
        let set = several(&client, ["a", "b"], Kind::Mutex).map(|it| Request { ttl, ..it });
        let tokens = all(backend, &set).await;
        for ((last, token), request) in last.iter_mut().zip(tokens).zip(&set) {
            assert!(token > *last && token < 1 << 53, "{token} after {last}");
            *last = token;
            if ttl == LONG {
                ended(backend, request).await;
                let alone = like(request, &client);
                *last = granted(backend, &alone).await;
                assert!(*last > token, "{last} after {token}");
                ended(backend, &alone).await;
            }
        }
    }
    backend.pass(SHORT).await;
    for (last, token) in
        last.iter().zip(all(backend, &several(&client, ["a", "b"], Kind::Mutex)).await)
    {
        assert!(token > *last, "{token} after {last}");
    }
}
