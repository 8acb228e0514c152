//! For how long an offer waits for its waiter, and what becomes of those who are silent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::store::{Attempt, Kind, Renewal, Request, Ticket};
use leasehold_tests::backend::Backend;

use super::{
    Client, FIRST, LIVE, LONG, ask, busy, cancelled, claims, granted, queued, released, renewed,
    waits,
};

macro_rules! cases {
    ($case:path) => {
        $case! {
            offers:
            an_offer_that_nobody_confirms_goes_on_and_its_waiter_comes_back,
            the_others_of_a_client_that_hears_nothing_are_passed_over_with_it,
            the_first_of_each_client_asks_a_little_after_those_before_it,
        }
    };
}
pub(super) use cases;

/// The longest that an offer waits for its waiter.
const OFFER: Duration = Duration::from_secs(1);

const KINDS: [Kind; 4] =
    [Kind::Mutex, Kind::Reentrant, Kind::Semaphore { limit: 1, weight: 1 }, Kind::Write];

/// Each of an owner of its own.
fn request(client: &Client, kind: Kind) -> Request {
    static OWNERS: AtomicU64 = AtomicU64::new(0);
    let owner = OWNERS.fetch_add(1, Ordering::Relaxed).to_string();
    client.owned(kind, &owner, LONG)
}

pub(super) async fn an_offer_that_nobody_confirms_goes_on_and_its_waiter_comes_back(
    backend: &impl Backend,
) {
    for kind in KINDS {
        let clients = [(); 5].map(|()| Client::new());
        let [holder, late, next, third, tries] =
            clients.each_ref().map(|client| request(client, kind));
        granted(backend, &holder).await;
        let (ticket, place) =
            (waits(backend, &late, LIVE).await, waits(backend, &next, LIVE).await);
        waits(backend, &third, LIVE).await;
        let _ = released(backend, &holder).await;
        let left = busy(backend, &tries).await;
        assert!(left <= OFFER, "{kind:?}: {left:?}");
        backend.pass(OFFER).await;
        let answer = ask(backend, &next, LIVE, Ticket::Told(place)).await;
        assert!(matches!(answer, Attempt::Granted { .. }), "{kind:?}: {answer:?}");
        // It lives after all.
        let (told, ..) = queued(backend, &late, LIVE, Ticket::Told(ticket)).await;
        assert_eq!(told, ticket);
        let _ = released(backend, &next).await;
        assert_ne!(renewed(backend, &third).await, Renewal::Renewed);
        claims(backend, &late).await;
        let _ = released(backend, &late).await;
        claims(backend, &third).await;
        let _ = released(backend, &third).await;
    }
}

pub(super) async fn the_others_of_a_client_that_hears_nothing_are_passed_over_with_it(
    backend: &impl Backend,
) {
    for kind in KINDS {
        let [holders, dead, alive] = [(); 3].map(|()| Client::new());
        let (holder, next) = (request(&holders, kind), request(&alive, kind));
        let all = [(); 4].map(|()| request(&dead, kind));
        granted(backend, &holder).await;
        let mut tickets = Vec::new();
        for waiter in &all {
            tickets.push(waits(backend, waiter, LIVE).await);
        }
        let place = waits(backend, &next, LIVE).await;
        let _ = released(backend, &holder).await;
        backend.pass(OFFER).await;
        let answer = ask(backend, &next, LIVE, Ticket::Told(place)).await;
        assert!(matches!(answer, Attempt::Granted { .. }), "{kind:?}: {answer:?}");
        for nth in [2, 1] {
            let (told, ..) = queued(backend, &all[nth], LIVE, Ticket::Told(tickets[nth])).await;
            assert_eq!(told, tickets[nth]);
        }
        let _ = released(backend, &next).await;
        claims(backend, &all[1]).await;
        let _ = released(backend, &all[1]).await;
        claims(backend, &all[2]).await;
        let _ = released(backend, &all[2]).await;
    }
}

pub(super) async fn the_first_of_each_client_asks_a_little_after_those_before_it(
    backend: &impl Backend,
) {
    for kind in KINDS {
        let [first, second, third] = [(); 3].map(|()| Client::new());
        let ttl = Duration::from_millis(1500);
        let holder = Request { ttl, ..request(&first, kind) };
        granted(backend, &holder).await;
        let mut waiters = Vec::new();
        let say = Duration::from_millis((LIVE / 3).as_millis().try_into().unwrap());
        for (client, least, most) in [
            (&first, Duration::ZERO, ttl),
            (&first, say, say + Duration::from_millis(1)),
            (&second, Duration::from_millis(100), ttl + Duration::from_millis(100)),
            (&third, Duration::from_millis(200), ttl + Duration::from_millis(200)),
            (&second, say, say + Duration::from_millis(1)),
        ] {
            let waiter = request(client, kind);
            let (.., again) = queued(backend, &waiter, LIVE, FIRST).await;
            assert!((least..=most).contains(&again), "{kind:?}: {again:?} of {least:?}..{most:?}");
            waiters.push(waiter);
        }
        for request in waiters.iter().chain([&holder]) {
            cancelled(backend, request).await;
        }
    }
}
