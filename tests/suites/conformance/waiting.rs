//! The queue, command by command.

use std::time::Duration;

use leasehold::LossReason::{Expired, Taken};
use leasehold::store::{Attempt, Ended, Hint, Kind, OFFER, QueuePosition, Renewal, Request};
use leasehold_tests::backend::{Backend, Memory};
use leasehold_tests::hearing::Hearing;

use super::{
    Client, FIRST, LIVE, LONG, SHORT, acquire, ask, busy, cancelled, claims, granted, queued,
    released, renewed, waits,
};

macro_rules! cases {
    ($case:path) => {
        $case! {
            waiting:
            a_release_hands_over_to_the_first,
            a_try_does_not_overtake_who_waits,
            an_offer_ends_with_the_waiters_heartbeat,
            the_first_renewal_makes_an_offer_last_its_ttl,
            asking_again_makes_an_offer_last_its_ttl,
            an_offer_that_ended_is_not_renewed,
            a_dead_head_is_passed_over,
            many_dead_are_passed_over,
            many_dead_do_not_delay_who_waits,
            a_heartbeat_that_is_too_long_is_not_believed,
            one_who_comes_back_has_its_place_by_its_position,
            one_whose_answer_was_lost_has_its_place_by_its_age,
            asking_again_keeps_the_place,
            a_cancelled_waiter_is_not_served,
            a_cancelled_offer_is_handed_on,
            a_released_offer_is_handed_on,
            a_released_waiter_leaves_the_queue,
            after_an_expiry_anyone_serves_the_first,
            after_an_expiry_the_first_is_granted,
            a_keeping_is_waited_for,
            offers_have_growing_tokens,
            every_waiter_is_told_when_to_ask_again,
            the_first_asks_again_when_the_lock_is_free,
            each_ask_lives_longer,
            an_ended_request_does_not_wait_again,
            every_command_may_be_sent_twice,
            another_kind_does_not_join,
            another_kind_does_not_join_permits,
            another_kind_waits_for_a_queue_to_end,
            another_kind_waits_for_a_queue_of_permits_to_end,
            another_kind_takes_what_only_the_dead_wait_for,
            another_kind_waits_where_it_is_free_and_awaited,
            a_release_frees_though_another_kind_waits,
            a_permit_is_handed_to_the_first,
            a_permits_offer_ends_with_the_waiters_heartbeat,
            weights_are_summed,
            a_heavy_head_blocks_the_light,
            a_cancelled_heavy_head_lets_the_light_in,
            one_release_serves_several,
            each_waiter_keeps_to_its_own_limit,
            a_raised_limit_lets_more_in,
            an_ended_permit_makes_room_for_the_first,
            many_dead_are_passed_over_for_a_permit,
        }
    };
}
pub(super) use cases;

fn permit(client: &Client, limit: u32, weight: u32) -> Request {
    client.request(Kind::Semaphore { limit, weight }, LONG)
}

/// Until it is no longer told to ask at once, or is granted.
async fn persists(backend: &impl Backend, request: &Request) -> Attempt {
    for _ in 0..5 {
        let answer = acquire(backend, request).await;
        if !matches!(answer, Attempt::Busy { retry_after: Duration::ZERO, expiry_added: false, .. })
        {
            return answer;
        }
    }
    panic!("it was told to ask at once again and again");
}

pub(super) async fn a_release_hands_over_to_the_first(backend: &impl Backend) {
    let client = Client::new();
    let [holder, first, second] = [(); 3].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
    waits(backend, &first, LIVE).await;
    waits(backend, &second, LIVE).await;
    assert_eq!(released(backend, &holder).await, Ended::Released);
    assert_eq!(renewed(backend, &second).await, Renewal::NotHeld(Taken));
    claims(backend, &first).await;
    assert_eq!(released(backend, &first).await, Ended::Released);
    claims(backend, &second).await;
    assert_eq!(released(backend, &second).await, Ended::Released);
    granted(backend, &client.mutex(LONG)).await;
}

pub(super) async fn a_try_does_not_overtake_who_waits(backend: &impl Backend) {
    let client = Client::new();
    let [holder, waiter] = [(); 2].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
    waits(backend, &waiter, LIVE).await;
    let _ = released(backend, &holder).await;
    busy(backend, &client.mutex(LONG)).await;
    let permits = Client::new();
    claims(backend, &waiter).await;
    let _ = released(backend, &waiter).await;
    // Though it would fit.
    granted(backend, &permit(&permits, 2, 1)).await;
    waits(backend, &permit(&permits, 2, 2), LIVE).await;
    busy(backend, &permit(&permits, 2, 1)).await;
}

pub(super) async fn an_offer_ends_with_the_waiters_heartbeat(backend: &impl Backend) {
    let client = Client::new();
    let [holder, waiter] = [(); 2].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
    waits(backend, &waiter, SHORT * 2).await;
    let _ = released(backend, &holder).await;
    let late = client.mutex(LONG);
    let left = busy(backend, &late).await;
    assert!(left <= SHORT * 2, "{left:?}");
    backend.pass(SHORT * 2).await;
    granted(backend, &late).await;
}

pub(super) async fn the_first_renewal_makes_an_offer_last_its_ttl(backend: &impl Backend) {
    let client = Client::new();
    let [holder, waiter] = [(); 2].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
    waits(backend, &waiter, SHORT * 2).await;
    let _ = released(backend, &holder).await;
    claims(backend, &waiter).await;
    backend.pass(SHORT * 2).await;
    let left = busy(backend, &client.mutex(LONG)).await;
    assert!(left > LONG / 2, "{left:?}");
}

pub(super) async fn asking_again_makes_an_offer_last_its_ttl(backend: &impl Backend) {
    let client = Client::new();
    let [holder, waiter] = [(); 2].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
    let position = waits(backend, &waiter, LIVE).await;
    let _ = released(backend, &holder).await;
    let answer = ask(backend, &waiter, LIVE, QueuePosition::Assigned(position)).await;
    assert!(matches!(answer, Attempt::Granted { .. }), "{answer:?}");
    assert!(busy(backend, &client.mutex(LONG)).await > LIVE);
}

pub(super) async fn an_offer_that_ended_is_not_renewed(backend: &impl Backend) {
    let client = Client::new();
    let [holder, waiter] = [(); 2].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
    waits(backend, &waiter, SHORT * 2).await;
    let _ = released(backend, &holder).await;
    backend.pass(SHORT * 2).await;
    assert_eq!(renewed(backend, &waiter).await, Renewal::NotHeld(Expired));
    assert_eq!(released(backend, &waiter).await, Ended::NotHeld(Expired));
}

pub(super) async fn a_dead_head_is_passed_over(backend: &impl Backend) {
    let client = Client::new();
    let [holder, dead, alive] = [(); 3].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
    waits(backend, &dead, SHORT).await;
    waits(backend, &alive, LIVE).await;
    backend.pass(SHORT).await;
    let _ = released(backend, &holder).await;
    assert_eq!(renewed(backend, &dead).await, Renewal::NotHeld(Taken));
    claims(backend, &alive).await;
}

pub(super) async fn many_dead_are_passed_over(backend: &impl Backend) {
    let client = Client::new();
    let holder = client.mutex(LONG);
    granted(backend, &holder).await;
    for _ in 0..200 {
        waits(backend, &client.mutex(LONG), SHORT).await;
    }
    backend.pass(SHORT).await;
    let _ = released(backend, &holder).await;
    let answer = persists(backend, &client.mutex(LONG)).await;
    assert!(matches!(answer, Attempt::Granted { .. }), "{answer:?}");
}

/// It is told to ask again at once, and not when it is to say that it lives.
pub(super) async fn many_dead_do_not_delay_who_waits(backend: &impl Backend) {
    for kind in [Kind::Mutex, Kind::Semaphore { limit: 1, weight: 1 }] {
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

pub(super) async fn a_heartbeat_that_is_too_long_is_not_believed(backend: &impl Backend) {
    let client = Client::new();
    let [holder, waiter] = [(); 2].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
    waits(backend, &waiter, LONG).await;
    let _ = released(backend, &holder).await;
    granted(backend, &client.mutex(LONG)).await;
}

pub(super) async fn one_who_comes_back_has_its_place_by_its_position(backend: &impl Backend) {
    let client = Client::new();
    let [holder, late, second, third] = [(); 4].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
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

pub(super) async fn one_whose_answer_was_lost_has_its_place_by_its_age(backend: &impl Backend) {
    let client = Client::new();
    let [holder, late, second, third] = [(); 4].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
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

pub(super) async fn asking_again_keeps_the_place(backend: &impl Backend) {
    let client = Client::new();
    let [holder, first, second] = [(); 3].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
    let position = waits(backend, &first, LIVE).await;
    assert!(waits(backend, &second, LIVE).await > position);
    for again in [QueuePosition::Assigned(position), FIRST, QueuePosition::New { age: LIVE }] {
        assert_eq!(queued(backend, &first, LIVE, again).await.0, position);
    }
    let _ = released(backend, &holder).await;
    claims(backend, &first).await;
}

pub(super) async fn a_cancelled_waiter_is_not_served(backend: &impl Backend) {
    let client = Client::new();
    let [holder, first, second] = [(); 3].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
    waits(backend, &first, LIVE).await;
    waits(backend, &second, LIVE).await;
    assert!(!cancelled(backend, &first).await);
    assert_eq!(renewed(backend, &holder).await, Renewal::Renewed);
    let _ = released(backend, &holder).await;
    claims(backend, &second).await;
    assert!(cancelled(backend, &second).await);
    granted(backend, &client.permit(1, LONG)).await;
}

pub(super) async fn a_cancelled_offer_is_handed_on(backend: &impl Backend) {
    let client = Client::new();
    let [holder, first, second] = [(); 3].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
    waits(backend, &first, LIVE).await;
    waits(backend, &second, LIVE).await;
    let _ = released(backend, &holder).await;
    assert!(cancelled(backend, &first).await);
    claims(backend, &second).await;
    assert_eq!(ask(backend, &first, LIVE, FIRST).await, Attempt::Ended);
}

/// A late copy of an ask queued again what its holder has given up since.
pub(super) async fn a_released_waiter_leaves_the_queue(backend: &impl Backend) {
    let client = Client::new();
    let [holder, ghost, late] = [(); 3].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
    waits(backend, &ghost, LIVE).await;
    assert_eq!(released(backend, &ghost).await, Ended::NotHeld(Taken));
    let _ = released(backend, &holder).await;
    granted(backend, &late).await;
    let _ = released(backend, &late).await;
    let [holder, ghost, late] = [(); 3].map(|()| permit(&client, 1, 1));
    granted(backend, &holder).await;
    waits(backend, &ghost, LIVE).await;
    assert_eq!(released(backend, &ghost).await, Ended::NotHeld(Expired));
    let _ = released(backend, &holder).await;
    granted(backend, &late).await;
}

pub(super) async fn a_released_offer_is_handed_on(backend: &impl Backend) {
    let client = Client::new();
    let [holder, first, second] = [(); 3].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
    waits(backend, &first, LIVE).await;
    waits(backend, &second, LIVE).await;
    let _ = released(backend, &holder).await;
    assert_eq!(released(backend, &first).await, Ended::Released);
    claims(backend, &second).await;
}

pub(super) async fn after_an_expiry_anyone_serves_the_first(backend: &impl Backend) {
    let client = Client::new();
    let waiter = client.mutex(LONG);
    granted(backend, &client.mutex(SHORT)).await;
    waits(backend, &waiter, LIVE).await;
    backend.pass(SHORT).await;
    let left = busy(backend, &client.mutex(LONG)).await;
    assert!(left <= LIVE, "it is an offer: {left:?}");
    claims(backend, &waiter).await;
}

pub(super) async fn after_an_expiry_the_first_is_granted(backend: &impl Backend) {
    let client = Client::new();
    let [first, second] = [(); 2].map(|()| client.mutex(LONG));
    granted(backend, &client.mutex(SHORT)).await;
    let position = waits(backend, &first, LIVE).await;
    waits(backend, &second, LIVE).await;
    backend.pass(SHORT).await;
    let answer = ask(backend, &first, LIVE, QueuePosition::Assigned(position)).await;
    assert!(matches!(answer, Attempt::Granted { .. }), "{answer:?}");
    let _ = released(backend, &first).await;
    claims(backend, &second).await;
}

pub(super) async fn a_keeping_is_waited_for(backend: &impl Backend) {
    let client = Client::new();
    let [holder, waiter] = [(); 2].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
    assert_eq!(backend.store().release(&holder, SHORT * 2).await.unwrap(), Ended::Kept);
    let (position, _, ask_again) = queued(backend, &waiter, LIVE, FIRST).await;
    assert!(ask_again <= SHORT * 2, "{ask_again:?}");
    assert_eq!(released(backend, &holder).await, Ended::Kept);
    assert_eq!(renewed(backend, &waiter).await, Renewal::NotHeld(Taken));
    backend.pass(SHORT * 2).await;
    busy(backend, &client.mutex(LONG)).await;
    let answer = ask(backend, &waiter, LIVE, QueuePosition::Assigned(position)).await;
    assert!(matches!(answer, Attempt::Granted { .. }), "{answer:?}");
}

pub(super) async fn offers_have_growing_tokens(backend: &impl Backend) {
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

pub(super) async fn every_waiter_is_told_when_to_ask_again(backend: &impl Backend) {
    let client = Client::new();
    granted(backend, &client.mutex(LONG)).await;
    for _ in 0..2 {
        let (_, _, ask_again) = queued(backend, &client.mutex(LONG), LIVE, FIRST).await;
        assert_eq!(ask_again.as_millis(), (LIVE / 3).as_millis());
    }
}

pub(super) async fn the_first_asks_again_when_the_lock_is_free(backend: &impl Backend) {
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

pub(super) async fn each_ask_lives_longer(backend: &impl Backend) {
    let client = Client::new();
    let [holder, waiter] = [(); 2].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
    let (position, before, _) = queued(backend, &waiter, SHORT * 2, FIRST).await;
    backend.pass(SHORT).await;
    let (_, after, _) =
        queued(backend, &waiter, SHORT * 2, QueuePosition::Assigned(position)).await;
    assert!(after > before);
    backend.pass(SHORT).await;
    let _ = released(backend, &holder).await;
    claims(backend, &waiter).await;
}

pub(super) async fn an_ended_request_does_not_wait_again(backend: &impl Backend) {
    let client = Client::new();
    let [holder, waiter] = [(); 2].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
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

pub(super) async fn every_command_may_be_sent_twice(backend: &impl Backend) {
    let client = Client::new();
    let [holder, first, second] = [(); 3].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
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

pub(super) async fn another_kind_does_not_join(backend: &impl Backend) {
    let client = Client::new();
    let [holder, waiter] = [(); 2].map(|()| client.mutex(LONG));
    granted(backend, &holder).await;
    waits(backend, &waiter, LIVE).await;
    let (other, refused) = (client.permit(1, LONG), client.permit(1, LONG));
    assert_eq!(acquire(backend, &other).await, Attempt::WrongKind);
    assert_eq!(ask(backend, &refused, LIVE, FIRST).await, Attempt::WrongKind);
    assert!(!cancelled(backend, &other).await);
    let _ = released(backend, &holder).await;
    claims(backend, &waiter).await;
    let _ = released(backend, &waiter).await;
    granted(backend, &client.permit(1, LONG)).await;
}

pub(super) async fn another_kind_does_not_join_permits(backend: &impl Backend) {
    let client = Client::new();
    let [holder, waiter] = [(); 2].map(|()| client.permit(1, LONG));
    granted(backend, &holder).await;
    waits(backend, &waiter, LIVE).await;
    let (other, refused) = (client.mutex(LONG), client.mutex(LONG));
    assert_eq!(acquire(backend, &other).await, Attempt::WrongKind);
    assert_eq!(ask(backend, &refused, LIVE, FIRST).await, Attempt::WrongKind);
    assert!(!cancelled(backend, &other).await);
    let _ = released(backend, &holder).await;
    claims(backend, &waiter).await;
    let _ = released(backend, &waiter).await;
    granted(backend, &client.mutex(LONG)).await;
}

pub(super) async fn another_kind_waits_for_a_queue_to_end(backend: &impl Backend) {
    let client = Client::new();
    let waiter = client.mutex(LONG);
    granted(backend, &client.mutex(SHORT)).await;
    let position = waits(backend, &waiter, LIVE).await;
    backend.pass(SHORT).await;
    let (other, refused) = (client.permit(1, LONG), client.permit(1, LONG));
    assert_eq!(acquire(backend, &other).await, Attempt::WrongKind);
    assert_eq!(ask(backend, &refused, LIVE, FIRST).await, Attempt::WrongKind);
    assert!(!cancelled(backend, &other).await);
    let answer = ask(backend, &waiter, LIVE, QueuePosition::Assigned(position)).await;
    assert!(matches!(answer, Attempt::Granted { .. }), "{answer:?}");
    let _ = released(backend, &waiter).await;
    granted(backend, &client.permit(1, LONG)).await;
}

pub(super) async fn another_kind_waits_for_a_queue_of_permits_to_end(backend: &impl Backend) {
    let client = Client::new();
    let waiter = client.permit(1, LONG);
    granted(backend, &client.permit(1, SHORT)).await;
    let position = waits(backend, &waiter, LIVE).await;
    backend.pass(SHORT).await;
    let (other, refused) = (client.mutex(LONG), client.mutex(LONG));
    assert_eq!(acquire(backend, &other).await, Attempt::WrongKind);
    assert_eq!(ask(backend, &refused, LIVE, FIRST).await, Attempt::WrongKind);
    assert!(!cancelled(backend, &other).await);
    let answer = ask(backend, &waiter, LIVE, QueuePosition::Assigned(position)).await;
    assert!(matches!(answer, Attempt::Granted { .. }), "{answer:?}");
    let _ = released(backend, &waiter).await;
    granted(backend, &client.mutex(LONG)).await;
}

pub(super) async fn another_kind_takes_what_only_the_dead_wait_for(backend: &impl Backend) {
    let client = Client::new();
    let kinds = [Kind::Mutex, Kind::Semaphore { limit: 1, weight: 1 }];
    for [mine, others] in [kinds, [kinds[1], kinds[0]]] {
        let holder = client.request(mine, LONG);
        granted(backend, &holder).await;
        for _ in 0..100 {
            waits(backend, &client.request(mine, LONG), SHORT).await;
        }
        backend.pass(SHORT).await;
        // One command passes over some of the dead, and not over all of them.
        let _ = released(backend, &holder).await;
        let other = client.request(others, LONG);
        let answer = persists(backend, &other).await;
        assert!(matches!(answer, Attempt::Granted { .. }), "{answer:?}");
        let _ = released(backend, &other).await;
    }
}

pub(super) async fn another_kind_waits_where_it_is_free_and_awaited(backend: &impl Backend) {
    let client = Client::new();
    let kinds = [Kind::Mutex, Kind::Semaphore { limit: 1, weight: 1 }];
    for [mine, others] in [kinds, [kinds[1], kinds[0]]] {
        granted(backend, &client.request(mine, LONG)).await;
        let waiter = client.request(mine, LONG);
        waits(backend, &waiter, LIVE).await;
        // Only force leaves a lock free though somebody waits.
        let _ = backend.store().force_release(&waiter.key).await.unwrap();
        let other = client.request(others, LONG);
        assert_eq!(acquire(backend, &other).await, Attempt::WrongKind);
        assert_eq!(ask(backend, &other, LIVE, FIRST).await, Attempt::WrongKind);
        let answer = persists(backend, &waiter).await;
        assert!(matches!(answer, Attempt::Granted { .. }), "{answer:?}");
        let _ = released(backend, &waiter).await;
    }
}

pub(super) async fn a_release_frees_though_another_kind_waits(backend: &impl Backend) {
    let client = Client::new();
    let late = client.mutex(LONG);
    granted(backend, &client.mutex(SHORT)).await;
    let position = waits(backend, &late, SHORT).await;
    backend.pass(SHORT).await;
    granted(backend, &client.permit(1, SHORT)).await;
    waits(backend, &client.permit(1, LONG), LIVE).await;
    backend.pass(SHORT).await;
    let answer = ask(backend, &late, LIVE, QueuePosition::Assigned(position)).await;
    assert!(matches!(answer, Attempt::Granted { .. }), "{answer:?}");
    assert_eq!(released(backend, &late).await, Ended::Released);
    assert_eq!(renewed(backend, &late).await, Renewal::NotHeld(Taken));
    assert_eq!(ask(backend, &late, LIVE, FIRST).await, Attempt::Ended);
}

pub(super) async fn a_permit_is_handed_to_the_first(backend: &impl Backend) {
    let client = Client::new();
    let [holder, first, second] = [(); 3].map(|()| client.permit(1, LONG));
    granted(backend, &holder).await;
    let position = waits(backend, &first, LIVE).await;
    assert!(waits(backend, &second, LIVE).await > position);
    assert_eq!(released(backend, &holder).await, Ended::Released);
    assert_eq!(renewed(backend, &second).await, Renewal::NotHeld(Expired));
    claims(backend, &first).await;
    assert_eq!(released(backend, &first).await, Ended::Released);
    claims(backend, &second).await;
    assert!(cancelled(backend, &second).await);
    granted(backend, &client.mutex(LONG)).await;
}

pub(super) async fn a_permits_offer_ends_with_the_waiters_heartbeat(backend: &impl Backend) {
    let client = Client::new();
    let holders = [(); 2].map(|()| client.permit(2, LONG));
    let [dead, alive] = [(); 2].map(|()| client.permit(2, LONG));
    for holder in &holders {
        granted(backend, holder).await;
    }
    waits(backend, &dead, SHORT * 2).await;
    waits(backend, &alive, SHORT * 2).await;
    for holder in &holders {
        let _ = released(backend, holder).await;
    }
    claims(backend, &alive).await;
    let left = busy(backend, &client.permit(2, LONG)).await;
    assert!(left <= SHORT * 2, "{left:?}");
    backend.pass(SHORT * 2).await;
    assert_eq!(renewed(backend, &dead).await, Renewal::NotHeld(Expired));
    assert_eq!(renewed(backend, &alive).await, Renewal::Renewed);
    granted(backend, &client.permit(2, LONG)).await;
    let left = busy(backend, &client.permit(2, LONG)).await;
    assert!(left > LONG / 2, "{left:?}");
}

pub(super) async fn weights_are_summed(backend: &impl Backend) {
    let client = Client::new();
    let [two, three] = [2, 3].map(|weight| permit(&client, 6, weight));
    granted(backend, &two).await;
    granted(backend, &three).await;
    busy(backend, &permit(&client, 6, 2)).await;
    granted(backend, &permit(&client, 6, 1)).await;
    busy(backend, &permit(&client, 6, 1)).await;
    assert_eq!(released(backend, &three).await, Ended::Released);
    busy(backend, &permit(&client, 6, 4)).await;
    granted(backend, &permit(&client, 6, 3)).await;
    granted(backend, &two).await; // it counts once
    assert!(cancelled(backend, &two).await);
    granted(backend, &permit(&client, 6, 2)).await;
    busy(backend, &permit(&client, 6, 1)).await;
}

pub(super) async fn a_heavy_head_blocks_the_light(backend: &impl Backend) {
    let client = Client::new();
    let [first, second] = [(); 2].map(|()| permit(&client, 3, 1));
    granted(backend, &first).await;
    granted(backend, &second).await;
    let (heavy, light) = (permit(&client, 3, 3), permit(&client, 3, 1));
    waits(backend, &heavy, LIVE).await;
    waits(backend, &light, LIVE).await;
    let _ = released(backend, &first).await;
    for waiter in [&heavy, &light] {
        assert_eq!(renewed(backend, waiter).await, Renewal::NotHeld(Expired));
    }
    let _ = released(backend, &second).await;
    claims(backend, &heavy).await;
    assert_eq!(renewed(backend, &light).await, Renewal::NotHeld(Expired));
    let _ = released(backend, &heavy).await;
    claims(backend, &light).await;
}

pub(super) async fn a_cancelled_heavy_head_lets_the_light_in(backend: &impl Backend) {
    let client = Client::new();
    granted(backend, &permit(&client, 3, 1)).await;
    let heavy = permit(&client, 3, 3);
    let light = [(); 3].map(|()| permit(&client, 3, 1));
    waits(backend, &heavy, LIVE).await;
    for waiter in &light {
        waits(backend, waiter, LIVE).await;
    }
    assert!(!cancelled(backend, &heavy).await);
    claims(backend, &light[0]).await;
    claims(backend, &light[1]).await;
    assert_eq!(renewed(backend, &light[2]).await, Renewal::NotHeld(Expired));
    assert_eq!(ask(backend, &heavy, LIVE, FIRST).await, Attempt::Ended);
}

pub(super) async fn one_release_serves_several(backend: &impl Backend) {
    let client = Client::new();
    let heavy = permit(&client, 3, 3);
    granted(backend, &heavy).await;
    let light = [(); 4].map(|()| permit(&client, 3, 1));
    for waiter in &light {
        waits(backend, waiter, LIVE).await;
    }
    let _ = released(backend, &heavy).await;
    for waiter in &light[..3] {
        claims(backend, waiter).await;
    }
    assert_eq!(renewed(backend, &light[3]).await, Renewal::NotHeld(Expired));
}

pub(super) async fn each_waiter_keeps_to_its_own_limit(backend: &impl Backend) {
    let client = Client::new();
    let holders = [(); 3].map(|()| client.permit(3, LONG));
    for holder in &holders {
        granted(backend, holder).await;
    }
    let (narrow, wide) = (client.permit(1, LONG), client.permit(3, LONG));
    waits(backend, &narrow, LIVE).await;
    waits(backend, &wide, LIVE).await;
    for holder in &holders[..2] {
        let _ = released(backend, holder).await;
        assert_eq!(renewed(backend, &narrow).await, Renewal::NotHeld(Expired));
        assert_eq!(renewed(backend, &wide).await, Renewal::NotHeld(Expired));
    }
    let _ = released(backend, &holders[2]).await;
    claims(backend, &narrow).await;
    claims(backend, &wide).await;
}

pub(super) async fn a_raised_limit_lets_more_in(backend: &impl Backend) {
    let client = Client::new();
    granted(backend, &client.permit(1, LONG)).await;
    let mut waiter = client.permit(1, LONG);
    let position = waits(backend, &waiter, LIVE).await;
    let late = client.permit(3, LONG);
    waits(backend, &late, LIVE).await;
    waiter.kind = Kind::Semaphore { limit: 2, weight: 1 };
    let answer = ask(backend, &waiter, LIVE, QueuePosition::Assigned(position)).await;
    assert!(matches!(answer, Attempt::Granted { .. }), "{answer:?}");
    claims(backend, &late).await;
}

pub(super) async fn an_ended_permit_makes_room_for_the_first(backend: &impl Backend) {
    let client = Client::new();
    granted(backend, &client.permit(2, SHORT)).await;
    granted(backend, &client.permit(2, LONG)).await;
    let [first, second] = [(); 2].map(|()| client.permit(2, LONG));
    waits(backend, &first, LIVE).await;
    let position = waits(backend, &second, LIVE).await;
    backend.pass(SHORT).await;
    queued(backend, &second, LIVE, QueuePosition::Assigned(position)).await;
    claims(backend, &first).await;
    assert_eq!(renewed(backend, &second).await, Renewal::NotHeld(Expired));
}

pub(super) async fn many_dead_are_passed_over_for_a_permit(backend: &impl Backend) {
    let client = Client::new();
    let holder = client.permit(1, LONG);
    granted(backend, &holder).await;
    for _ in 0..200 {
        waits(backend, &client.permit(1, LONG), SHORT).await;
    }
    backend.pass(SHORT).await;
    let _ = released(backend, &holder).await;
    let answer = persists(backend, &client.permit(1, LONG)).await;
    assert!(matches!(answer, Attempt::Granted { .. }), "{answer:?}");
}

/// In memory alone: on a server, only the client of the connection is told, which
/// `faults::hints` is about.
#[tokio::test]
async fn who_is_offered_is_told_in_memory() {
    let backend = &Memory::start().await;
    let (client, other) = (Client::new(), Client::new());
    let mut hearing = Hearing::of(&**backend.store(), client.id);
    let _others = Hearing::of(&**backend.store(), other.id);
    let [first, second] = [(); 2].map(|()| client.mutex(LONG));
    let (holder, foreign) = (other.mutex(LONG), other.mutex(LONG));
    granted(backend, &holder).await;
    waits(backend, &foreign, LIVE).await;
    let (_, until, _) = queued(backend, &first, LIVE, FIRST).await;
    waits(backend, &second, LIVE).await;
    let _ = released(backend, &holder).await;
    let _ = released(backend, &foreign).await;
    match hearing.hints.recv().await.expect("it is told") {
        Hint::Offered { id, token, until: of, early } => {
            assert_eq!((id, of, early), (first.id, until, LIVE.saturating_sub(OFFER)));
            assert_eq!(granted(backend, &first).await, token);
        }
        other => panic!("{other:?}"),
    }
    assert!(
        hearing.hints.try_recv().is_err(),
        "others are told nothing, and what is held is no offer"
    );
    // One who is gone is told nothing.
    drop(hearing);
    assert_eq!(released(backend, &first).await, Ended::Released);
    claims(backend, &second).await;
}
