//! Forced releases by an operator, for all kinds of locks.

use leasehold::LossReason::Expired;
use leasehold::store::{Ask, Attempt, Ended, Forced, Hint, Kind, Renewal, Request};
use leasehold_tests::backend::{Backend, Memory};
use leasehold_tests::hints::HintRecorder;

use super::operator::{KINDS, forced, is_held_by, is_same, was_forced};
use super::{
    Client, LIVE, LONG, SHORT, acquire, busy, cancelled, claims, granted, kept, released, renewed,
    waits,
};

macro_rules! cases {
    ($case:path) => {
        $case! {
            force:
            every_kind_is_taken_by_force,
            a_forced_holder_is_told_until_its_lease_would_have_ended,
            a_kept_mutex_is_taken_by_force,
            an_offer_is_taken_by_force,
            all_holders_are_forced,
            a_free_lock_is_not_forced,
            force_moves_the_token_on,
            the_first_waiter_is_served_after_a_force,
            a_release_after_a_force_lets_the_next_one_in,
            a_forced_name_may_change_its_kind,
            a_forced_holder_has_not_released,
        }
    };
}
pub(super) use cases;

pub(super) async fn every_kind_is_taken_by_force(backend: &impl Backend) {
    for kind in KINDS {
        let client = Client::new();
        let holder = client.owned(kind, "me", LONG);
        let token = granted(backend, &holder).await;
        assert!(!was_forced(backend, &holder).await);
        let Forced::Released { held: 1, fence } = forced(backend).await else {
            panic!("{kind:?} is held");
        };
        assert!(u64::from(fence) > token);
        assert!(!is_held_by(backend, "me").await);
        assert!(matches!(renewed(backend, &holder).await, Renewal::NotHeld(_)), "{kind:?}");
        assert!(was_forced(backend, &holder).await, "{kind:?}");
        assert!(matches!(released(backend, &holder).await, Ended::NotHeld(_)), "{kind:?}");
        let next = client.owned(kind, "you", LONG);
        let token = granted(backend, &next).await;
        assert!(token > u64::from(fence) || !kind.is_fenced());
        // Its release does not change the next holder's lease.
        assert!(matches!(released(backend, &holder).await, Ended::NotHeld(_)), "{kind:?}");
        assert_eq!(renewed(backend, &next).await, Renewal::Renewed, "{kind:?}");
        assert!(!was_forced(backend, &next).await);
        let _ = released(backend, &next).await;
    }
}

pub(super) async fn a_forced_holder_is_told_until_its_lease_would_have_ended(
    backend: &impl Backend,
) {
    let client = Client::new();
    let short = client.mutex(SHORT * 4);
    granted(backend, &short).await;
    let _ = forced(backend).await;
    // Others come and go meanwhile.
    for _ in 0..3 {
        let next = client.mutex(LONG);
        granted(backend, &next).await;
        let _ = released(backend, &next).await;
    }
    assert!(was_forced(backend, &short).await);
    let long = client.mutex(LONG);
    granted(backend, &long).await;
    let _ = forced(backend).await;
    backend.pass(SHORT * 4).await;
    assert!(was_forced(backend, &long).await);
    let third = client.mutex(LONG);
    granted(backend, &third).await;
    let _ = forced(backend).await;
    assert!(!was_forced(backend, &short).await, "nothing is kept for ever");
}

pub(super) async fn a_kept_mutex_is_taken_by_force(backend: &impl Backend) {
    let client = Client::new();
    let mutex = client.mutex(LONG);
    granted(backend, &mutex).await;
    let _ = backend.store().release(&mutex, LONG).await.unwrap();
    kept(backend, &client.mutex(LONG)).await;
    assert!(matches!(forced(backend).await, Forced::Released { .. }));
    granted(backend, &client.mutex(LONG)).await;
}

pub(super) async fn an_offer_is_taken_by_force(backend: &impl Backend) {
    for kind in KINDS {
        let (one, other) = (Client::new(), Client::new());
        let holder = one.owned(if kind == Kind::Read { Kind::Write } else { kind }, "me", LONG);
        granted(backend, &holder).await;
        let waiter = other.owned(kind, "other", LONG);
        waits(backend, &waiter, LIVE).await;
        let _ = released(backend, &holder).await;
        assert!(matches!(forced(backend).await, Forced::Released { held: 1, .. }), "{kind:?}");
        assert!(matches!(renewed(backend, &waiter).await, Renewal::NotHeld(_)), "{kind:?}");
        assert!(was_forced(backend, &waiter).await, "{kind:?}");
    }
}

pub(super) async fn all_holders_are_forced(backend: &impl Backend) {
    let client = Client::new();
    let readers = [(); 100].map(|()| client.request(Kind::Read, LONG));
    for reader in &readers {
        granted(backend, reader).await;
    }
    assert!(matches!(forced(backend).await, Forced::Released { held: 100, .. }));
    for reader in &readers {
        assert!(was_forced(backend, reader).await);
    }
    granted(backend, &client.request(Kind::Write, LONG)).await;
}

pub(super) async fn a_free_lock_is_not_forced(backend: &impl Backend) {
    assert_eq!(forced(backend).await, Forced::NotHeld);
    for kind in KINDS {
        let client = Client::new();
        let (free, dead) = (client.owned(kind, "me", LONG), client.owned(kind, "me", SHORT));
        granted(backend, &free).await;
        let _ = released(backend, &free).await;
        assert_eq!(forced(backend).await, Forced::NotHeld, "{kind:?}");
        assert_eq!(acquire(backend, &free).await, Attempt::Ended, "nothing is changed");
        granted(backend, &dead).await;
        backend.pass(SHORT).await;
        assert_eq!(forced(backend).await, Forced::NotHeld, "{kind:?}");
        assert_eq!(renewed(backend, &dead).await, Renewal::NotHeld(Expired));
    }
}

pub(super) async fn force_moves_the_token_on(backend: &impl Backend) {
    let client = Client::new();
    let mut last = 0;
    for _ in 0..20 {
        let holder = client.mutex(LONG);
        let token = granted(backend, &holder).await;
        let Forced::Released { fence, .. } = forced(backend).await else { panic!("it is held") };
        assert!(last < token && token < u64::from(fence));
        last = u64::from(fence);
    }
}

pub(super) async fn the_first_waiter_is_served_after_a_force(backend: &impl Backend) {
    for kind in KINDS {
        let (one, first) = (Client::new(), Client::new());
        let holder = one.owned(if kind == Kind::Read { Kind::Write } else { kind }, "me", LONG);
        granted(backend, &holder).await;
        let waiter = first.owned(kind, "first", LONG);
        waits(backend, &waiter, LIVE).await;
        let _ = forced(backend).await;
        // A try does not overtake the waiter, and serves it instead.
        busy(backend, &one.owned(if kind == Kind::Read { Kind::Write } else { kind }, "try", LONG))
            .await;
        claims(backend, &waiter).await;
        assert_eq!(released(backend, &waiter).await, Ended::Released, "{kind:?}");
    }
}

/// A store in memory delivers hints at once.
#[tokio::test]
async fn the_first_waiter_is_told_to_ask() {
    let backend = Memory::start().await;
    for kind in KINDS {
        let (one, first, second) = (Client::new(), Client::new(), Client::new());
        let recorders =
            [&first, &second].map(|client| HintRecorder::new(&**backend.store(), client.id));
        let holder = one.owned(if kind == Kind::Read { Kind::Write } else { kind }, "me", LONG);
        granted(&backend, &holder).await;
        let waiters = [&first, &second].map(|client| client.owned(kind, "you", LONG));
        for waiter in &waiters {
            waits(&backend, waiter, LIVE).await;
        }
        let _ = forced(&backend).await;
        let heard = recorders.map(|mut hints| hints.received.try_recv().ok());
        assert_eq!(heard, [Some(Hint::Free { id: waiters[0].id }), None], "{kind:?}");
        for waiter in &waiters {
            let _ = cancelled(&backend, waiter).await;
        }
    }
}

pub(super) async fn a_forced_holder_has_not_released(backend: &impl Backend) {
    for kind in KINDS {
        let client = Client::new();
        let holder = client.owned(kind, "me", LONG);
        granted(backend, &holder).await;
        let _ = forced(backend).await;
        for _ in 0..2 {
            assert!(matches!(released(backend, &holder).await, Ended::NotHeld(_)), "{kind:?}");
        }
    }
}

/// A waiter for a lock that is then taken by force.
async fn waits_for_a_lock_to_be_forced(backend: &impl Backend, kind: Kind) -> Request {
    let (one, first) = (Client::new(), Client::new());
    let holder = one.owned(if kind == Kind::Read { Kind::Write } else { kind }, "me", LONG);
    granted(backend, &holder).await;
    let waiter = first.owned(kind, "first", LONG);
    waits(backend, &waiter, LIVE).await;
    waiter
}

pub(super) async fn a_release_after_a_force_lets_the_next_one_in(backend: &impl Backend) {
    for kind in KINDS {
        let first = waits_for_a_lock_to_be_forced(backend, kind).await;
        let second = Client::new().owned(kind, "second", LONG);
        waits(backend, &second, LIVE).await;
        let _ = forced(backend).await;
        assert!(!cancelled(backend, &first).await);
        claims(backend, &second).await;
        assert_eq!(acquire(backend, &first).await, Attempt::Ended, "{kind:?}");
        assert_eq!(released(backend, &second).await, Ended::Released, "{kind:?}");
    }
}

pub(super) async fn a_forced_name_may_change_its_kind(backend: &impl Backend) {
    for (kind, other) in KINDS.into_iter().zip(KINDS.into_iter().cycle().skip(1)) {
        let waiter = waits_for_a_lock_to_be_forced(backend, kind).await;
        let _ = forced(backend).await;
        assert!(!cancelled(backend, &waiter).await);
        let next = Client::new().owned(if is_same(kind, other) { kind } else { other }, "me", LONG);
        granted(backend, &next).await;
        let _ = released(backend, &next).await;
    }
}
