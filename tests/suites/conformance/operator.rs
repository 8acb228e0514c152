//! The commands of operators, for all kinds of locks: the kind of a name, its holders, and a forced
//! release.

use leasehold::LockKey;
use leasehold::LossReason::Expired;
use leasehold::store::QueuePosition;
use leasehold::store::{
    Attempt, ClientInfo, Ended, Forced, Hint, Kind, LockInfo, LockKind, Owner, Renewal, Request,
};
use leasehold_tests::backend::{Backend, Memory};
use leasehold_tests::hints::HintRecorder;

use super::{
    Client, FIRST, LIVE, LONG, SHORT, acquire, ask, busy, cancelled, claims, granted, kept, queued,
    released, renewed, waits,
};

macro_rules! cases {
    ($case:path) => {
        $case! {
            operator:
            a_name_is_one_kind_of_lock,
            a_name_with_waiters_is_one_kind_of_lock,
            a_free_name_may_change_its_kind,
            an_owner_is_found_in_every_kind,
            an_owner_whose_leases_ended_is_not_found,
            a_free_lock_shows_no_holders,
            a_mutex_is_shown,
            a_kept_mutex_is_shown,
            permits_are_shown,
            readers_and_a_writer_are_shown,
            holds_are_shown,
            waiters_are_shown_in_order,
            the_list_of_holders_is_bounded,
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

pub(super) const KINDS: [Kind; 5] = [
    Kind::Mutex,
    Kind::Reentrant,
    Kind::Semaphore { limit: 2, weight: 2 },
    Kind::Read,
    Kind::Write,
];

pub(super) fn is_same(one: Kind, other: Kind) -> bool {
    let is_rw = |kind| matches!(kind, Kind::Read | Kind::Write);
    one == other || is_rw(one) && is_rw(other)
}

fn key() -> LockKey {
    LockKey::new("a").expect("a name")
}

pub(super) async fn inspected(backend: &impl Backend) -> LockInfo {
    backend.store().inspect(&key()).await.expect("the store answers")
}

pub(super) async fn forced(backend: &impl Backend) -> Forced {
    backend.store().force_release(&key()).await.expect("the store answers")
}

pub(super) async fn was_forced(backend: &impl Backend, request: &Request) -> bool {
    backend.store().was_forced(request).await.expect("the store answers")
}

pub(super) async fn is_held_by(backend: &impl Backend, owner: &str) -> bool {
    let owner = Owner::new(owner).expect("a name");
    backend.store().is_held_by(&key(), &owner).await.expect("the store answers")
}

pub(super) async fn a_name_is_one_kind_of_lock(backend: &impl Backend) {
    for held in KINDS {
        let client = Client::new();
        let holder = client.owned(held, "me", LONG);
        granted(backend, &holder).await;
        for other in KINDS.into_iter().filter(|other| !is_same(held, *other)) {
            let request = client.owned(other, "me", LONG);
            for answer in
                [acquire(backend, &request).await, ask(backend, &request, LIVE, FIRST).await]
            {
                assert_eq!(answer, Attempt::WrongKind, "{other:?} where {held:?} is held");
            }
            // No command of this request changes anything.
            assert!(matches!(renewed(backend, &request).await, Renewal::NotHeld(_)));
            assert!(matches!(released(backend, &request).await, Ended::NotHeld(_)));
            assert!(!cancelled(backend, &request).await);
            assert_eq!(renewed(backend, &holder).await, Renewal::Renewed, "{other:?}, {held:?}");
        }
        assert_eq!(released(backend, &holder).await, Ended::Released, "{held:?}");
    }
}

pub(super) async fn a_name_with_waiters_is_one_kind_of_lock(backend: &impl Backend) {
    for waited in KINDS {
        let (client, first) = (Client::new(), Client::new());
        let holder =
            client.owned(if waited == Kind::Read { Kind::Write } else { waited }, "me", SHORT);
        granted(backend, &holder).await;
        let waiter = first.owned(waited, "other", LONG);
        let (position, ..) = queued(backend, &waiter, LIVE, FIRST).await;
        // The record is gone, and the queue is not.
        backend.pass(SHORT).await;
        for other in KINDS.into_iter().filter(|other| !is_same(waited, *other)) {
            let request = client.request(other, LONG);
            assert_eq!(
                acquire(backend, &request).await,
                Attempt::WrongKind,
                "{other:?} where {waited:?} is waited for"
            );
        }
        let answer = ask(backend, &waiter, LIVE, QueuePosition::Assigned(position)).await;
        assert!(matches!(answer, Attempt::Granted { .. }), "{waited:?}: {answer:?}");
        let _ = released(backend, &waiter).await;
    }
}

pub(super) async fn a_free_name_may_change_its_kind(backend: &impl Backend) {
    let client = Client::new();
    let mut last = 0;
    for _ in 0..2 {
        for kind in KINDS {
            let request = client.owned(kind, "me", LONG);
            let token = granted(backend, &request).await;
            assert!(token > last || !kind.is_fenced(), "the token goes on");
            last = last.max(token);
            let _ = released(backend, &request).await;
        }
    }
}

pub(super) async fn an_owner_is_found_in_every_kind(backend: &impl Backend) {
    for kind in KINDS {
        let client = Client::new();
        let (mine, nobodys) = (client.owned(kind, "me", LONG), client.request(kind, LONG));
        granted(backend, &mine).await;
        assert!(is_held_by(backend, "me").await, "{kind:?}");
        for other in ["m", "me2", "other", "@me"] {
            assert!(!is_held_by(backend, other).await, "{kind:?} by {other}");
        }
        let _ = released(backend, &mine).await;
        assert!(!is_held_by(backend, "me").await, "{kind:?}");
        if kind != Kind::Reentrant {
            granted(backend, &nobodys).await;
            assert!(!is_held_by(backend, "me").await, "{kind:?}");
            let _ = released(backend, &nobodys).await;
        }
        // A waiter does not hold it until it has an offer.
        let (holder, waiter) = (
            client.owned(if kind == Kind::Read { Kind::Write } else { kind }, "one", LONG),
            Client::new().owned(kind, "two", LONG),
        );
        granted(backend, &holder).await;
        waits(backend, &waiter, LIVE).await;
        assert!(!is_held_by(backend, "two").await, "{kind:?}");
        let _ = released(backend, &holder).await;
        assert!(is_held_by(backend, "two").await, "{kind:?}");
        let _ = released(backend, &waiter).await;
    }
}

pub(super) async fn an_owner_whose_leases_ended_is_not_found(backend: &impl Backend) {
    let client = Client::new();
    for kind in [Kind::Read, Kind::Semaphore { limit: 200, weight: 1 }] {
        let last = client.owned(kind, "live", LONG);
        granted(backend, &last).await;
        for number in 0..100 {
            granted(backend, &client.owned(kind, &format!("dead {number}"), SHORT)).await;
        }
        backend.pass(SHORT).await;
        assert!(!is_held_by(backend, "dead 0").await);
        assert!(!is_held_by(backend, "dead 99").await);
        assert!(is_held_by(backend, "live").await);
        let _ = released(backend, &last).await;
    }
}

pub(super) async fn a_free_lock_shows_no_holders(backend: &impl Backend) {
    let nothing = inspected(backend).await;
    assert!(nothing.kind.is_none() && nothing.holders.is_empty() && nothing.waiters.is_empty());
    let client = Client::new();
    let mutex = client.mutex(LONG);
    granted(backend, &mutex).await;
    let _ = released(backend, &mutex).await;
    let free = inspected(backend).await;
    assert!(free.holders.is_empty() && free.held == 0 && free.waiting == 0, "{free:?}");
    assert!(free.kept.is_none());
}

/// A client that has introduced itself.
async fn introduced(backend: &impl Backend, process: u32) -> (HintRecorder, Client, ClientInfo) {
    let client = Client::new();
    let hints = HintRecorder::new(&**backend.store(), client.id);
    let (service, host) = ("billing".to_owned(), "host-7".to_owned());
    let info = ClientInfo::new(client.id, service, host, process);
    backend.store().introduce(&info, LONG).await.expect("the store answers");
    (hints, client, info)
}

pub(super) async fn a_mutex_is_shown(backend: &impl Backend) {
    let (_hearing, client, info) = introduced(backend, 7).await;
    let mutex = client.owned(Kind::Mutex, "me@here", LONG);
    let token = granted(backend, &mutex).await;
    backend.pass(SHORT).await;
    let shown = inspected(backend).await;
    assert_eq!((shown.kind, shown.held), (Some(LockKind::Mutex), 1));
    let [holder] = &shown.holders[..] else { panic!("{shown:?}") };
    assert_eq!(holder.client.as_ref(), Some(&info));
    assert_eq!(holder.owner.as_deref(), Some("me@here"));
    assert_eq!(holder.fence.map(u64::from), Some(token));
    assert!((LONG / 2..LONG).contains(&holder.remaining), "{holder:?}");
    assert!(holder.held_for.is_some_and(|time| (SHORT..LONG).contains(&time)), "{holder:?}");
    assert_eq!((holder.weight, holder.is_writer), (1, false));
}

pub(super) async fn a_kept_mutex_is_shown(backend: &impl Backend) {
    let client = Client::new();
    let mutex = client.mutex(LONG);
    granted(backend, &mutex).await;
    assert_eq!(backend.store().release(&mutex, LONG).await.unwrap(), Ended::Kept);
    let shown = inspected(backend).await;
    assert_eq!((shown.kind, shown.held), (Some(LockKind::Mutex), 0));
    assert!(shown.kept.is_some_and(|rest| rest > LONG / 2 && rest <= LONG), "{shown:?}");
}

pub(super) async fn permits_are_shown(backend: &impl Backend) {
    let client = Client::new();
    let permit = |weight, ttl| client.request(Kind::Semaphore { limit: 10, weight }, ttl);
    let dead = permit(1, SHORT);
    for permit in [&permit(3, LONG), &permit(1, LONG * 2), &dead] {
        granted(backend, permit).await;
    }
    backend.pass(SHORT).await;
    let shown = inspected(backend).await;
    assert_eq!((shown.kind, shown.held), (Some(LockKind::Semaphore), 2));
    let weights: Vec<_> = shown.holders.iter().map(|holder| holder.weight).collect();
    assert_eq!(weights, [3, 1], "by when they end");
    for holder in &shown.holders {
        assert!(holder.fence.is_none() && holder.held_for.is_none() && holder.client.is_none());
    }
    assert!(shown.holders[1].remaining > LONG, "{shown:?}");
}

pub(super) async fn readers_and_a_writer_are_shown(backend: &impl Backend) {
    let client = Client::new();
    let (reader, writer) =
        (client.owned(Kind::Read, "me", LONG), client.owned(Kind::Write, "me", LONG * 2));
    granted(backend, &reader).await;
    let token = granted(backend, &writer).await;
    let shown = inspected(backend).await;
    assert_eq!((shown.kind, shown.held), (Some(LockKind::RwLock), 2));
    let [read, write] = &shown.holders[..] else { panic!("{shown:?}") };
    assert_eq!((read.is_writer, read.fence), (false, None));
    assert_eq!((write.is_writer, write.fence.map(u64::from)), (true, Some(token)));
    assert!(write.held_for.is_some() && read.held_for.is_none());
    assert!(shown.holders.iter().all(|holder| holder.owner.as_deref() == Some("me")));
}

pub(super) async fn holds_are_shown(backend: &impl Backend) {
    let client = Client::new();
    let holds = [(); 2].map(|()| client.owned(Kind::Reentrant, "me", LONG));
    let token = granted(backend, &holds[0]).await;
    granted(backend, &holds[1]).await;
    let shown = inspected(backend).await;
    assert_eq!((shown.kind, shown.held), (Some(LockKind::ReentrantMutex), 2));
    for holder in &shown.holders {
        assert_eq!(holder.owner.as_deref(), Some("me"));
        assert_eq!(holder.fence.map(u64::from), Some(token));
    }
}

pub(super) async fn waiters_are_shown_in_order(backend: &impl Backend) {
    let (_hearing, client, info) = introduced(backend, 9).await;
    let kind = Kind::Semaphore { limit: 4, weight: 4 };
    granted(backend, &Client::new().request(kind, LONG)).await;
    let first = client.owned(Kind::Semaphore { limit: 4, weight: 2 }, "one", LONG);
    let second = Client::new().request(Kind::Semaphore { limit: 12, weight: 1 }, LONG);
    waits(backend, &first, LIVE).await;
    backend.pass(SHORT).await;
    // It queues behind the first, whatever its limit is.
    waits(backend, &second, LIVE).await;
    let shown = inspected(backend).await;
    assert_eq!(shown.waiting, 2);
    let [one, two] = &shown.waiters[..] else { panic!("{shown:?}") };
    assert_eq!((one.client.as_ref(), one.owner.as_deref()), (Some(&info), Some("one")));
    assert_eq!((one.weight, two.weight), (2, 1));
    assert!(two.client.is_none() && two.owner.is_none());
    assert!(one.waiting_for >= SHORT && two.waiting_for < one.waiting_for, "{shown:?}");
}

pub(super) async fn the_list_of_holders_is_bounded(backend: &impl Backend) {
    let client = Client::new();
    for _ in 0..70 {
        granted(backend, &client.request(Kind::Read, LONG)).await;
    }
    for _ in 0..70 {
        waits(backend, &client.request(Kind::Write, LONG), LIVE).await;
    }
    let shown = inspected(backend).await;
    assert_eq!((shown.held, shown.waiting), (70, 70));
    assert_eq!((shown.holders.len(), shown.waiters.len()), (64, 64));
    assert!(shown.waiters.iter().all(|waiter| waiter.is_writer));
}

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
async fn waits_for_what_is_forced(backend: &impl Backend, kind: Kind) -> Request {
    let (one, first) = (Client::new(), Client::new());
    let holder = one.owned(if kind == Kind::Read { Kind::Write } else { kind }, "me", LONG);
    granted(backend, &holder).await;
    let waiter = first.owned(kind, "first", LONG);
    waits(backend, &waiter, LIVE).await;
    waiter
}

pub(super) async fn a_release_after_a_force_lets_the_next_one_in(backend: &impl Backend) {
    for kind in KINDS {
        let first = waits_for_what_is_forced(backend, kind).await;
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
        let waiter = waits_for_what_is_forced(backend, kind).await;
        let _ = forced(backend).await;
        assert!(!cancelled(backend, &waiter).await);
        let next = Client::new().owned(if is_same(kind, other) { kind } else { other }, "me", LONG);
        granted(backend, &next).await;
        let _ = released(backend, &next).await;
    }
}
