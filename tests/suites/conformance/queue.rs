//! The queue, command by command.

use std::time::Duration;

use leasehold::LossReason::{Expired, Taken};
use leasehold::store::{Ask, Attempt, Ended, Hint, Kind, OFFER, QueuePosition, Renewal};
use leasehold_tests::backend::{Backend, Memory};
use leasehold_tests::hints::HintRecorder;

use super::{
    Client, FIRST, LIVE, LONG, PERMIT, SHORT, ask, busy, cancelled, claims, granted,
    granted_in_the_end, granted_when_asking, held, held_with_queue, queued, released, renewed,
    waits,
};

macro_rules! cases {
    ($case:path) => {
        $case! {
            queue:
            a_release_hands_over_to_the_first,
            a_try_does_not_overtake_waiters,
            an_offer_ends_with_the_waiters_heartbeat,
            the_first_renewal_makes_an_offer_last_its_ttl,
            asking_again_makes_an_offer_last_its_ttl,
            an_ended_offer_is_not_renewed,
            a_dead_head_is_passed_over,
            many_dead_are_passed_over,
            many_dead_do_not_delay_a_live_waiter,
            a_heartbeat_that_is_too_long_is_ignored,
            a_returning_waiter_gets_its_place_back_by_its_position,
            a_waiter_without_a_position_gets_its_place_back_by_its_age,
            asking_again_keeps_the_place,
            a_cancelled_waiter_is_not_served,
            a_cancelled_offer_is_handed_on,
            a_released_offer_is_handed_on,
            a_released_waiter_leaves_the_queue,
            after_an_expiry_anyone_serves_the_first,
            after_an_expiry_the_first_is_granted,
            waiters_wait_for_a_kept_lock,
            offers_have_growing_tokens,
            every_waiter_is_told_when_to_ask_again,
            the_first_asks_again_when_the_lock_is_free,
            each_ask_extends_the_heartbeat,
            an_ended_request_does_not_wait_again,
            every_command_may_be_sent_twice,
        }
    };
}
pub(super) use cases;

pub(super) async fn a_release_hands_over_to_the_first(backend: &dyn Backend) {
    let (client, holder, [first, second]) = held_with_queue(backend, Kind::Mutex).await;
    assert_eq!(released(backend, &holder).await, Ended::Released);
    assert_eq!(renewed(backend, &second).await, Renewal::NotHeld(Taken));
    claims(backend, &first).await;
    assert_eq!(released(backend, &first).await, Ended::Released);
    claims(backend, &second).await;
    assert_eq!(released(backend, &second).await, Ended::Released);
    granted(backend, &client.mutex(LONG)).await;
}

pub(super) async fn a_try_does_not_overtake_waiters(backend: &dyn Backend) {
    let (client, holder, [waiter]) = held_with_queue(backend, Kind::Mutex).await;
    let _ = released(backend, &holder).await;
    busy(backend, &client.mutex(LONG)).await;
    let permits = Client::new();
    claims(backend, &waiter).await;
    let _ = released(backend, &waiter).await;
    // It is refused even though it would fit.
    granted(backend, &permits.weighted(2, 1)).await;
    waits(backend, &permits.weighted(2, 2), LIVE).await;
    busy(backend, &permits.weighted(2, 1)).await;
}

pub(super) async fn an_offer_ends_with_the_waiters_heartbeat(backend: &dyn Backend) {
    let (client, holder, [waiter]) = held(backend, Kind::Mutex).await;
    waits(backend, &waiter, SHORT * 2).await;
    let _ = released(backend, &holder).await;
    let late = client.mutex(LONG);
    let left = busy(backend, &late).await;
    assert!(left <= SHORT * 2, "{left:?}");
    backend.pass(SHORT * 2).await;
    granted(backend, &late).await;
}

pub(super) async fn the_first_renewal_makes_an_offer_last_its_ttl(backend: &dyn Backend) {
    let (client, holder, [waiter]) = held(backend, Kind::Mutex).await;
    waits(backend, &waiter, SHORT * 2).await;
    let _ = released(backend, &holder).await;
    claims(backend, &waiter).await;
    backend.pass(SHORT * 2).await;
    let left = busy(backend, &client.mutex(LONG)).await;
    assert!(left > LONG / 2, "{left:?}");
}

pub(super) async fn asking_again_makes_an_offer_last_its_ttl(backend: &dyn Backend) {
    let (client, holder, [waiter]) = held(backend, Kind::Mutex).await;
    let position = waits(backend, &waiter, LIVE).await;
    let _ = released(backend, &holder).await;
    granted_when_asking(backend, &waiter, position).await;
    assert!(busy(backend, &client.mutex(LONG)).await > LIVE);
}

pub(super) async fn an_ended_offer_is_not_renewed(backend: &dyn Backend) {
    let (_, holder, [waiter]) = held(backend, Kind::Mutex).await;
    waits(backend, &waiter, SHORT * 2).await;
    let _ = released(backend, &holder).await;
    backend.pass(SHORT * 2).await;
    assert_eq!(renewed(backend, &waiter).await, Renewal::NotHeld(Expired));
    assert_eq!(released(backend, &waiter).await, Ended::NotHeld(Expired));
}

pub(super) async fn a_dead_head_is_passed_over(backend: &dyn Backend) {
    let (_, holder, [dead, alive]) = held(backend, Kind::Mutex).await;
    waits(backend, &dead, SHORT).await;
    waits(backend, &alive, LIVE).await;
    backend.pass(SHORT).await;
    let _ = released(backend, &holder).await;
    assert_eq!(renewed(backend, &dead).await, Renewal::NotHeld(Taken));
    claims(backend, &alive).await;
}

pub(super) async fn many_dead_are_passed_over(backend: &dyn Backend) {
    for kind in [Kind::Mutex, PERMIT] {
        let (client, holder, []) = held(backend, kind).await;
        for _ in 0..200 {
            waits(backend, &client.request(kind, LONG), SHORT).await;
        }
        backend.pass(SHORT).await;
        let _ = released(backend, &holder).await;
        let late = client.request(kind, LONG);
        granted_in_the_end(backend, &late).await;
        let _ = released(backend, &late).await;
    }
}

/// The live waiter is told to ask again at once, not at its next heartbeat.
pub(super) async fn many_dead_do_not_delay_a_live_waiter(backend: &dyn Backend) {
    for kind in [Kind::Mutex, PERMIT] {
        let client = Client::new();
        let holder = client.request(kind, LONG);
        granted(backend, &holder).await;
        for _ in 0..300 {
            waits(backend, &client.request(kind, LONG), SHORT * 2).await;
        }
        let _ = released(backend, &holder).await;
        backend.pass(SHORT * 2).await;
        let late = client.request(kind, LONG);
        let mut asked = 1;
        while let Attempt::Busy { retry_after, .. } = ask(backend, &late, LIVE, FIRST).await {
            assert_eq!(retry_after, Duration::ZERO);
            asked += 1;
        }
        assert!(asked <= 6, "{asked}");
        assert_eq!(renewed(backend, &late).await, Renewal::Renewed);
        let _ = released(backend, &late).await;
    }
}

pub(super) async fn a_heartbeat_that_is_too_long_is_ignored(backend: &dyn Backend) {
    let (client, holder, [waiter]) = held(backend, Kind::Mutex).await;
    waits(backend, &waiter, LONG).await;
    let _ = released(backend, &holder).await;
    granted(backend, &client.mutex(LONG)).await;
}

pub(super) async fn a_returning_waiter_gets_its_place_back_by_its_position(backend: &dyn Backend) {
    let (_, holder, [late, second, third]) = held(backend, Kind::Mutex).await;
    let position = waits(backend, &late, SHORT).await;
    waits(backend, &second, LIVE).await;
    waits(backend, &third, LIVE).await;
    backend.pass(SHORT).await;
    let _ = released(backend, &holder).await;
    claims(backend, &second).await;
    let (told, ..) = queued(backend, &late, LIVE, QueuePosition::Assigned(position)).await;
    assert_eq!(told, position);
    let _ = released(backend, &second).await;
    claims(backend, &late).await;
}

pub(super) async fn a_waiter_without_a_position_gets_its_place_back_by_its_age(
    backend: &dyn Backend,
) {
    let (_, holder, [late, second, third]) = held(backend, Kind::Mutex).await;
    let begun = backend.store().now();
    waits(backend, &late, SHORT).await;
    backend.pass(SHORT).await;
    waits(backend, &second, LIVE).await;
    waits(backend, &third, LIVE).await;
    let _ = released(backend, &holder).await;
    let age = backend.store().now() - begun;
    queued(backend, &late, LIVE, QueuePosition::New { age }).await;
    let _ = released(backend, &second).await;
    claims(backend, &late).await;
}

pub(super) async fn asking_again_keeps_the_place(backend: &dyn Backend) {
    let (_, holder, [first, second]) = held(backend, Kind::Mutex).await;
    let position = waits(backend, &first, LIVE).await;
    assert!(waits(backend, &second, LIVE).await > position);
    for again in [QueuePosition::Assigned(position), FIRST, QueuePosition::New { age: LIVE }] {
        assert_eq!(queued(backend, &first, LIVE, again).await.0, position);
    }
    let _ = released(backend, &holder).await;
    claims(backend, &first).await;
}

pub(super) async fn a_cancelled_waiter_is_not_served(backend: &dyn Backend) {
    let (client, holder, [first, second]) = held_with_queue(backend, Kind::Mutex).await;
    assert!(!cancelled(backend, &first).await);
    assert_eq!(renewed(backend, &holder).await, Renewal::Renewed);
    let _ = released(backend, &holder).await;
    claims(backend, &second).await;
    assert!(cancelled(backend, &second).await);
    granted(backend, &client.permit(1, LONG)).await;
}

pub(super) async fn a_cancelled_offer_is_handed_on(backend: &dyn Backend) {
    let (_, holder, [first, second]) = held_with_queue(backend, Kind::Mutex).await;
    let _ = released(backend, &holder).await;
    assert!(cancelled(backend, &first).await);
    claims(backend, &second).await;
    assert_eq!(ask(backend, &first, LIVE, FIRST).await, Attempt::Ended);
}

/// A late copy of an ask queues a request again that its holder has released.
pub(super) async fn a_released_waiter_leaves_the_queue(backend: &dyn Backend) {
    let (client, holder, [ghost, late]) = held(backend, Kind::Mutex).await;
    waits(backend, &ghost, LIVE).await;
    assert_eq!(released(backend, &ghost).await, Ended::NotHeld(Taken));
    let _ = released(backend, &holder).await;
    granted(backend, &late).await;
    let _ = released(backend, &late).await;
    let [holder, ghost, late] = [(); 3].map(|()| client.weighted(1, 1));
    granted(backend, &holder).await;
    waits(backend, &ghost, LIVE).await;
    assert_eq!(released(backend, &ghost).await, Ended::NotHeld(Expired));
    let _ = released(backend, &holder).await;
    granted(backend, &late).await;
}

pub(super) async fn a_released_offer_is_handed_on(backend: &dyn Backend) {
    let (_, holder, [first, second]) = held_with_queue(backend, Kind::Mutex).await;
    let _ = released(backend, &holder).await;
    assert_eq!(released(backend, &first).await, Ended::Released);
    claims(backend, &second).await;
}

pub(super) async fn after_an_expiry_anyone_serves_the_first(backend: &dyn Backend) {
    let client = Client::new();
    let waiter = client.mutex(LONG);
    granted(backend, &client.mutex(SHORT)).await;
    waits(backend, &waiter, LIVE).await;
    backend.pass(SHORT).await;
    let left = busy(backend, &client.mutex(LONG)).await;
    assert!(left <= LIVE, "it is an offer: {left:?}");
    claims(backend, &waiter).await;
}

pub(super) async fn after_an_expiry_the_first_is_granted(backend: &dyn Backend) {
    let client = Client::new();
    let [first, second] = [(); 2].map(|()| client.mutex(LONG));
    granted(backend, &client.mutex(SHORT)).await;
    let position = waits(backend, &first, LIVE).await;
    waits(backend, &second, LIVE).await;
    backend.pass(SHORT).await;
    granted_when_asking(backend, &first, position).await;
    let _ = released(backend, &first).await;
    claims(backend, &second).await;
}

pub(super) async fn waiters_wait_for_a_kept_lock(backend: &dyn Backend) {
    let (client, holder, [waiter]) = held(backend, Kind::Mutex).await;
    assert_eq!(backend.store().release(&holder, SHORT * 2).await.unwrap(), Ended::Kept);
    let (position, _, ask_again) = queued(backend, &waiter, LIVE, FIRST).await;
    assert!(ask_again <= SHORT * 2, "{ask_again:?}");
    assert_eq!(released(backend, &holder).await, Ended::Kept);
    assert_eq!(renewed(backend, &waiter).await, Renewal::NotHeld(Taken));
    backend.pass(SHORT * 2).await;
    busy(backend, &client.mutex(LONG)).await;
    granted_when_asking(backend, &waiter, position).await;
}

pub(super) async fn offers_have_growing_tokens(backend: &dyn Backend) {
    let client = Client::new();
    let mut holder = client.mutex(LONG);
    let mut last = granted(backend, &holder).await;
    for _ in 0..5 {
        let waiter = client.mutex(LONG);
        waits(backend, &waiter, LIVE).await;
        let _ = released(backend, &holder).await;
        let token = granted(backend, &waiter).await;
        assert!(token > last);
        claims(backend, &waiter).await;
        assert_eq!(granted(backend, &waiter).await, token);
        (holder, last) = (waiter, token);
    }
}

pub(super) async fn every_waiter_is_told_when_to_ask_again(backend: &dyn Backend) {
    let client = Client::new();
    granted(backend, &client.mutex(LONG)).await;
    for _ in 0..2 {
        let (_, _, ask_again) = queued(backend, &client.mutex(LONG), LIVE, FIRST).await;
        assert_eq!(ask_again.as_millis(), (LIVE / 3).as_millis());
    }
}

pub(super) async fn the_first_asks_again_when_the_lock_is_free(backend: &dyn Backend) {
    let client = Client::new();
    let holder = client.mutex(Duration::from_secs(2));
    granted(backend, &holder).await;
    let [first, second] = [(); 2].map(|()| client.mutex(LONG));
    let (position, _, ask_again) = queued(backend, &first, LIVE, FIRST).await;
    assert!(ask_again <= holder.ttl, "{ask_again:?}");
    let (_, _, ask_again) = queued(backend, &second, LIVE, FIRST).await;
    assert_eq!(ask_again.as_millis(), (LIVE / 3).as_millis());
    let (_, _, ask_again) = queued(backend, &first, LIVE, QueuePosition::Assigned(position)).await;
    assert!(ask_again <= holder.ttl, "{ask_again:?}");
}

pub(super) async fn each_ask_extends_the_heartbeat(backend: &dyn Backend) {
    let (_, holder, [waiter]) = held(backend, Kind::Mutex).await;
    // Half of it is left for a machine that is busy.
    let live = SHORT * 6;
    let (position, before, _) = queued(backend, &waiter, live, FIRST).await;
    backend.pass(live / 2).await;
    let (_, after, _) = queued(backend, &waiter, live, QueuePosition::Assigned(position)).await;
    assert!(after > before);
    backend.pass(live / 2).await;
    let _ = released(backend, &holder).await;
    claims(backend, &waiter).await;
}

pub(super) async fn an_ended_request_does_not_wait_again(backend: &dyn Backend) {
    let (client, holder, [waiter]) = held(backend, Kind::Mutex).await;
    let position = waits(backend, &waiter, LIVE).await;
    assert!(!cancelled(backend, &waiter).await);
    assert_eq!(
        ask(backend, &waiter, LIVE, QueuePosition::Assigned(position)).await,
        Attempt::Ended
    );
    assert_eq!(ask(backend, &waiter, LIVE, FIRST).await, Attempt::Ended);
    let _ = released(backend, &holder).await;
    assert_eq!(ask(backend, &holder, LIVE, FIRST).await, Attempt::Ended);
    granted(backend, &client.mutex(LONG)).await;
}

pub(super) async fn every_command_may_be_sent_twice(backend: &dyn Backend) {
    let (_, holder, [first, second]) = held(backend, Kind::Mutex).await;
    for waiter in [&first, &second] {
        let position = waits(backend, waiter, LIVE).await;
        assert_eq!(waits(backend, waiter, LIVE).await, position);
    }
    assert_eq!(released(backend, &holder).await, Ended::Released);
    assert_eq!(released(backend, &holder).await, Ended::Released);
    claims(backend, &first).await;
    claims(backend, &first).await;
    assert!(cancelled(backend, &first).await);
    assert!(!cancelled(backend, &first).await);
    let token = granted(backend, &second).await;
    assert_eq!(granted(backend, &second).await, token);
}

/// In memory only. On a server, only the connection's own client gets the hint, which
/// `faults::hints` tests.
#[tokio::test]
async fn in_memory_an_offer_is_announced_to_its_client() {
    let backend = &Memory::start().await;
    let (client, other) = (Client::new(), Client::new());
    let mut hints = HintRecorder::new(&**backend.store(), client.id);
    let _others = HintRecorder::new(&**backend.store(), other.id);
    let [first, second] = [(); 2].map(|()| client.mutex(LONG));
    let (holder, foreign) = (other.mutex(LONG), other.mutex(LONG));
    granted(backend, &holder).await;
    waits(backend, &foreign, LIVE).await;
    let (_, until, _) = queued(backend, &first, LIVE, FIRST).await;
    waits(backend, &second, LIVE).await;
    let _ = released(backend, &holder).await;
    let _ = released(backend, &foreign).await;
    match hints.received.recv().await.expect("it is told") {
        Hint::Offered { id, token, until: of, early } => {
            assert_eq!((id, of, early), (first.id, until, LIVE.saturating_sub(OFFER)));
            assert_eq!(granted(backend, &first).await, token);
        }
        other => panic!("{other:?}"),
    }
    assert!(
        hints.received.try_recv().is_err(),
        "others are told nothing, and what is held is no offer"
    );
    // A dropped client gets no hints.
    drop(hints);
    assert_eq!(released(backend, &first).await, Ended::Released);
    claims(backend, &second).await;
}
