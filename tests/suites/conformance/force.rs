//! Forced releases by an operator, for all kinds of locks.

use leasehold::LossReason::Expired;
use leasehold::store::{Ask, Attempt, Ended, Force, Forced, Hint, Kind, Note, Renewal, Request};
use leasehold_tests::backend::{Backend, Memory};
use leasehold_tests::hints::HintRecorder;
use leasehold_tests::requests::force;

use super::operator::{KINDS, forced, inspected, is_held_by, is_same, key, was_forced};
use super::{
    Client, LIVE, LONG, SHORT, acquire, busy, cancelled, claims, granted, granted_when_asking,
    kept, released, renewed, waits,
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
            some_of_several_holders_are_forced,
            a_waiter_gets_what_some_holders_have_lost,
            a_writer_stays_with_its_token_when_a_reader_is_forced,
            readers_stay_when_their_writer_is_forced,
            whoever_is_not_named_loses_nothing,
            an_owner_loses_all_its_holds,
            who_forced_a_lock_is_remembered,
        }
    };
}
pub(super) use cases;

pub(super) async fn every_kind_is_taken_by_force(backend: &dyn Backend) {
    for kind in KINDS {
        let client = Client::new();
        let holder = client.owned(kind, "me", LONG);
        let token = granted(backend, &holder).await;
        assert!(!was_forced(backend, &holder).await);
        let Forced::Released { held: 1, fence, .. } = forced(backend).await else {
            panic!("{kind:?} is held");
        };
        assert!(u64::from(fence) > token);
        assert!(!is_held_by(backend, "me").await);
        assert!(matches!(renewed(backend, &holder).await, Renewal::NotHeld(_)), "{kind:?}");
        assert!(was_forced(backend, &holder).await, "{kind:?}");
        for _ in 0..2 {
            assert!(matches!(released(backend, &holder).await, Ended::NotHeld(_)), "{kind:?}");
        }
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
    backend: &dyn Backend,
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

pub(super) async fn a_kept_mutex_is_taken_by_force(backend: &dyn Backend) {
    let client = Client::new();
    let mutex = client.mutex(LONG);
    granted(backend, &mutex).await;
    let _ = backend.store().release(&mutex, LONG).await.unwrap();
    kept(backend, &client.mutex(LONG)).await;
    assert!(matches!(forced(backend).await, Forced::Released { .. }));
    granted(backend, &client.mutex(LONG)).await;
}

pub(super) async fn an_offer_is_taken_by_force(backend: &dyn Backend) {
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

pub(super) async fn all_holders_are_forced(backend: &dyn Backend) {
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

pub(super) async fn a_free_lock_is_not_forced(backend: &dyn Backend) {
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

pub(super) async fn force_moves_the_token_on(backend: &dyn Backend) {
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

pub(super) async fn the_first_waiter_is_served_after_a_force(backend: &dyn Backend) {
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

/// A waiter for a lock that is then taken by force.
async fn waits_for_a_lock_to_be_forced(backend: &dyn Backend, kind: Kind) -> Request {
    let (one, first) = (Client::new(), Client::new());
    let holder = one.owned(if kind == Kind::Read { Kind::Write } else { kind }, "me", LONG);
    granted(backend, &holder).await;
    let waiter = first.owned(kind, "first", LONG);
    waits(backend, &waiter, LIVE).await;
    waiter
}

pub(super) async fn a_release_after_a_force_lets_the_next_one_in(backend: &dyn Backend) {
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

pub(super) async fn a_forced_name_may_change_its_kind(backend: &dyn Backend) {
    for (kind, other) in KINDS.into_iter().zip(KINDS.into_iter().cycle().skip(1)) {
        let waiter = waits_for_a_lock_to_be_forced(backend, kind).await;
        let _ = forced(backend).await;
        assert!(!cancelled(backend, &waiter).await);
        let next = Client::new().owned(if is_same(kind, other) { kind } else { other }, "me", LONG);
        granted(backend, &next).await;
        let _ = released(backend, &next).await;
    }
}

/// Takes the lock from the holders with this note.
async fn forced_from(backend: &dyn Backend, note: &str) -> Forced {
    let seen = inspected(backend).await;
    let named = seen.holders.iter().filter(|it| it.note.as_deref() == Some(note));
    let only: Vec<_> = named.map(|it| it.member().to_owned()).collect();
    assert!(!only.is_empty(), "{seen:?}");
    let force = Force { only, ..force() };
    backend.store().force_release(&key(), force).await.expect("the store answers")
}

fn with_note(request: Request, note: &str) -> Request {
    Request { note: Note::new(note), ..request }
}

fn permit(client: &Client, weight: u32, note: &str) -> Request {
    with_note(client.owned(Kind::Semaphore { limit: 4, weight }, "me", LONG), note)
}

pub(super) async fn some_of_several_holders_are_forced(backend: &dyn Backend) {
    let client = Client::new();
    let [light, heavy, works] = [(1, "hangs"), (2, "hangs"), (1, "works")]
        .map(|(weight, note)| permit(&client, weight, note));
    for permit in [&light, &heavy, &works] {
        granted(backend, permit).await;
    }
    let forced = forced_from(backend, "hangs").await;
    assert!(matches!(forced, Forced::Released { held: 2, .. }), "{forced:?}");
    for permit in [&light, &heavy] {
        assert!(was_forced(backend, permit).await);
        assert!(matches!(renewed(backend, permit).await, Renewal::NotHeld(_)));
        assert!(matches!(released(backend, permit).await, Ended::NotHeld(_)));
    }
    assert!(!was_forced(backend, &works).await);
    assert_eq!(renewed(backend, &works).await, Renewal::Renewed);
    let left = inspected(backend).await;
    assert_eq!((left.held, left.holders[0].note.as_deref()), (1, Some("works")));
    assert!(is_held_by(backend, "me").await);
    // Their weight is free again, and no more.
    granted(backend, &permit(&client, 3, "next")).await;
    busy(backend, &permit(&client, 1, "too much")).await;
    assert!(matches!(forced_from(backend, "works").await, Forced::Released { held: 1, .. }));
    assert!(matches!(forced_from(backend, "next").await, Forced::Released { held: 1, .. }));
    assert_eq!(inspected(backend).await.held, 0);
    granted(backend, &permit(&client, 4, "all")).await;
}

pub(super) async fn a_waiter_gets_what_some_holders_have_lost(backend: &dyn Backend) {
    let client = Client::new();
    for note in ["hangs", "works"] {
        granted(backend, &permit(&client, 2, note)).await;
    }
    let waiter = permit(&client, 2, "waits");
    let position = waits(backend, &waiter, LIVE).await;
    assert!(matches!(forced_from(backend, "hangs").await, Forced::Released { held: 1, .. }));
    granted_when_asking(backend, &waiter, position).await;
}

pub(super) async fn a_writer_stays_with_its_token_when_a_reader_is_forced(backend: &dyn Backend) {
    let client = Client::new();
    let reader = with_note(client.owned(Kind::Read, "me", LONG), "reads");
    granted(backend, &reader).await;
    let writer = with_note(client.owned(Kind::Write, "me", LONG), "writes");
    let token = granted(backend, &writer).await;
    assert!(matches!(forced_from(backend, "reads").await, Forced::Released { held: 1, .. }));
    assert_eq!(renewed(backend, &writer).await, Renewal::Renewed);
    let seen = inspected(backend).await;
    assert_eq!(seen.holders[0].fence.map(u64::from), Some(token), "{seen:?}");
    assert!(matches!(renewed(backend, &reader).await, Renewal::NotHeld(_)));
}

pub(super) async fn readers_stay_when_their_writer_is_forced(backend: &dyn Backend) {
    let client = Client::new();
    let reader = with_note(client.owned(Kind::Read, "me", LONG), "reads");
    granted(backend, &reader).await;
    let writer = with_note(client.owned(Kind::Write, "me", LONG), "writes");
    let token = granted(backend, &writer).await;
    let forced = forced_from(backend, "writes").await;
    let Forced::Released { held: 1, fence, .. } = forced else { panic!("{forced:?}") };
    assert!(u64::from(fence) > token);
    assert_eq!(renewed(backend, &reader).await, Renewal::Renewed);
    // Nobody writes any more, so others may read.
    granted(backend, &client.request(Kind::Read, LONG)).await;
    assert!(matches!(released(backend, &writer).await, Ended::NotHeld(_)));
}

pub(super) async fn whoever_is_not_named_loses_nothing(backend: &dyn Backend) {
    for kind in KINDS {
        let client = Client::new();
        let before = with_note(client.owned(kind, "me", LONG), "before");
        granted(backend, &before).await;
        let seen = inspected(backend).await;
        let _ = released(backend, &before).await;
        let holder = client.owned(kind, "me", LONG);
        granted(backend, &holder).await;
        let only = vec![seen.holders[0].member().to_owned()];
        let force = Force { only, ..force() };
        let forced = backend.store().force_release(&key(), force).await.unwrap();
        assert_eq!(forced, Forced::NotHeld, "{kind:?}");
        assert_eq!(renewed(backend, &holder).await, Renewal::Renewed, "{kind:?}");
        assert!(inspected(backend).await.last_forced.is_none(), "{kind:?}");
        let _ = released(backend, &holder).await;
    }
}

pub(super) async fn an_owner_loses_all_its_holds(backend: &dyn Backend) {
    let client = Client::new();
    let holds =
        ["hangs", "works"].map(|note| with_note(client.owned(Kind::Reentrant, "me", LONG), note));
    for hold in &holds {
        granted(backend, hold).await;
    }
    assert!(matches!(forced_from(backend, "hangs").await, Forced::Released { held: 2, .. }));
    assert!(!is_held_by(backend, "me").await);
    granted(backend, &client.owned(Kind::Reentrant, "you", LONG)).await;
}

pub(super) async fn who_forced_a_lock_is_remembered(backend: &dyn Backend) {
    let client = Client::new();
    assert!(inspected(backend).await.last_forced.is_none());
    granted(backend, &client.mutex(LONG)).await;
    let why = Note::new("TICKET-7: it hangs, @web-3");
    let forced = Force { why, ..force() };
    let _ = backend.store().force_release(&key(), forced).await.unwrap();
    granted(backend, &client.mutex(LONG)).await;
    let last = inspected(backend).await.last_forced.expect("it was forced");
    assert_eq!((last.held, &*last.by), (1, "ann"));
    assert_eq!(last.why.as_deref(), Some("TICKET-7: it hangs, @web-3"));
    let _ = backend.store().force_release(&key(), force()).await.unwrap();
    assert_eq!(inspected(backend).await.last_forced.unwrap().why, None);
}
