//! Adoptions that a store refuses, in every kind of lock.

use leasehold::LossReason::{Expired, Taken};
use leasehold::store::{Adoption, Ask, Attempt, Detached, Ended, Kind, Renewal};
use leasehold_tests::backend::Backend;

use super::adopt::{adopt, adopted, heir, refused, shape};
use super::operator::{KINDS, forced, inspected, is_held_by, is_same, was_forced};
use super::{Client, LONG, SHORT, acquire, cancelled, granted, kept, released, renewed};

macro_rules! cases {
    ($case:path) => {
        $case! {
            adopt_refused:
            a_second_adopter_learns_that_the_lease_is_taken,
            an_ended_lease_is_not_adopted,
            an_expired_lease_is_not_adopted,
            a_kept_lock_is_not_adopted,
            another_kind_is_not_adopted,
            another_owner_or_weight_is_not_adopted,
            a_cancelled_adopter_gets_nothing,
            an_ended_adopter_is_not_granted_again,
            a_mutex_that_was_granted_anew_is_not_adopted,
        }
    };
}
pub(super) use cases;

pub(super) async fn a_second_adopter_learns_that_the_lease_is_taken(backend: &dyn Backend) {
    for kind in KINDS {
        let from = Client::new().owned(kind, "me", LONG);
        let (first, second) = (heir(&from, LONG), heir(&from, LONG * 2));
        granted(backend, &from).await;
        adopted(backend, &from, &first).await;
        let shown = shape(&inspected(backend).await);
        assert_eq!(refused(backend, &from, &second).await, Taken, "{kind:?}");
        let after = inspected(backend).await;
        assert_eq!(shape(&after), shown, "{kind:?}");
        assert!(after.holders[0].remaining <= LONG, "{kind:?}");
        assert!(matches!(renewed(backend, &second).await, Renewal::NotHeld(_)), "{kind:?}");
        assert_eq!(released(backend, &first).await, Ended::Released, "{kind:?}");
        // It gets neither the free lock nor another's.
        assert!(matches!(refused(backend, &from, &second).await, Taken | Expired));
        let next = heir(&from, LONG);
        granted(backend, &next).await;
        assert!(matches!(refused(backend, &from, &second).await, Taken | Expired));
        assert_eq!(released(backend, &next).await, Ended::Released, "{kind:?}");
    }
}

pub(super) async fn an_expired_lease_is_not_adopted(backend: &dyn Backend) {
    for kind in KINDS {
        let from = Client::new().owned(kind, "me", SHORT);
        let late = heir(&from, LONG);
        granted(backend, &from).await;
        backend.pass(SHORT).await;
        assert_eq!(refused(backend, &from, &late).await, Expired, "{kind:?}");
        assert_eq!(inspected(backend).await.kind, None, "{kind:?}");
        assert!(matches!(renewed(backend, &late).await, Renewal::NotHeld(_)), "{kind:?}");
        // It does not get a later holder's lease either.
        let next = Client::new().owned(kind, "you", LONG);
        let token = granted(backend, &next).await;
        let shown = shape(&inspected(backend).await);
        let _ = refused(backend, &from, &late).await;
        assert_eq!(shape(&inspected(backend).await), shown, "{kind:?}");
        assert_eq!(granted(backend, &next).await, token, "{kind:?}");
        let _ = released(backend, &next).await;
    }
    // Here other leases last longer.
    for kind in [Kind::Reentrant, Kind::Semaphore { limit: 2, weight: 1 }, Kind::Read] {
        let client = Client::new();
        let (from, other) = (client.owned(kind, "me", SHORT), client.owned(kind, "me", LONG));
        granted(backend, &from).await;
        granted(backend, &other).await;
        backend.pass(SHORT).await;
        assert_eq!(refused(backend, &from, &heir(&from, LONG)).await, Expired, "{kind:?}");
        assert_eq!(inspected(backend).await.held, 1, "{kind:?}");
        assert_eq!(released(backend, &other).await, Ended::Released, "{kind:?}");
    }
}

/// Nor one that was never granted.
pub(super) async fn an_ended_lease_is_not_adopted(backend: &dyn Backend) {
    for kind in KINDS {
        let from = Client::new().owned(kind, "me", LONG);
        assert_eq!(refused(backend, &from, &heir(&from, LONG)).await, Expired, "{kind:?}");
        assert_eq!(inspected(backend).await.kind, None, "nothing is left behind");
    }
    for kind in KINDS {
        for is_forced in [false, true] {
            let from = Client::new().owned(kind, "me", LONG);
            let late = heir(&from, LONG);
            granted(backend, &from).await;
            if is_forced {
                let _ = forced(backend).await;
                let _ = refused(backend, &from, &late).await;
                assert!(was_forced(backend, &from).await, "{kind:?}");
                assert!(!was_forced(backend, &late).await, "{kind:?}");
            } else {
                let _ = released(backend, &from).await;
                assert_eq!(refused(backend, &from, &late).await, Taken, "{kind:?}");
                assert_eq!(acquire(backend, &from).await, Attempt::Ended, "{kind:?}");
                granted(backend, &late).await;
                let _ = released(backend, &late).await;
            }
            assert_eq!(inspected(backend).await.held, 0, "{kind:?}");
        }
    }
}

pub(super) async fn a_kept_lock_is_not_adopted(backend: &dyn Backend) {
    let from = Client::new().mutex(LONG);
    granted(backend, &from).await;
    assert_eq!(backend.store().release(&from, LONG).await.unwrap(), Ended::Kept);
    assert_eq!(refused(backend, &from, &heir(&from, LONG)).await, Taken);
    assert!(inspected(backend).await.kept.is_some());
    kept(backend, &Client::new().mutex(LONG)).await;
}

pub(super) async fn another_kind_is_not_adopted(backend: &dyn Backend) {
    for held in KINDS {
        let from = Client::new().owned(held, "me", LONG);
        granted(backend, &from).await;
        let shown = shape(&inspected(backend).await);
        for other in KINDS.into_iter().filter(|other| *other != held) {
            let late = Client::new().owned(other, "me", LONG);
            let reason = refused(backend, &from, &late).await;
            // A reader's lease is not a writer's, even of the same lock.
            let expected = if is_same(held, other) { Expired } else { Taken };
            assert_eq!(reason, expected, "{other:?} from {held:?}");
            assert_eq!(shape(&inspected(backend).await), shown, "{other:?} from {held:?}");
            assert!(matches!(renewed(backend, &late).await, Renewal::NotHeld(_)));
        }
        assert_eq!(released(backend, &from).await, Ended::Released, "{held:?}");
        // A free lock may become another kind. It has no lease to adopt.
        for other in KINDS.into_iter().filter(|other| !is_same(*other, held)) {
            let late = Client::new().owned(other, "me", LONG);
            assert_eq!(refused(backend, &from, &late).await, Taken, "{other:?} from {held:?}");
        }
        assert_eq!(acquire(backend, &from).await, Attempt::Ended, "{held:?}");
    }
}

/// A ticket that was tampered with may say anything.
pub(super) async fn another_owner_or_weight_is_not_adopted(backend: &dyn Backend) {
    for kind in KINDS {
        let client = Client::new();
        let from = client.owned(kind, "me", LONG);
        granted(backend, &from).await;
        let _ = adopt(backend, &from, &client.owned(kind, "you", LONG)).await;
        assert!(is_held_by(backend, "me").await, "{kind:?}");
        assert!(!is_held_by(backend, "you").await, "{kind:?}");
        assert_eq!(inspected(backend).await.held, 1, "{kind:?}");
        let _ = forced(backend).await;
    }
    let client = Client::new();
    let from = client.request(Kind::Semaphore { limit: 4, weight: 2 }, LONG);
    granted(backend, &from).await;
    for weight in [1, 3] {
        let other = client.request(Kind::Semaphore { limit: 4, weight }, LONG);
        assert_eq!(refused(backend, &from, &other).await, Expired);
    }
    assert_eq!(inspected(backend).await.holders[0].weight, 2);
}

/// The adoption arrives after its cancel.
pub(super) async fn a_cancelled_adopter_gets_nothing(backend: &dyn Backend) {
    for kind in KINDS {
        let from = Client::new().owned(kind, "me", LONG);
        let (late, next) = (heir(&from, LONG * 2), heir(&from, LONG));
        granted(backend, &from).await;
        assert!(!cancelled(backend, &late).await, "{kind:?}");
        let shown = shape(&inspected(backend).await);
        assert_eq!(refused(backend, &from, &late).await, Taken, "{kind:?}");
        let after = inspected(backend).await;
        assert_eq!(shape(&after), shown, "{kind:?}");
        assert!(after.holders[0].remaining <= LONG, "{kind:?}");
        assert!(matches!(renewed(backend, &late).await, Renewal::NotHeld(_)), "{kind:?}");
        // Another can still adopt the lease.
        assert_eq!(renewed(backend, &from).await, Renewal::Renewed, "{kind:?}");
        adopted(backend, &from, &next).await;
        assert_eq!(released(backend, &next).await, Ended::Released, "{kind:?}");
    }
}

pub(super) async fn an_ended_adopter_is_not_granted_again(backend: &dyn Backend) {
    for (kind, is_cancelled) in KINDS.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let from = Client::new().owned(kind, "me", LONG);
        let heir = heir(&from, LONG);
        granted(backend, &from).await;
        adopted(backend, &from, &heir).await;
        if is_cancelled {
            assert!(cancelled(backend, &heir).await, "{kind:?}");
        } else {
            assert_eq!(released(backend, &heir).await, Ended::Released, "{kind:?}");
        }
        assert_eq!(refused(backend, &from, &heir).await, Taken, "{kind:?}");
        assert_eq!(acquire(backend, &heir).await, Attempt::Ended, "{kind:?}");
        assert_eq!(inspected(backend).await.held, 0, "{kind:?}");
        let next = Client::new().owned(kind, "you", LONG);
        granted(backend, &next).await;
        let _ = refused(backend, &from, &heir).await;
        assert_eq!(released(backend, &next).await, Ended::Released, "{kind:?}");
    }
}

/// A late copy of the first holder's ask has acquired it, after the adopter's release.
pub(super) async fn a_mutex_that_was_granted_anew_is_not_adopted(backend: &dyn Backend) {
    let from = Client::new().owned(Kind::Mutex, "me", LONG);
    let first = Detached { id: from.id, most: granted(backend, &from).await };
    let adopts = async |heir| match backend.store().adopt(first, heir).await.unwrap() {
        Adoption::Adopted { .. } => true,
        Adoption::NotHeld(reason) => {
            assert_eq!(reason, Taken);
            false
        }
    };
    let [adopter, second] = [(); 2].map(|()| heir(&from, LONG));
    assert!(adopts(&adopter).await);
    assert!(adopts(&adopter).await, "it may be sent twice");
    assert_eq!(released(backend, &adopter).await, Ended::Released);
    granted(backend, &from).await;
    assert!(!adopts(&second).await);
}
