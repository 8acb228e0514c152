//! The limit that the last permit was counted against, as operators see it.

use leasehold::store::{Adoption, Ended, Forced, Kind};
use leasehold_tests::backend::Backend;

use super::adopt::adopt;
use super::operator::{forced, inspected};
use super::{Client, LIVE, LONG, granted, released, waits};

macro_rules! cases {
    ($case:path) => {
        $case! {
            last_limit:
            it_is_known_while_a_permit_is_held,
            a_served_waiter_says_its_own,
            it_is_no_part_of_other_kinds,
        }
    };
}
pub(super) use cases;

async fn last_limit(backend: &dyn Backend) -> Option<u32> {
    inspected(backend).await.last_limit
}

pub(super) async fn it_is_known_while_a_permit_is_held(backend: &dyn Backend) {
    let client = Client::new();
    let (first, second, heavy) =
        (client.permit(4, LONG), client.permit(u32::MAX, LONG), client.weighted(12, 3));
    for (permit, limit) in [(&first, 4), (&second, u32::MAX), (&heavy, 12)] {
        granted(backend, permit).await;
        assert_eq!(last_limit(backend).await, Some(limit));
    }
    let shown = inspected(backend).await;
    assert_eq!((shown.held, shown.permits_held(), shown.limits()), (3, 5, vec![12]));
    let adopter = Client::new().weighted(12, 3);
    assert!(matches!(adopt(backend, &heavy, &adopter).await, Adoption::Adopted { .. }));
    assert_eq!(last_limit(backend).await, Some(12));
    for (permit, limit) in [(&second, Some(12)), (&adopter, Some(12)), (&first, None)] {
        assert_eq!(released(backend, permit).await, Ended::Released);
        assert_eq!(last_limit(backend).await, limit);
    }
}

pub(super) async fn a_served_waiter_says_its_own(backend: &dyn Backend) {
    let client = Client::new();
    let (first, waiter) = (client.weighted(4, 4), client.weighted(6, 4));
    granted(backend, &first).await;
    waits(backend, &waiter, LIVE).await;
    assert_eq!(inspected(backend).await.limits(), [4, 6]);
    assert_eq!(released(backend, &first).await, Ended::Released);
    let shown = inspected(backend).await;
    assert_eq!((shown.limits(), shown.permits_held()), (vec![6], 4));
}

pub(super) async fn it_is_no_part_of_other_kinds(backend: &dyn Backend) {
    for kind in [Kind::Mutex, Kind::Reentrant, Kind::Read, Kind::Write] {
        let client = Client::new();
        // A free name may change its kind.
        let permit = client.permit(2, LONG);
        granted(backend, &permit).await;
        assert_eq!(released(backend, &permit).await, Ended::Released);
        let lease = client.owned(kind, "me", LONG);
        granted(backend, &lease).await;
        assert_eq!(last_limit(backend).await, None, "{kind:?}");
        assert_eq!(released(backend, &lease).await, Ended::Released);
        granted(backend, &client.permit(2, LONG)).await;
        assert!(matches!(forced(backend).await, Forced::Released { held: 1, .. }));
        assert_eq!(last_limit(backend).await, None, "{kind:?}");
    }
}
