//! Renewals in one batch: an answer to each.

use std::time::Duration;

use leasehold::LossReason::{Expired, Taken};
use leasehold::store::{Ask, Kind, Renewal, Request};
use leasehold::{LockKey, Outcome};
use leasehold_tests::backend::Backend;

use super::operator::{KINDS, is_same};
use super::{Client, LONG, SHORT, acquire, busy, claims, granted, released, waits};

macro_rules! cases {
    ($case:path) => {
        $case! {
            renewals:
            answers_come_in_the_order_of_the_requests,
            each_ttl_starts_anew,
            an_empty_batch_has_no_answers,
            a_request_named_twice_has_two_answers,
            offers_are_confirmed,
            a_batch_of_a_hundred_is_answered,
            a_batch_of_a_thousand_is_answered,
        }
    };
}
pub(super) use cases;

fn at(name: &str, request: Request) -> Request {
    Request { key: LockKey::new(name).expect("a name"), ..request }
}

/// Sends the batch again if one of its answers did not come in time, as `answered` does.
async fn all(backend: &dyn Backend, requests: &[Request]) -> Vec<Renewal> {
    let mut more = 0..9;
    loop {
        let answers = backend.store().renew_all(requests).await;
        let is_late = answers
            .iter()
            .any(|answer| answer.as_ref().is_err_and(|error| error.outcome == Outcome::Unknown));
        if !is_late || more.next().is_none() {
            let answers = answers.into_iter().map(|answer| answer.expect("the store answers"));
            return answers.collect();
        }
    }
}

pub(super) async fn answers_come_in_the_order_of_the_requests(backend: &dyn Backend) {
    let client = Client::new();
    let (mut requests, mut expected) = (Vec::new(), Vec::new());
    for (nth, kind) in KINDS.into_iter().enumerate() {
        let name = |what: &str| format!("{what}:{nth}");
        let own = |what: &str, ttl| at(&name(what), client.owned(kind, "me", ttl));
        let (held, dead, taken) = (own("held", LONG), own("dead", SHORT), own("taken", LONG));
        granted(backend, &held).await;
        granted(backend, &dead).await;
        // The client holds the name as another kind.
        let other = KINDS.into_iter().find(|other| !is_same(*other, kind)).expect("others");
        let another = at(&name("taken"), client.owned(other, "me", LONG));
        granted(backend, &another).await;
        for request in [dead, held, taken, another, own("never", LONG)] {
            requests.push(request);
        }
        let of_another = match kind {
            Kind::Mutex => Renewal::NotHeld(Taken),
            _ => Renewal::NotHeld(Expired),
        };
        expected.extend([
            Renewal::NotHeld(Expired),
            Renewal::Renewed,
            of_another,
            Renewal::Renewed,
            Renewal::NotHeld(Expired),
        ]);
    }
    backend.pass(SHORT).await;
    assert_eq!(all(backend, &requests).await, expected);
    requests.reverse();
    expected.reverse();
    assert_eq!(all(backend, &requests).await, expected);
}

pub(super) async fn each_ttl_starts_anew(backend: &dyn Backend) {
    let client = Client::new();
    let ttls = [LONG * 2, LONG * 4];
    let mut requests = ["a", "b"].map(|name| at(name, client.mutex(LONG)));
    for (request, ttl) in requests.iter_mut().zip(ttls) {
        granted(backend, request).await;
        request.ttl = ttl;
    }
    assert_eq!(all(backend, &requests).await, [Renewal::Renewed; 2]);
    for (name, ttl) in ["a", "b"].into_iter().zip(ttls) {
        let left = busy(backend, &at(name, client.mutex(LONG))).await;
        assert!(left > ttl / 2 && left <= ttl, "{name}: {left:?}");
    }
}

pub(super) async fn an_empty_batch_has_no_answers(backend: &dyn Backend) {
    for _ in 0..3 {
        assert_eq!(all(backend, &[]).await, []);
        let request = Client::new().mutex(LONG);
        granted(backend, &request).await;
        let _ = released(backend, &request).await;
    }
}

pub(super) async fn a_request_named_twice_has_two_answers(backend: &dyn Backend) {
    let client = Client::new();
    let (held, other) = (client.mutex(LONG), client.mutex(LONG));
    granted(backend, &held).await;
    let requests = [held.clone(), other, held.clone(), held];
    let lost = Renewal::NotHeld(Taken);
    let renewed = Renewal::Renewed;
    assert_eq!(all(backend, &requests).await, [renewed, lost, renewed, renewed]);
}

pub(super) async fn offers_are_confirmed(backend: &dyn Backend) {
    let live = SHORT * 4;
    let mut waiters = Vec::new();
    for (nth, kind) in KINDS.into_iter().enumerate() {
        let name = nth.to_string();
        let before = if kind == Kind::Read { Kind::Write } else { kind };
        let holder = at(&name, Client::new().owned(before, "me", LONG));
        granted(backend, &holder).await;
        let waiter = at(&name, Client::new().owned(kind, "you", LONG));
        waits(backend, &waiter, live).await;
        let _ = released(backend, &holder).await;
        waiters.push(waiter);
    }
    assert_eq!(all(backend, &waiters).await, [Renewal::Renewed; 5]);
    backend.pass(live).await;
    for waiter in &waiters {
        claims(backend, waiter).await;
    }
}

async fn many(backend: &dyn Backend, count: usize) {
    let client = Client::new();
    let kinds = KINDS.into_iter().cycle().enumerate().take(count);
    let named =
        |(nth, kind): (usize, Kind)| at(&nth.to_string(), client.owned(kind, "me", LONG * 2));
    let requests: Vec<_> = kinds.map(named).collect();
    for (nth, request) in requests.iter().enumerate() {
        let _ = acquire(backend, &Request { ttl: LONG, ..request.clone() }).await;
        // Some have ended, each at another index of its hundred.
        if nth % 7 == 3 {
            let _ = released(backend, request).await;
        }
    }
    let answers = all(backend, &requests).await;
    assert_eq!(answers.len(), count);
    for (nth, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer == Renewal::Renewed, nth % 7 != 3, "{nth}: {answer:?}");
    }
    let mutex = at(&(count / 5 * 5 - 5).to_string(), client.mutex(Duration::from_secs(1)));
    assert!(busy(backend, &mutex).await > LONG);
}

pub(super) async fn a_batch_of_a_hundred_is_answered(backend: &dyn Backend) {
    many(backend, 100).await;
}

pub(super) async fn a_batch_of_a_thousand_is_answered(backend: &dyn Backend) {
    many(backend, 1000).await;
}
