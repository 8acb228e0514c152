//! Adoption of a lease while others wait, in every kind of lock.

use std::time::Duration;

use leasehold::store::{Attempt, Ended, Kind, Renewal, Request};
use leasehold_tests::backend::Backend;

use super::adopt::{adopted, heir, in_the_way_of};
use super::operator::{KINDS, inspected};
use super::{
    Client, FIRST, LIVE, LONG, SHORT, ask, busy, cancelled, claims, granted, released, renewed,
    waits,
};

macro_rules! cases {
    ($case:path) => {
        $case! {
            adopt_queue:
            the_former_holder_is_not_granted_again_while_others_wait,
            an_offer_is_adopted,
            an_adopted_offer_does_not_end_with_the_heartbeat,
            waiters_are_served_after_the_adopter,
        }
    };
}
pub(super) use cases;

pub(super) async fn the_former_holder_is_not_granted_again_while_others_wait(
    backend: &dyn Backend,
) {
    for kind in KINDS {
        let from = Client::new().owned(in_the_way_of(kind), "me", LONG);
        let heir = heir(&from, LONG);
        granted(backend, &from).await;
        let waiter = Client::new().owned(kind, "you", LONG);
        waits(backend, &waiter, LIVE).await;
        adopted(backend, &from, &heir).await;
        assert_eq!(ask(backend, &from, LIVE, FIRST).await, Attempt::Ended, "{kind:?}");
        // A late release or cancel hands nothing over.
        let _ = released(backend, &from).await;
        assert!(!cancelled(backend, &from).await, "{kind:?}");
        assert!(matches!(renewed(backend, &waiter).await, Renewal::NotHeld(_)), "{kind:?}");
        assert_eq!(inspected(backend).await.waiting, 1, "{kind:?}");
        assert_eq!(released(backend, &heir).await, Ended::Released, "{kind:?}");
        claims(backend, &waiter).await;
        let _ = released(backend, &waiter).await;
    }
}

/// A waiter with an offer that it has not confirmed.
async fn offered(backend: &dyn Backend, kind: Kind, live: Duration) -> Request {
    let holder = Client::new().owned(in_the_way_of(kind), "me", LONG);
    granted(backend, &holder).await;
    let waiter = Client::new().owned(kind, "you", LONG);
    waits(backend, &waiter, live).await;
    assert_eq!(released(backend, &holder).await, Ended::Released);
    waiter
}

pub(super) async fn an_offer_is_adopted(backend: &dyn Backend) {
    for kind in KINDS {
        let waiter = offered(backend, kind, LIVE).await;
        let heir = heir(&waiter, LONG);
        let token = adopted(backend, &waiter, &heir).await;
        assert_eq!(token != 0, kind.is_fenced(), "{kind:?}");
        assert!(matches!(renewed(backend, &waiter).await, Renewal::NotHeld(_)), "{kind:?}");
        assert_eq!(ask(backend, &waiter, LIVE, FIRST).await, Attempt::Ended, "{kind:?}");
        assert_eq!(granted(backend, &heir).await, token, "{kind:?}");
        let shown = inspected(backend).await;
        assert_eq!((shown.held, shown.waiting), (1, 0), "{kind:?}");
        assert_eq!(released(backend, &heir).await, Ended::Released, "{kind:?}");
    }
}

pub(super) async fn an_adopted_offer_does_not_end_with_the_heartbeat(backend: &dyn Backend) {
    for kind in KINDS {
        let waiter = offered(backend, kind, SHORT * 2).await;
        let heir = heir(&waiter, LONG);
        adopted(backend, &waiter, &heir).await;
        backend.pass(SHORT * 2).await;
        assert_eq!(renewed(backend, &heir).await, Renewal::Renewed, "{kind:?}");
        assert_eq!(released(backend, &heir).await, Ended::Released, "{kind:?}");
    }
}

pub(super) async fn waiters_are_served_after_the_adopter(backend: &dyn Backend) {
    for kind in KINDS {
        let from = Client::new().owned(in_the_way_of(kind), "me", LONG);
        granted(backend, &from).await;
        // Two owners that can only read together.
        let waiters = ["you", "they"].map(|owner| Client::new().owned(kind, owner, LONG));
        for waiter in &waiters {
            waits(backend, waiter, LIVE).await;
        }
        let heir = heir(&from, LONG);
        for _ in 0..2 {
            adopted(backend, &from, &heir).await;
            assert_eq!(inspected(backend).await.waiting, 2, "{kind:?}");
        }
        busy(backend, &Client::new().owned(in_the_way_of(kind), "they", LONG)).await;
        assert_eq!(released(backend, &heir).await, Ended::Released, "{kind:?}");
        for waiter in &waiters {
            claims(backend, waiter).await;
            assert_eq!(released(backend, waiter).await, Ended::Released, "{kind:?}");
        }
        assert_eq!(inspected(backend).await.held, 0, "{kind:?}");
    }
}
