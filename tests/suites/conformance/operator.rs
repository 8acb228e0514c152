//! An operator's questions, for all kinds of locks: the kind of a name, and its holders.

use leasehold::LockKey;

use leasehold::store::QueuePosition;
use leasehold::store::{
    Ask, Attempt, ClientInfo, Ended, Forced, Kind, LockInfo, LockKind, Owner, Renewal, Request,
};
use leasehold_tests::backend::Backend;
use leasehold_tests::hints::HintRecorder;

use super::{
    Client, FIRST, LIVE, LONG, SHORT, acquire, ask, cancelled, granted, queued, released, renewed,
    waits,
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
            permits_and_readers_show_since_when,
            the_list_of_holders_is_bounded,
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

pub(super) fn key() -> LockKey {
    LockKey::new("a").expect("a name")
}

pub(super) async fn inspected(backend: &dyn Backend) -> LockInfo {
    backend.store().inspect(&key()).await.expect("the store answers")
}

pub(super) async fn forced(backend: &dyn Backend) -> Forced {
    backend
        .store()
        .force_release(&key(), leasehold_tests::requests::force())
        .await
        .expect("the store answers")
}

pub(super) async fn was_forced(backend: &dyn Backend, request: &Request) -> bool {
    backend.store().was_forced(request).await.expect("the store answers")
}

pub(super) async fn is_held_by(backend: &dyn Backend, owner: &str) -> bool {
    let owner = Owner::new(owner).expect("a name");
    backend.store().is_held_by(&key(), &owner).await.expect("the store answers")
}

pub(super) async fn a_name_is_one_kind_of_lock(backend: &dyn Backend) {
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

pub(super) async fn a_name_with_waiters_is_one_kind_of_lock(backend: &dyn Backend) {
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

pub(super) async fn a_free_name_may_change_its_kind(backend: &dyn Backend) {
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

pub(super) async fn an_owner_is_found_in_every_kind(backend: &dyn Backend) {
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

pub(super) async fn an_owner_whose_leases_ended_is_not_found(backend: &dyn Backend) {
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

pub(super) async fn a_free_lock_shows_no_holders(backend: &dyn Backend) {
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
async fn introduced(backend: &dyn Backend, process: u32) -> (HintRecorder, Client, ClientInfo) {
    let client = Client::new();
    let hints = HintRecorder::new(&**backend.store(), client.id);
    let (service, host) = ("billing".to_owned(), "host-7".to_owned());
    let info = ClientInfo::new(client.id, service, host, process);
    backend.store().introduce(&info, LONG).await.expect("the store answers");
    (hints, client, info)
}

pub(super) async fn a_mutex_is_shown(backend: &dyn Backend) {
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

pub(super) async fn a_kept_mutex_is_shown(backend: &dyn Backend) {
    let client = Client::new();
    let mutex = client.mutex(LONG);
    granted(backend, &mutex).await;
    assert_eq!(backend.store().release(&mutex, LONG).await.unwrap(), Ended::Kept);
    let shown = inspected(backend).await;
    assert_eq!((shown.kind, shown.held), (Some(LockKind::Mutex), 0));
    assert!(shown.kept.is_some_and(|rest| rest > LONG / 2 && rest <= LONG), "{shown:?}");
}

pub(super) async fn permits_are_shown(backend: &dyn Backend) {
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
        assert!(holder.fence.is_none() && holder.client.is_none());
        assert!(holder.held_for.is_some_and(|time| (SHORT..LONG).contains(&time)), "{holder:?}");
    }
    assert!(shown.holders[1].remaining > LONG, "{shown:?}");
}

pub(super) async fn readers_and_a_writer_are_shown(backend: &dyn Backend) {
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
    assert!(write.held_for.is_some() && read.held_for.is_some());
    assert!(shown.holders.iter().all(|holder| holder.owner.as_deref() == Some("me")));
}

pub(super) async fn holds_are_shown(backend: &dyn Backend) {
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

pub(super) async fn waiters_are_shown_in_order(backend: &dyn Backend) {
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
    assert_eq!((one.limit, two.limit), (Some(4), Some(12)));
    assert_eq!((one.weight, two.weight), (2, 1));
    assert!(two.client.is_none() && two.owner.is_none());
    assert!(one.waiting_for >= SHORT && two.waiting_for < one.waiting_for, "{shown:?}");
}

pub(super) async fn the_list_of_holders_is_bounded(backend: &dyn Backend) {
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

pub(super) async fn permits_and_readers_show_since_when(backend: &dyn Backend) {
    for kind in [Kind::Semaphore { limit: 3, weight: 1 }, Kind::Read] {
        let (client, other) = (Client::new(), Client::new());
        let (early, late) = (client.request(kind, LONG), other.request(kind, LONG * 2));
        granted(backend, &early).await;
        backend.pass(SHORT).await;
        // Neither a renewal nor a late copy begins it anew.
        assert_eq!(renewed(backend, &early).await, Renewal::Renewed);
        granted(backend, &early).await;
        granted(backend, &late).await;
        let since = |info: LockInfo| -> Vec<_> {
            let holders = info.holders.into_iter();
            holders.map(|holder| holder.held_for.expect("it is known")).collect()
        };
        let both = since(inspected(backend).await);
        assert!(both[0] >= both[1] + SHORT, "{kind:?}: {both:?}");
        let _ = released(backend, &early).await;
        backend.pass(SHORT).await;
        let left = since(inspected(backend).await);
        assert!(left.len() == 1 && left[0] >= both[1] + SHORT, "{kind:?}: {left:?}");
        // Who comes back begins anew.
        let again = client.request(kind, LONG);
        granted(backend, &again).await;
        let both = since(inspected(backend).await);
        assert!(both[1] >= both[0] + SHORT, "{kind:?}: {both:?}");
        for request in [&late, &again] {
            let _ = released(backend, request).await;
        }
        assert_eq!(inspected(backend).await.held, 0, "{kind:?}");
    }
}
