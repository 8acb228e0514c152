//! Offers and the time that they last, and silent waiters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::LockKey;
use leasehold::store::{Ask, Attempt, Kind, LIVE_MOST, QueuePosition, Renewal, Request, Stamp};
use leasehold_tests::backend::Backend;

use super::{
    Client, FIRST, LIVE, LONG, ask, busy, cancelled, claims, granted, queued, released, renewed,
    waits,
};

macro_rules! cases {
    ($case:path) => {
        $case! {
            offers:
            an_unconfirmed_offer_passes_on_and_its_waiter_keeps_its_place,
            a_kept_offer_lasts_as_long_as_its_waiters_heartbeat,
            a_late_copy_of_a_keeping_release_changes_nothing,
            all_waiters_of_a_client_without_hints_are_passed_over,
            the_first_of_each_client_asks_a_little_after_those_before_it,
        }
    };
}
pub(super) use cases;

/// The longest that an offer waits for its waiter.
const OFFER: Duration = Duration::from_secs(1);

const KINDS: [Kind; 4] =
    [Kind::Mutex, Kind::Reentrant, Kind::Semaphore { limit: 1, weight: 1 }, Kind::Write];

/// A request of an owner of its own.
fn request(client: &Client, kind: Kind) -> Request {
    static OWNERS: AtomicU64 = AtomicU64::new(0);
    let owner = OWNERS.fetch_add(1, Ordering::Relaxed).to_string();
    client.owned(kind, &owner, LONG)
}

pub(super) async fn an_unconfirmed_offer_passes_on_and_its_waiter_keeps_its_place(
    backend: &dyn Backend,
) {
    for kind in KINDS {
        let clients = [(); 5].map(|()| Client::new());
        let [holder, late, next, third, tries] =
            clients.each_ref().map(|client| request(client, kind));
        granted(backend, &holder).await;
        let (position, place) =
            (waits(backend, &late, LIVE).await, waits(backend, &next, LIVE).await);
        waits(backend, &third, LIVE).await;
        let _ = released(backend, &holder).await;
        let left = busy(backend, &tries).await;
        assert!(left <= OFFER, "{kind:?}: {left:?}");
        backend.pass(OFFER).await;
        let answer = ask(backend, &next, LIVE, QueuePosition::Assigned(place)).await;
        assert!(matches!(answer, Attempt::Granted { .. }), "{kind:?}: {answer:?}");
        // The waiter lives after all.
        let (told, ..) = queued(backend, &late, LIVE, QueuePosition::Assigned(position)).await;
        assert_eq!(told, position);
        let _ = released(backend, &next).await;
        assert_ne!(renewed(backend, &third).await, Renewal::Renewed);
        claims(backend, &late).await;
        let _ = released(backend, &late).await;
        claims(backend, &third).await;
        let _ = released(backend, &third).await;
    }
}

/// Lets an offer last until the waiter's heartbeat ends.
async fn keeps(backend: &dyn Backend, request: &Request, until: Stamp) {
    backend.store().keep_offer(request, until).await.unwrap();
}

pub(super) async fn a_kept_offer_lasts_as_long_as_its_waiters_heartbeat(backend: &dyn Backend) {
    const LIVE: Duration = Duration::from_secs(4);
    let mut all = Vec::new();
    // Some waiters ask again in time, and some stay silent.
    for (nth, kind) in KINDS.into_iter().chain(KINDS).enumerate() {
        let key = LockKey::new(format!("lock:{nth}")).unwrap();
        let clients = [(); 4].map(|()| Client::new());
        let request = |client| Request { key: key.clone(), ..request(client, kind) };
        let [holder, slow, next, tries] = clients.each_ref().map(request);
        granted(backend, &holder).await;
        let (position, until, _) = queued(backend, &slow, LIVE, FIRST).await;
        // A waiter without an offer gets no longer time.
        keeps(backend, &slow, until).await;
        let place = waits(backend, &next, super::LIVE).await;
        assert!(busy(backend, &tries).await > LIVE, "{kind:?}");
        let _ = released(backend, &holder).await;
        for _ in 0..2 {
            keeps(backend, &slow, until).await;
            let left = busy(backend, &tries).await;
            assert!(left > OFFER && left <= LIVE, "{kind:?}: {left:?}");
        }
        all.push((slow, position, next, place, nth < KINDS.len()));
    }
    backend.pass(LIVE / 2).await;
    for (slow, position, next, place, is_in_time) in &all {
        let kind = slow.kind;
        queued(backend, next, super::LIVE, QueuePosition::Assigned(*place)).await;
        if *is_in_time {
            let answer = ask(backend, slow, LIVE, QueuePosition::Assigned(*position)).await;
            assert!(matches!(answer, Attempt::Granted { .. }), "{kind:?}: {answer:?}");
            let _ = released(backend, slow).await;
            claims(backend, next).await;
        }
    }
    backend.pass(LIVE / 2).await;
    for (slow, _, next, place, _) in all.iter().filter(|(.., is_in_time)| !is_in_time) {
        assert_ne!(renewed(backend, slow).await, Renewal::Renewed, "{:?}", slow.kind);
        let answer = ask(backend, next, LIVE, QueuePosition::Assigned(*place)).await;
        assert!(matches!(answer, Attempt::Granted { .. }), "{:?}: {answer:?}", slow.kind);
    }
}

pub(super) async fn a_late_copy_of_a_keeping_release_changes_nothing(backend: &dyn Backend) {
    for kind in KINDS {
        let clients = [(); 4].map(|()| Client::new());
        let [holder, waiter, next, tries] = clients.each_ref().map(|client| request(client, kind));
        granted(backend, &holder).await;
        let (_, until, _) = queued(backend, &waiter, LIVE, FIRST).await;
        let (_, of_next, _) = queued(backend, &next, LIVE, FIRST).await;
        let _ = released(backend, &holder).await;
        // Another waiter's offer, or an end that no waiter may have, changes nothing.
        keeps(backend, &next, of_next).await;
        keeps(backend, &holder, until).await;
        // A store counts in microseconds or in milliseconds.
        let much = u64::try_from(LIVE_MOST.as_micros()).unwrap();
        keeps(backend, &waiter, until + much).await;
        assert!(busy(backend, &tries).await <= OFFER, "{kind:?}");
        // The offer was confirmed meanwhile.
        claims(backend, &waiter).await;
        keeps(backend, &waiter, until).await;
        let left = busy(backend, &tries).await;
        assert!(left > LIVE && left <= LONG, "{kind:?}: {left:?}");
        // The lease has ended, and the next waiter has the lock.
        let _ = released(backend, &waiter).await;
        keeps(backend, &waiter, until).await;
        assert!(busy(backend, &tries).await <= OFFER, "{kind:?}");
        assert_ne!(renewed(backend, &waiter).await, Renewal::Renewed, "{kind:?}");
        claims(backend, &next).await;
        let _ = released(backend, &next).await;
        // Now the lock is free.
        keeps(backend, &waiter, until).await;
        keeps(backend, &next, of_next).await;
        granted(backend, &tries).await;
        let _ = released(backend, &tries).await;
    }
}

pub(super) async fn all_waiters_of_a_client_without_hints_are_passed_over(backend: &dyn Backend) {
    for kind in KINDS {
        let [holders, dead, alive] = [(); 3].map(|()| Client::new());
        let (holder, next) = (request(&holders, kind), request(&alive, kind));
        let all = [(); 4].map(|()| request(&dead, kind));
        granted(backend, &holder).await;
        let mut positions = Vec::new();
        for waiter in &all {
            positions.push(waits(backend, waiter, LIVE).await);
        }
        let place = waits(backend, &next, LIVE).await;
        let _ = released(backend, &holder).await;
        backend.pass(OFFER).await;
        let answer = ask(backend, &next, LIVE, QueuePosition::Assigned(place)).await;
        assert!(matches!(answer, Attempt::Granted { .. }), "{kind:?}: {answer:?}");
        for nth in [2, 1] {
            let (told, ..) =
                queued(backend, &all[nth], LIVE, QueuePosition::Assigned(positions[nth])).await;
            assert_eq!(told, positions[nth]);
        }
        let _ = released(backend, &next).await;
        claims(backend, &all[1]).await;
        let _ = released(backend, &all[1]).await;
        claims(backend, &all[2]).await;
        let _ = released(backend, &all[2]).await;
    }
}

pub(super) async fn the_first_of_each_client_asks_a_little_after_those_before_it(
    backend: &dyn Backend,
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
