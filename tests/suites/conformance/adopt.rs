//! Adoption of a lease by another process, in every kind of lock.

use std::time::Duration;

use leasehold::LossReason::{self, Expired};
use leasehold::store::{Adoption, Ask, Attempt, Ended, Kind, LockInfo, NotAll, Renewal, Request};
use leasehold_tests::backend::Backend;

use super::operator::{KINDS, forced, inspected, is_held_by, is_same, was_forced};
use super::{
    Client, FIRST, LIVE, LONG, SHORT, acquire, answered, ask, busy, cancelled, granted, released,
    renewed,
};

macro_rules! cases {
    ($case:path) => {
        $case! {
            adopt:
            an_adoption_has_a_greater_token,
            an_owner_with_other_holds_keeps_his_token,
            permits_and_readers_have_no_token,
            an_adoption_starts_the_ttl_anew,
            an_adoption_sent_twice_has_the_first_answer,
            an_adopted_lease_can_be_adopted_again,
            an_adopted_lease_can_be_forced,
            the_former_holder_changes_nothing,
            an_adopted_lease_keeps_its_owner,
            an_adopted_permit_keeps_its_weight,
            an_adopted_writer_stays_beside_its_owners_readers,
            other_holders_keep_their_leases,
            no_key_outlasts_the_holder,
            ended_leases_block_nobody,
            a_sole_hold_among_ended_ones_has_a_new_token,
        }
    };
}
pub(super) use cases;

/// The kind of holder that makes a request of this kind wait.
pub(super) fn in_the_way_of(kind: Kind) -> Kind {
    if kind == Kind::Read { Kind::Write } else { kind }
}

/// Another process's request, which adopts the lease of this one.
pub(super) fn heir(of: &Request, ttl: Duration) -> Request {
    Request { owner: of.owner.clone(), ..Client::new().request(of.kind, ttl) }
}

pub(super) async fn adopt(backend: &dyn Backend, from: &Request, request: &Request) -> Adoption {
    answered(|| backend.store().adopt(from.id.into(), request)).await
}

/// Adopts a lease, which must succeed. Returns the token.
pub(super) async fn adopted(backend: &dyn Backend, from: &Request, request: &Request) -> u64 {
    match adopt(backend, from, request).await {
        Adoption::Adopted { token } => token,
        other @ Adoption::NotHeld(_) => panic!("{other:?}"),
    }
}

/// Adopts a lease, which must fail. Returns the reason.
pub(super) async fn refused(
    backend: &dyn Backend,
    from: &Request,
    request: &Request,
) -> LossReason {
    match adopt(backend, from, request).await {
        Adoption::NotHeld(reason) => reason,
        other @ Adoption::Adopted { .. } => panic!("{other:?}"),
    }
}

/// The inspection of a lock, without its times.
pub(super) fn shape(info: &LockInfo) -> impl PartialEq + std::fmt::Debug + use<> {
    let how = info.holders.iter().map(|it| (it.owner.clone(), it.is_writer, it.weight, it.fence));
    (info.kind, info.held, how.collect::<Vec<_>>(), info.kept, info.waiting)
}

pub(super) async fn an_adoption_has_a_greater_token(backend: &dyn Backend) {
    let mut last = 0;
    for kind in [Kind::Mutex, Kind::Write, Kind::Reentrant] {
        let from = Client::new().owned(kind, "me", LONG);
        let heir = heir(&from, LONG);
        let first = granted(backend, &from).await;
        let second = adopted(backend, &from, &heir).await;
        assert!(last < first && first < second, "{kind:?}: {last}, {first}, {second}");
        assert_eq!(granted(backend, &heir).await, second, "{kind:?}");
        let shown = inspected(backend).await;
        assert_eq!(shown.held, 1, "{kind:?}");
        assert_eq!(shown.holders[0].fence.map(u64::from), Some(second), "{kind:?}");
        assert_eq!(renewed(backend, &heir).await, Renewal::Renewed);
        assert_eq!(released(backend, &heir).await, Ended::Released);
        last = second;
    }
}

pub(super) async fn an_owner_with_other_holds_keeps_his_token(backend: &dyn Backend) {
    let client = Client::new();
    let holds = [(); 2].map(|()| client.owned(Kind::Reentrant, "me", LONG));
    let token = granted(backend, &holds[0]).await;
    granted(backend, &holds[1]).await;
    let heir_of_one = heir(&holds[0], LONG);
    for _ in 0..2 {
        assert_eq!(adopted(backend, &holds[0], &heir_of_one).await, token);
    }
    assert_eq!(released(backend, &holds[1]).await, Ended::StillHeld(1));
    // Now this is the owner's only hold.
    let last = heir(&heir_of_one, LONG);
    let greater = adopted(backend, &heir_of_one, &last).await;
    assert!(greater > token);
    let inner = client.owned(Kind::Reentrant, "me", LONG);
    assert_eq!(granted(backend, &inner).await, greater);
    assert_eq!(released(backend, &inner).await, Ended::StillHeld(1));
    assert_eq!(released(backend, &last).await, Ended::Released);
    assert!(granted(backend, &client.owned(Kind::Reentrant, "you", LONG)).await > greater);
}

pub(super) async fn permits_and_readers_have_no_token(backend: &dyn Backend) {
    for kind in [Kind::Semaphore { limit: 3, weight: 2 }, Kind::Read] {
        let from = Client::new().request(kind, LONG);
        let heir = heir(&from, LONG);
        granted(backend, &from).await;
        for _ in 0..2 {
            assert_eq!(adopted(backend, &from, &heir).await, 0, "{kind:?}");
        }
        let _ = released(backend, &heir).await;
    }
}

pub(super) async fn an_adoption_starts_the_ttl_anew(backend: &dyn Backend) {
    for kind in KINDS {
        // The new TTL may be longer or shorter than the time left.
        for (before, after) in [(SHORT * 4, LONG), (LONG * 3, LONG)] {
            let from = Client::new().owned(kind, "me", before);
            let heir = heir(&from, after);
            granted(backend, &from).await;
            adopted(backend, &from, &heir).await;
            let left = inspected(backend).await.holders[0].remaining;
            assert!(left > LONG / 2 && left <= LONG, "{kind:?}: {left:?}");
            backend.pass(SHORT * 4).await;
            assert_eq!(renewed(backend, &heir).await, Renewal::Renewed, "{kind:?}");
            let _ = released(backend, &heir).await;
        }
    }
}

pub(super) async fn an_adoption_sent_twice_has_the_first_answer(backend: &dyn Backend) {
    for kind in KINDS {
        let from = Client::new().owned(kind, "me", LONG);
        let mut heir = heir(&from, LONG);
        granted(backend, &from).await;
        let token = adopted(backend, &from, &heir).await;
        let shown = shape(&inspected(backend).await);
        heir.ttl = LONG * 2;
        assert_eq!(adopted(backend, &from, &heir).await, token, "{kind:?}");
        let again = inspected(backend).await;
        assert_eq!(shape(&again), shown, "{kind:?}");
        assert!(again.holders[0].remaining > LONG, "its TTL starts anew");
        assert_eq!(acquire(backend, &from).await, Attempt::Ended, "{kind:?}");
        assert_eq!(released(backend, &heir).await, Ended::Released, "{kind:?}");
        assert_eq!(inspected(backend).await.held, 0, "{kind:?}");
    }
}

pub(super) async fn an_adopted_lease_can_be_adopted_again(backend: &dyn Backend) {
    for kind in KINDS {
        let from = Client::new().owned(kind, "me", LONG);
        let (second, third) = (heir(&from, LONG), heir(&from, LONG));
        granted(backend, &from).await;
        let token = adopted(backend, &from, &second).await;
        assert!(adopted(backend, &second, &third).await > token || !kind.is_fenced());
        // A late copy of the first adoption.
        let _ = refused(backend, &from, &second).await;
        let _ = refused(backend, &from, &heir(&from, LONG)).await;
        assert!(matches!(renewed(backend, &second).await, Renewal::NotHeld(_)), "{kind:?}");
        assert_eq!(acquire(backend, &second).await, Attempt::Ended, "{kind:?}");
        assert_eq!(inspected(backend).await.held, 1, "{kind:?}");
        assert_eq!(released(backend, &third).await, Ended::Released, "{kind:?}");
    }
}

pub(super) async fn an_adopted_lease_can_be_forced(backend: &dyn Backend) {
    for kind in KINDS {
        let from = Client::new().owned(kind, "me", LONG);
        let heir = heir(&from, LONG);
        granted(backend, &from).await;
        adopted(backend, &from, &heir).await;
        let _ = forced(backend).await;
        assert!(was_forced(backend, &heir).await, "{kind:?}");
        assert!(!was_forced(backend, &from).await, "it had none any more");
        let _ = refused(backend, &from, &heir).await;
        assert_eq!(inspected(backend).await.held, 0, "{kind:?}");
    }
}

pub(super) async fn the_former_holder_changes_nothing(backend: &dyn Backend) {
    for kind in KINDS {
        // Its TTL is longer than its heir's, so any effect of its commands would show.
        let from = Client::new().owned(kind, "me", LONG * 3);
        let heir = heir(&from, LONG);
        granted(backend, &from).await;
        let token = adopted(backend, &from, &heir).await;
        let shown = shape(&inspected(backend).await);
        for round in 0..2 {
            assert_eq!(acquire(backend, &from).await, Attempt::Ended, "{kind:?}");
            assert_eq!(ask(backend, &from, LIVE, FIRST).await, Attempt::Ended, "{kind:?}");
            assert!(matches!(renewed(backend, &from).await, Renewal::NotHeld(_)), "{kind:?}");
            // It counts as ended, and its release says so. A late `hold_at_least` keeps nothing.
            let ended = backend.store().release(&from, LONG * round).await.unwrap();
            assert!(matches!(ended, Ended::Released | Ended::StillHeld(1)), "{kind:?}: {ended:?}");
            assert!(!cancelled(backend, &from).await, "{kind:?}");
            let after = inspected(backend).await;
            assert_eq!(shape(&after), shown, "{kind:?}");
            assert!(after.holders[0].remaining <= LONG, "{kind:?}: {after:?}");
        }
        if kind == Kind::Mutex {
            let all =
                backend.store().acquire_all(std::slice::from_ref(&from), &[]).expect("it can");
            assert_eq!(all.await.unwrap(), Err(NotAll::Busy(0)));
        }
        assert_eq!(granted(backend, &heir).await, token, "{kind:?}");
        assert_eq!(renewed(backend, &heir).await, Renewal::Renewed, "{kind:?}");
        assert_eq!(released(backend, &heir).await, Ended::Released, "{kind:?}");
    }
}

pub(super) async fn an_adopted_lease_keeps_its_owner(backend: &dyn Backend) {
    for kind in KINDS {
        let from = Client::new().owned(kind, "me", LONG);
        let heir = heir(&from, LONG);
        granted(backend, &from).await;
        adopted(backend, &from, &heir).await;
        assert!(is_held_by(backend, "me").await, "{kind:?}");
        assert_eq!(inspected(backend).await.holders[0].owner.as_deref(), Some("me"), "{kind:?}");
        assert!(!is_held_by(backend, "you").await, "{kind:?}");
        let _ = released(backend, &heir).await;
        assert!(!is_held_by(backend, "me").await, "{kind:?}");
    }
}

pub(super) async fn an_adopted_permit_keeps_its_weight(backend: &dyn Backend) {
    let client = Client::new();
    let permit = |weight| client.request(Kind::Semaphore { limit: 4, weight }, LONG);
    let from = permit(3);
    let mut holder = from.clone();
    granted(backend, &from).await;
    for _ in 0..3 {
        let one = permit(1);
        busy(backend, &permit(2)).await;
        granted(backend, &one).await;
        busy(backend, &permit(1)).await;
        assert_eq!(released(backend, &one).await, Ended::Released);
        let next = heir(&from, LONG);
        adopted(backend, &holder, &next).await;
        assert_eq!(inspected(backend).await.holders[0].weight, 3);
        holder = next;
    }
    assert_eq!(released(backend, &holder).await, Ended::Released);
    granted(backend, &permit(4)).await;
}

pub(super) async fn an_adopted_writer_stays_beside_its_owners_readers(backend: &dyn Backend) {
    let client = Client::new();
    let of = |kind, owner| client.owned(kind, owner, LONG);
    let (writer, reader) = (of(Kind::Write, "me"), of(Kind::Read, "me"));
    granted(backend, &writer).await;
    granted(backend, &reader).await;
    let second = heir(&writer, LONG);
    let token = adopted(backend, &writer, &second).await;
    granted(backend, &of(Kind::Read, "me")).await;
    busy(backend, &of(Kind::Read, "you")).await;
    busy(backend, &of(Kind::Write, "you")).await;
    // Adopting a reader's lease does not change the writer's.
    let other = heir(&reader, LONG);
    assert_eq!(adopted(backend, &reader, &other).await, 0);
    assert_eq!(granted(backend, &second).await, token);
    busy(backend, &of(Kind::Read, "you")).await;
    assert_eq!(released(backend, &second).await, Ended::Released);
    granted(backend, &of(Kind::Read, "you")).await;
    assert_eq!(renewed(backend, &other).await, Renewal::Renewed);
}

pub(super) async fn other_holders_keep_their_leases(backend: &dyn Backend) {
    let kinds = [Kind::Reentrant, Kind::Semaphore { limit: 2, weight: 1 }, Kind::Read];
    for (kind, is_first_short) in kinds.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let (short, long) = (SHORT * 2, LONG);
        let ttls = if is_first_short { [short, long] } else { [long, short] };
        let client = Client::new();
        let [from, other] = [LONG, ttls[1]].map(|ttl| client.owned(kind, "me", ttl));
        granted(backend, &from).await;
        granted(backend, &other).await;
        let heir = heir(&from, ttls[0]);
        adopted(backend, &from, &heir).await;
        assert_eq!(inspected(backend).await.held, 2, "{kind:?}");
        backend.pass(short).await;
        assert_eq!(inspected(backend).await.held, 1, "{kind:?}");
        let [left, gone] = if is_first_short { [&other, &heir] } else { [&heir, &other] };
        assert_eq!(renewed(backend, left).await, Renewal::Renewed, "{kind:?}");
        assert_eq!(renewed(backend, gone).await, Renewal::NotHeld(Expired), "{kind:?}");
        assert_eq!(released(backend, left).await, Ended::Released, "{kind:?}");
    }
}

/// The adopted lease may have been the one that would end last.
pub(super) async fn no_key_outlasts_the_holder(backend: &dyn Backend) {
    for kind in KINDS {
        let client = Client::new();
        let (from, other) = (client.owned(kind, "me", LONG), client.owned(kind, "me", SHORT));
        granted(backend, &from).await;
        let has_other = matches!(acquire(backend, &other).await, Attempt::Granted { .. });
        assert_eq!(has_other, matches!(kind, Kind::Reentrant | Kind::Read), "{kind:?}");
        adopted(backend, &from, &heir(&from, SHORT)).await;
        backend.pass(SHORT).await;
        assert_eq!(inspected(backend).await.kind, None, "{kind:?}");
        let other = KINDS.into_iter().find(|other| !is_same(*other, kind));
        let next = Client::new().owned(other.expect("others"), "you", LONG);
        granted(backend, &next).await;
        let _ = released(backend, &next).await;
    }
}

/// More leases than one command removes.
const CROWD: u32 = 70;

pub(super) async fn ended_leases_block_nobody(backend: &dyn Backend) {
    let client = Client::new();
    let permit =
        |weight, ttl| client.request(Kind::Semaphore { limit: CROWD * 2 + 3, weight }, ttl);
    let from = permit(3, LONG * 2);
    granted(backend, &from).await;
    let short = SHORT * 4;
    for _ in 0..CROWD {
        granted(backend, &permit(2, short)).await;
    }
    backend.pass(short).await;
    let heir = heir(&from, LONG);
    for _ in 0..2 {
        adopted(backend, &from, &heir).await;
    }
    let shown = inspected(backend).await;
    assert_eq!((shown.held, shown.holders[0].weight), (1, 3));
    let all = permit(CROWD * 2, LONG);
    // Two commands remove them.
    for is_last in [false, true] {
        let attempt = acquire(backend, &all).await;
        assert_eq!(matches!(attempt, Attempt::Granted { .. }), is_last, "{attempt:?}");
    }
    busy(backend, &permit(1, LONG)).await;
    assert_eq!(released(backend, &heir).await, Ended::Released);
    granted(backend, &permit(3, LONG)).await;
}

pub(super) async fn a_sole_hold_among_ended_ones_has_a_new_token(backend: &dyn Backend) {
    let client = Client::new();
    let hold = |ttl| client.owned(Kind::Reentrant, "me", ttl);
    let (from, short) = (hold(LONG), SHORT * 4);
    let token = granted(backend, &from).await;
    for _ in 0..CROWD {
        granted(backend, &hold(short)).await;
    }
    backend.pass(short).await;
    let heir = heir(&from, LONG);
    let greater = adopted(backend, &from, &heir).await;
    assert!(greater > token);
    assert!(is_held_by(backend, "me").await);
    assert_eq!(granted(backend, &hold(LONG)).await, greater);
    assert_eq!(released(backend, &heir).await, Ended::StillHeld(1));
}
