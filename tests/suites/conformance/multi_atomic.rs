//! Several mutexes by one command: all or none, and never queued.

use std::time::Duration;

use leasehold::LockKey;
use leasehold::LossReason::Taken;
use leasehold::store::{All, Ask, Attempt, Ended, Kind, NotAll, Renewal, Request};
use leasehold_tests::backend::Backend;

use super::{
    Client, LIVE, LONG, SHORT, acquire, answered, busy, cancelled, claims, granted, released,
    renewed, waits,
};

macro_rules! cases {
    ($case:path) => {
        $case! {
            multi_atomic:
            free_locks_are_granted_together,
            the_greatest_number_is_granted_together,
            one_held_lock_refuses_all,
            a_refused_request_is_in_no_queue,
            a_request_sent_twice_has_the_first_answer,
            a_repeat_starts_each_ttl_anew,
            a_repeat_is_granted_leases_that_ended_meanwhile,
            a_repeat_takes_nothing_from_others,
            a_released_request_refuses_all,
            a_cancelled_request_refuses_all,
            another_kind_refuses_all,
            a_name_that_is_free_may_change_its_kind,
            a_kept_lock_refuses_all,
            an_offered_lock_refuses_all,
            waiters_are_not_overtaken_after_an_expiry,
            waiters_of_a_free_lock_are_not_overtaken,
            each_lease_is_renewed_and_released_alone,
            each_lock_is_handed_over,
            the_tokens_of_each_lock_grow,
        }
    };
}
pub(super) use cases;

/// A lock that can be acquired with others: on a cluster, all keys of a script are in one slot.
fn key(name: &str) -> LockKey {
    LockKey::new(format!("of:{{one}}:{name}")).unwrap()
}

fn of(client: &Client, name: &str, ttl: Duration) -> Request {
    Request { key: key(name), ..client.mutex(ttl) }
}

/// Another request for the same lock.
fn like(request: &Request, client: &Client) -> Request {
    Request { key: request.key.clone(), ..client.mutex(LONG) }
}

fn several<const N: usize>(client: &Client, names: [&str; N], ttl: Duration) -> [Request; N] {
    names.map(|name| of(client, name, ttl))
}

async fn ask(backend: &dyn Backend, requests: &[Request]) -> All {
    let send = || backend.store().acquire_all(requests, &[]).expect("it grants them together");
    answered(send).await
}

/// The tokens of requests that must be granted.
async fn all(backend: &dyn Backend, requests: &[Request]) -> Vec<u64> {
    let tokens = ask(backend, requests).await.expect("they are granted");
    assert_eq!(tokens.len(), requests.len());
    tokens
}

/// All must be refused. The locks of `free` must still be free.
async fn none(backend: &dyn Backend, requests: &[Request], free: &[usize]) {
    let Err(NotAll::Busy(refused)) = ask(backend, requests).await else {
        panic!("they are refused")
    };
    assert!(refused < requests.len());
    let client = Client::new();
    for at in free {
        let free = like(&requests[*at], &client);
        granted(backend, &free).await;
        ended(backend, &free).await;
    }
}

async fn ended(backend: &dyn Backend, request: &Request) {
    assert_eq!(released(backend, request).await, Ended::Released);
}

pub(super) async fn free_locks_are_granted_together(backend: &dyn Backend) {
    let client = Client::new();
    let requests = several(&client, ["a", "b", "c"], LONG);
    let tokens = all(backend, &requests).await;
    for (request, token) in requests.iter().zip(tokens) {
        let left = busy(backend, &like(request, &client)).await;
        assert!(left <= LONG && left > LONG / 2, "{left:?}");
        assert_eq!(granted(backend, request).await, token, "it is a lease like any other");
        ended(backend, request).await;
    }
    all(backend, &several(&client, ["c", "b", "a"], LONG)).await;
}

pub(super) async fn the_greatest_number_is_granted_together(backend: &dyn Backend) {
    let client = Client::new();
    let requests: Vec<_> = (0..64).map(|n| of(&client, &n.to_string(), LONG)).collect();
    all(backend, &requests).await;
    none(backend, &several(&client, ["a", "63"], LONG), &[0]).await;
}

pub(super) async fn one_held_lock_refuses_all(backend: &dyn Backend) {
    for held in 0..3 {
        let client = Client::new();
        let requests = several(&client, ["a", "b", "c"], LONG);
        let holder = like(&requests[held], &client);
        granted(backend, &holder).await;
        let others: Vec<_> = (0..3).filter(|at| *at != held).collect();
        none(backend, &requests, &others).await;
        ended(backend, &holder).await;
        for request in &requests {
            assert_eq!(renewed(backend, request).await, Renewal::NotHeld(Taken));
        }
    }
}

pub(super) async fn a_refused_request_is_in_no_queue(backend: &dyn Backend) {
    let client = Client::new();
    let holder = of(&client, "b", LONG);
    granted(backend, &holder).await;
    none(backend, &several(&client, ["a", "b"], LONG), &[0]).await;
    ended(backend, &holder).await;
    granted(backend, &of(&client, "b", LONG)).await;
}

pub(super) async fn a_request_sent_twice_has_the_first_answer(backend: &dyn Backend) {
    let client = Client::new();
    let requests = several(&client, ["a", "b"], LONG);
    let tokens = all(backend, &requests).await;
    assert_eq!(all(backend, &requests).await, tokens);
    for request in &requests {
        ended(backend, request).await;
        granted(backend, &like(request, &client)).await;
    }
}

pub(super) async fn a_repeat_starts_each_ttl_anew(backend: &dyn Backend) {
    let client = Client::new();
    let mut requests = several(&client, ["a", "b"], LONG);
    all(backend, &requests).await;
    for request in &mut requests {
        request.ttl = LONG * 2;
    }
    all(backend, &requests).await;
    for name in ["a", "b"] {
        assert!(busy(backend, &of(&client, name, LONG)).await > LONG);
    }
}

pub(super) async fn a_repeat_is_granted_leases_that_ended_meanwhile(backend: &dyn Backend) {
    let client = Client::new();
    let mut requests = several(&client, ["a", "b"], SHORT);
    let before = all(backend, &requests).await;
    requests[0].ttl = LONG;
    assert_eq!(renewed(backend, &requests[0]).await, Renewal::Renewed);
    backend.pass(SHORT).await;
    let after = all(backend, &requests).await;
    assert_eq!(after[0], before[0], "it was held all the time");
    assert!(after[1] > before[1], "it had ended");
}

pub(super) async fn a_repeat_takes_nothing_from_others(backend: &dyn Backend) {
    let client = Client::new();
    let mut requests = several(&client, ["a", "b"], SHORT);
    all(backend, &requests).await;
    requests[0].ttl = LONG;
    assert_eq!(renewed(backend, &requests[0]).await, Renewal::Renewed);
    backend.pass(SHORT).await;
    let other = of(&client, "b", LONG);
    granted(backend, &other).await;
    none(backend, &requests, &[]).await;
    ended(backend, &other).await;
    ended(backend, &requests[0]).await;
}

pub(super) async fn a_released_request_refuses_all(backend: &dyn Backend) {
    let client = Client::new();
    let requests = several(&client, ["a", "b"], LONG);
    all(backend, &requests).await;
    ended(backend, &requests[1]).await;
    none(backend, &requests, &[1]).await;
    assert_eq!(renewed(backend, &requests[0]).await, Renewal::Renewed);
}

pub(super) async fn a_cancelled_request_refuses_all(backend: &dyn Backend) {
    let client = Client::new();
    let requests = several(&client, ["a", "b"], LONG);
    assert!(!cancelled(backend, &requests[1]).await);
    none(backend, &requests, &[0, 1]).await;

    let requests = several(&client, ["c", "d"], LONG);
    all(backend, &requests).await;
    for request in &requests {
        assert!(cancelled(backend, request).await);
    }
    none(backend, &requests, &[0, 1]).await;
}

pub(super) async fn another_kind_refuses_all(backend: &dyn Backend) {
    let client = Client::new();
    let permit =
        Request { key: key("b"), ..client.request(Kind::Semaphore { limit: 3, weight: 1 }, LONG) };
    granted(backend, &permit).await;
    none(backend, &several(&client, ["a", "b"], LONG), &[0]).await;
    assert_eq!(renewed(backend, &permit).await, Renewal::Renewed);
}

pub(super) async fn a_name_that_is_free_may_change_its_kind(backend: &dyn Backend) {
    let client = Client::new();
    let permit = || Request { key: key("a"), ..client.permit(3, LONG) };
    let first = permit();
    granted(backend, &first).await;
    ended(backend, &first).await;
    all(backend, &several(&client, ["a", "b"], LONG)).await;
    assert_eq!(acquire(backend, &permit()).await, Attempt::WrongKind);
}

pub(super) async fn a_kept_lock_refuses_all(backend: &dyn Backend) {
    let client = Client::new();
    let job = of(&client, "b", LONG);
    granted(backend, &job).await;
    assert_eq!(backend.store().release(&job, LONG).await.unwrap(), Ended::Kept);
    none(backend, &several(&client, ["a", "b"], LONG), &[0]).await;
}

/// The waiter with the offer asked before these requests.
pub(super) async fn an_offered_lock_refuses_all(backend: &dyn Backend) {
    let client = Client::new();
    let [holder, first] = several(&client, ["b", "b"], LONG);
    granted(backend, &holder).await;
    waits(backend, &first, LIVE).await;
    ended(backend, &holder).await;
    none(backend, &several(&client, ["a", "b"], LONG), &[0]).await;
    claims(backend, &first).await;
}

pub(super) async fn waiters_are_not_overtaken_after_an_expiry(backend: &dyn Backend) {
    let client = Client::new();
    granted(backend, &of(&client, "b", SHORT)).await;
    let first = of(&client, "b", LONG);
    waits(backend, &first, LIVE).await;
    backend.pass(SHORT).await;
    none(backend, &several(&client, ["a", "b"], LONG), &[0]).await;
    granted(backend, &first).await;
    ended(backend, &first).await;
    all(backend, &several(&client, ["a", "b"], LONG)).await;
}

/// The lock is free, because the release passed over so many dead waiters that it did not reach the
/// live one.
pub(super) async fn waiters_of_a_free_lock_are_not_overtaken(backend: &dyn Backend) {
    let client = Client::new();
    let holder = of(&client, "b", LONG);
    granted(backend, &holder).await;
    for _ in 0..100 {
        waits(backend, &of(&client, "b", LONG), SHORT).await;
    }
    let first = of(&client, "b", LONG);
    waits(backend, &first, LIVE).await;
    backend.pass(SHORT).await;
    ended(backend, &holder).await;
    none(backend, &several(&client, ["a", "b"], LONG), &[0]).await;
}

pub(super) async fn each_lease_is_renewed_and_released_alone(backend: &dyn Backend) {
    let client = Client::new();
    let mut requests = several(&client, ["a", "b", "c"], LONG);
    all(backend, &requests).await;
    requests[0].ttl = LONG * 2;
    assert_eq!(renewed(backend, &requests[0]).await, Renewal::Renewed);
    ended(backend, &requests[1]).await;
    assert!(busy(backend, &of(&client, "a", LONG)).await > LONG);
    assert!(busy(backend, &of(&client, "c", LONG)).await <= LONG);
    granted(backend, &of(&client, "b", LONG)).await;
}

pub(super) async fn each_lock_is_handed_over(backend: &dyn Backend) {
    let client = Client::new();
    let requests = several(&client, ["a", "b"], LONG);
    all(backend, &requests).await;
    for request in &requests {
        let next = like(request, &client);
        waits(backend, &next, LIVE).await;
        ended(backend, request).await;
        claims(backend, &next).await;
    }
}

pub(super) async fn the_tokens_of_each_lock_grow(backend: &dyn Backend) {
    let client = Client::new();
    let names = ["a", "b"];
    let mut last = [0; 2];
    for _ in 0..20 {
        let requests = several(&client, names, LONG);
        for ((last, token), request) in
            last.iter_mut().zip(all(backend, &requests).await).zip(&requests)
        {
            assert!(token > *last && token < 1 << 53, "{token} after {last}");
            ended(backend, request).await;
            let alone = like(request, &client);
            *last = granted(backend, &alone).await;
            assert!(*last > token, "{last} after {token}");
            ended(backend, &alone).await;
        }
    }
    all(backend, &several(&client, names, SHORT)).await;
    backend.pass(SHORT).await;
    for (last, token) in last.iter().zip(all(backend, &several(&client, names, LONG)).await) {
        assert!(token > *last, "{token} after {last}");
    }
}
