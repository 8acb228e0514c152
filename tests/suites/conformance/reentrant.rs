//! The reentrant mutex, command by command.

use std::time::Duration;

use leasehold::LossReason::{Expired, Taken};
use leasehold::store::{Attempt, Ended, Kind, QueuePosition, Renewal, Request};
use leasehold_tests::backend::Backend;

use super::{
    Client, FIRST, LIVE, LONG, SHORT, ask, busy, cancelled, claims, granted, queued, released,
    renewed, waits,
};

macro_rules! cases {
    ($case:path) => {
        $case! {
            reentrant:
            a_lock_is_free_when_its_last_hold_is_released,
            another_owner_waits_for_the_last_hold,
            an_owner_in_two_processes_is_one_owner,
            all_holds_have_the_same_token_and_the_next_owner_a_greater_one,
            a_stranger_learns_that_another_owner_holds_it,
            an_ended_hold_is_no_re_entry,
            an_owner_re_enters_past_the_waiters,
            a_release_hands_over_to_all_holds_of_the_next_owner,
            an_offer_to_an_owner_ends_with_the_heartbeat,
            a_waiter_whose_owner_was_granted_the_lock_is_let_in,
            a_waiter_that_re_enters_leaves_the_queue,
        }
    };
}
pub(super) use cases;

fn hold(client: &Client, owner: &str, ttl: Duration) -> Request {
    client.owned(Kind::Reentrant, owner, ttl)
}

/// Three holds of an owner.
async fn three(backend: &dyn Backend, client: &Client) -> [Request; 3] {
    let holds = [(); 3].map(|()| hold(client, "me", LONG));
    for hold in &holds {
        granted(backend, hold).await;
    }
    holds
}

pub(crate) async fn a_lock_is_free_when_its_last_hold_is_released(backend: &dyn Backend) {
    let client = Client::new();
    let [first, second, third] = three(backend, &client).await;
    let other = hold(&client, "other", LONG);
    for _ in 0..3 {
        assert_eq!(released(backend, &second).await, Ended::StillHeld(2));
    }
    busy(backend, &other).await;
    assert_eq!(released(backend, &first).await, Ended::StillHeld(1));
    busy(backend, &other).await;
    assert_eq!(released(backend, &third).await, Ended::Released);
    granted(backend, &other).await;
}

pub(super) async fn another_owner_waits_for_the_last_hold(backend: &dyn Backend) {
    let client = Client::new();
    let [first, second, third] = three(backend, &client).await;
    let other = hold(&Client::new(), "other", LONG);
    waits(backend, &other, LIVE).await;
    for (mine, left) in [(first, 2), (third, 1)] {
        assert_eq!(released(backend, &mine).await, Ended::StillHeld(left));
        assert_eq!(renewed(backend, &other).await, Renewal::NotHeld(Taken));
    }
    let _ = released(backend, &second).await;
    claims(backend, &other).await;
}

pub(super) async fn an_owner_in_two_processes_is_one_owner(backend: &dyn Backend) {
    let (here, there) = (Client::new(), Client::new());
    let (mine, his) = (hold(&here, "me", LONG), hold(&there, "me", LONG));
    assert_eq!(granted(backend, &mine).await, granted(backend, &his).await);
    assert_eq!(released(backend, &mine).await, Ended::StillHeld(1));
    busy(backend, &hold(&here, "other", LONG)).await;
    assert_eq!(released(backend, &his).await, Ended::Released);
}

pub(super) async fn all_holds_have_the_same_token_and_the_next_owner_a_greater_one(
    backend: &dyn Backend,
) {
    let client = Client::new();
    let mut last = 0;
    for owner in ["one", "other", "one"] {
        let holds = [(); 3].map(|()| hold(&client, owner, LONG));
        let token = granted(backend, &holds[0]).await;
        assert!(token > last);
        last = token;
        assert_eq!(released(backend, &holds[0]).await, Ended::Released);
        // This is a new grant, although to the same owner: another may have held the lock.
        let token = granted(backend, &holds[1]).await;
        assert!(token > last);
        last = token;
        assert_eq!(granted(backend, &holds[2]).await, token);
        assert_eq!(granted(backend, &holds[1]).await, token, "asked for twice");
        for hold in &holds[1..] {
            let _ = released(backend, hold).await;
        }
    }
}

pub(crate) async fn a_stranger_learns_that_another_owner_holds_it(backend: &dyn Backend) {
    let client = Client::new();
    let late = hold(&client, "late", SHORT);
    granted(backend, &late).await;
    backend.pass(SHORT).await;
    assert_eq!(renewed(backend, &late).await, Renewal::NotHeld(Expired));
    let mine = hold(&client, "me", LONG);
    granted(backend, &mine).await;
    assert_eq!(renewed(backend, &late).await, Renewal::NotHeld(Taken));
    assert_eq!(released(backend, &late).await, Ended::NotHeld(Taken));
    assert_eq!(renewed(backend, &mine).await, Renewal::Renewed);
}

pub(super) async fn an_ended_hold_is_no_re_entry(backend: &dyn Backend) {
    let client = Client::new();
    granted(backend, &hold(&client, "me", SHORT)).await;
    let other = hold(&Client::new(), "other", LONG);
    waits(backend, &other, LIVE).await;
    backend.pass(SHORT).await;
    busy(backend, &hold(&client, "me", LONG)).await;
    claims(backend, &other).await;
}

pub(super) async fn an_owner_re_enters_past_the_waiters(backend: &dyn Backend) {
    let client = Client::new();
    let (first, second, third) =
        (hold(&client, "me", LONG), hold(&client, "me", LONG), hold(&Client::new(), "me", LONG));
    let token = granted(backend, &first).await;
    let other = hold(&Client::new(), "other", LONG);
    waits(backend, &other, LIVE).await;
    assert_eq!(granted(backend, &second).await, token, "by a try");
    assert_eq!(ask(backend, &third, LIVE, FIRST).await, Attempt::Granted { token });
    for mine in [first, second, third] {
        let _ = released(backend, &mine).await;
    }
    claims(backend, &other).await;
}

pub(super) async fn a_release_hands_over_to_all_holds_of_the_next_owner(backend: &dyn Backend) {
    let clients = [(); 5].map(|()| Client::new());
    let mine = hold(&clients[0], "me", LONG);
    let token = granted(backend, &mine).await;
    let queue = ["a", "a", "b", "a"];
    let queue: Vec<_> =
        queue.iter().zip(&clients[1..]).map(|(owner, client)| hold(client, owner, LONG)).collect();
    for waiter in &queue {
        waits(backend, waiter, LIVE).await;
    }
    let _ = released(backend, &mine).await;
    for first in &queue[..2] {
        claims(backend, first).await;
    }
    for later in &queue[2..3] {
        assert_eq!(renewed(backend, later).await, Renewal::NotHeld(Taken));
    }
    let next = granted(backend, &queue[0]).await;
    assert!(next > token);
    assert_eq!(granted(backend, &queue[1]).await, next);
    for first in &queue[..2] {
        let _ = released(backend, first).await;
    }
    claims(backend, &queue[2]).await;
    assert!(granted(backend, &queue[2]).await > next);
}

pub(super) async fn an_offer_to_an_owner_ends_with_the_heartbeat(backend: &dyn Backend) {
    let client = Client::new();
    let mine = hold(&client, "me", LONG);
    granted(backend, &mine).await;
    let (dead, next) = (hold(&Client::new(), "dead", LONG), hold(&Client::new(), "next", LONG));
    waits(backend, &dead, SHORT).await;
    let (position, ..) = queued(backend, &next, LIVE, FIRST).await;
    let _ = released(backend, &mine).await;
    backend.pass(SHORT).await;
    let answer = ask(backend, &next, LIVE, QueuePosition::Assigned(position)).await;
    assert!(matches!(answer, Attempt::Granted { .. }), "{answer:?}");
    assert_eq!(renewed(backend, &dead).await, Renewal::NotHeld(Taken));
}

pub(super) async fn a_waiter_whose_owner_was_granted_the_lock_is_let_in(backend: &dyn Backend) {
    let (first, other, late) = (Client::new(), Client::new(), Client::new());
    let (held, offered) = (hold(&first, "one", LONG), hold(&other, "me", LONG));
    granted(backend, &held).await;
    waits(backend, &offered, LIVE).await;
    let between = hold(&Client::new(), "two", LONG);
    waits(backend, &between, LIVE).await;
    let mine = hold(&late, "me", LONG);
    let (position, ..) = queued(backend, &mine, LIVE, FIRST).await;
    let _ = released(backend, &held).await;
    claims(backend, &offered).await;
    let answer = ask(backend, &mine, LIVE, QueuePosition::Assigned(position)).await;
    assert!(matches!(answer, Attempt::Granted { .. }), "{answer:?}");
    assert_eq!(released(backend, &offered).await, Ended::StillHeld(1));
    assert_eq!(released(backend, &mine).await, Ended::Released);
    claims(backend, &between).await;
}

pub(super) async fn a_waiter_that_re_enters_leaves_the_queue(backend: &dyn Backend) {
    let holder = hold(&Client::new(), "one", LONG);
    granted(backend, &holder).await;
    let (offered, mine) = (hold(&Client::new(), "me", LONG), hold(&Client::new(), "me", LONG));
    let between = hold(&Client::new(), "two", LONG);
    waits(backend, &offered, LIVE).await;
    waits(backend, &between, LIVE).await;
    let (position, ..) = queued(backend, &mine, SHORT, FIRST).await;
    let _ = released(backend, &holder).await;
    claims(backend, &offered).await;
    let answer = ask(backend, &mine, SHORT, QueuePosition::Assigned(position)).await;
    assert!(matches!(answer, Attempt::Granted { .. }), "{answer:?}");
    // If it were still in the queue, this would serve it, and make its lease an offer.
    assert!(!cancelled(backend, &between).await);
    let _ = released(backend, &offered).await;
    backend.pass(SHORT).await;
    busy(backend, &hold(&Client::new(), "three", LONG)).await;
    assert_eq!(renewed(backend, &mine).await, Renewal::Renewed);
    assert_eq!(released(backend, &mine).await, Ended::Released);
    granted(backend, &hold(&Client::new(), "three", LONG)).await;
}
