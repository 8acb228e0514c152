//! Notes: what a request says of itself, for people. They decide nothing.

use leasehold::store::{
    Adoption, Ask, Attempt, Kind, LockInfo, Note, QueuePosition, Renewal, Request,
};
use leasehold_tests::backend::Backend;

use super::operator::{KINDS, inspected, is_held_by};
use super::{
    Client, FIRST, LIVE, LONG, acquire, ask, cancelled, granted, queued, released, renewed,
};

macro_rules! cases {
    ($case:path) => {
        $case! {
            notes:
            holders_and_waiters_show_their_notes,
            a_note_comes_along_with_an_offer,
            a_note_hides_no_owner_and_makes_none,
            holds_of_an_owner_are_counted_whatever_their_notes,
            a_note_stays_with_an_adopted_lease,
        }
    };
}
pub(super) use cases;

/// It looks like the owner `me` of a heavy permit, and like a mark.
const TEXT: &str = "why? @me :2 ~!";

fn noted(request: Request) -> Request {
    Request { note: Note::new(TEXT), ..request }
}

fn notes(info: &LockInfo) -> [Vec<Option<&str>>; 2] {
    [
        info.holders.iter().map(|holder| holder.note.as_deref()).collect(),
        info.waiters.iter().map(|waiter| waiter.note.as_deref()).collect(),
    ]
}

pub(super) async fn holders_and_waiters_show_their_notes(backend: &dyn Backend) {
    for kind in KINDS {
        let (client, other) = (Client::new(), Client::new());
        let holder = noted(client.owned(kind, "holder", LONG));
        granted(backend, &holder).await;
        let second = if kind == Kind::Read { Kind::Write } else { kind };
        let waiter = noted(other.owned(second, "waiter", LONG));
        queued(backend, &waiter, LIVE, FIRST).await;
        let info = inspected(backend).await;
        assert_eq!(notes(&info), [[Some(TEXT)], [Some(TEXT)]], "{kind:?}");
        assert_eq!(info.holders[0].owner.as_deref(), Some("holder"), "{kind:?}");
        assert_eq!(info.waiters[0].owner.as_deref(), Some("waiter"), "{kind:?}");
        assert_eq!(info.holders[0].weight, holder_weight(kind), "{kind:?}");
        let _ = released(backend, &holder).await;
        cancelled(backend, &waiter).await;
    }
}

fn holder_weight(kind: Kind) -> u32 {
    if let Kind::Semaphore { weight, .. } = kind { weight } else { 1 }
}

pub(super) async fn a_note_comes_along_with_an_offer(backend: &dyn Backend) {
    for (kind, owner) in KINDS.into_iter().flat_map(|kind| [(kind, true), (kind, false)]) {
        if !owner && kind == Kind::Reentrant {
            continue;
        }
        let (client, other) = (Client::new(), Client::new());
        let holds = if kind == Kind::Read { Kind::Write } else { kind };
        let holder = client.owned(holds, "holder", LONG);
        granted(backend, &holder).await;
        let waiter = other.request(kind, LONG);
        let waiter = noted(if owner { other.owned(kind, "me", LONG) } else { waiter });
        let (position, ..) = queued(backend, &waiter, LIVE, FIRST).await;
        let _ = released(backend, &holder).await;
        let info = inspected(backend).await;
        assert_eq!(notes(&info), [vec![Some(TEXT)], vec![]], "{kind:?} {owner}");
        assert_eq!(renewed(backend, &waiter).await, Renewal::Renewed, "{kind:?} {owner}");
        // A late copy of its ask finds it.
        ask(backend, &waiter, LIVE, QueuePosition::Assigned(position)).await;
        let info = inspected(backend).await;
        assert_eq!((info.held, info.waiting), (1, 0), "{kind:?} {owner}");
        assert_eq!(notes(&info), [vec![Some(TEXT)], vec![]], "{kind:?} {owner}");
        assert_eq!(info.holders[0].owner.as_deref(), owner.then_some("me"), "{kind:?}");
        let _ = released(backend, &waiter).await;
        assert_eq!(inspected(backend).await.held, 0, "{kind:?} {owner}");
    }
}

pub(super) async fn a_note_hides_no_owner_and_makes_none(backend: &dyn Backend) {
    for kind in KINDS {
        let client = Client::new();
        let mine = noted(client.owned(kind, "you", LONG));
        granted(backend, &mine).await;
        assert!(is_held_by(backend, "you").await, "{kind:?}");
        assert!(!is_held_by(backend, "me").await, "{kind:?}");
        let _ = released(backend, &mine).await;
        if kind == Kind::Reentrant {
            continue;
        }
        let nobodys = noted(client.request(kind, LONG));
        granted(backend, &nobodys).await;
        assert!(!is_held_by(backend, "me").await, "{kind:?}");
        assert_eq!(inspected(backend).await.holders[0].owner, None, "{kind:?}");
        let _ = released(backend, &nobodys).await;
        assert_eq!(inspected(backend).await.held, 0, "{kind:?}");
    }
}

pub(super) async fn holds_of_an_owner_are_counted_whatever_their_notes(backend: &dyn Backend) {
    let client = Client::new();
    let first = client.owned(Kind::Reentrant, "me", LONG);
    let second = noted(client.owned(Kind::Reentrant, "me", LONG));
    granted(backend, &first).await;
    granted(backend, &second).await;
    assert_eq!(inspected(backend).await.held, 2);
    let _ = released(backend, &second).await;
    assert!(is_held_by(backend, "me").await);
    let other = noted(client.owned(Kind::Reentrant, "other", LONG));
    assert!(!matches!(acquire(backend, &other).await, Attempt::Granted { .. }));
    let _ = released(backend, &first).await;
    assert!(!is_held_by(backend, "me").await);
    // A writer of the same owner gets in beside its reader, whatever the notes.
    let read = noted(client.owned(Kind::Read, "me", LONG));
    let write = client.owned(Kind::Write, "me", LONG);
    granted(backend, &read).await;
    granted(backend, &write).await;
    let _ = released(backend, &write).await;
    let _ = released(backend, &read).await;
}

pub(super) async fn a_note_stays_with_an_adopted_lease(backend: &dyn Backend) {
    for kind in KINDS {
        let (client, other) = (Client::new(), Client::new());
        let before = noted(client.owned(kind, "me", LONG));
        granted(backend, &before).await;
        let after = noted(other.owned(kind, "me", LONG));
        let adopted = backend.store().adopt(before.id.into(), &after).await.unwrap();
        assert!(matches!(adopted, Adoption::Adopted { .. }), "{adopted:?}");
        let info = inspected(backend).await;
        assert_eq!(info.held, 1, "{kind:?}");
        assert_eq!(notes(&info), [vec![Some(TEXT)], vec![]], "{kind:?}");
        let _ = released(backend, &after).await;
        assert_eq!(inspected(backend).await.held, 0, "{kind:?}");
    }
}
