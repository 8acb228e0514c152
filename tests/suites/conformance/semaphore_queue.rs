//! The semaphore, command by command, with its queue.

use leasehold::LossReason::Expired;
use leasehold::store::{Attempt, Ended, Kind, QueuePosition, Renewal};
use leasehold_tests::backend::Backend;

use super::{
    Client, FIRST, LIVE, LONG, PERMIT, SHORT, ask, busy, cancelled, claims, granted,
    granted_when_asking, held, queued, released, renewed, waits,
};

macro_rules! cases {
    ($case:path) => {
        $case! {
            semaphore_queue:
            a_permit_is_handed_to_the_first,
            a_permits_offer_ends_with_the_waiters_heartbeat,
            weights_are_summed,
            a_heavy_head_blocks_the_light,
            a_cancelled_heavy_head_lets_the_light_in,
            one_release_serves_several_waiters,
            each_waiter_keeps_to_its_own_limit,
            a_raised_limit_lets_more_in,
            an_ended_permit_makes_room_for_the_first,
        }
    };
}
pub(super) use cases;

pub(super) async fn a_permit_is_handed_to_the_first(backend: &dyn Backend) {
    let (client, holder, [first, second]) = held(backend, PERMIT).await;
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

pub(super) async fn a_permits_offer_ends_with_the_waiters_heartbeat(backend: &dyn Backend) {
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

pub(super) async fn weights_are_summed(backend: &dyn Backend) {
    let client = Client::new();
    let [two, three] = [2, 3].map(|weight| client.weighted(6, weight));
    granted(backend, &two).await;
    granted(backend, &three).await;
    busy(backend, &client.weighted(6, 2)).await;
    granted(backend, &client.weighted(6, 1)).await;
    busy(backend, &client.weighted(6, 1)).await;
    assert_eq!(released(backend, &three).await, Ended::Released);
    busy(backend, &client.weighted(6, 4)).await;
    granted(backend, &client.weighted(6, 3)).await;
    granted(backend, &two).await; // it counts once
    assert!(cancelled(backend, &two).await);
    granted(backend, &client.weighted(6, 2)).await;
    busy(backend, &client.weighted(6, 1)).await;
}

pub(super) async fn a_heavy_head_blocks_the_light(backend: &dyn Backend) {
    let client = Client::new();
    let [first, second] = [(); 2].map(|()| client.weighted(3, 1));
    granted(backend, &first).await;
    granted(backend, &second).await;
    let (heavy, light) = (client.weighted(3, 3), client.weighted(3, 1));
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

pub(super) async fn a_cancelled_heavy_head_lets_the_light_in(backend: &dyn Backend) {
    let client = Client::new();
    granted(backend, &client.weighted(3, 1)).await;
    let heavy = client.weighted(3, 3);
    let light = [(); 3].map(|()| client.weighted(3, 1));
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

pub(super) async fn one_release_serves_several_waiters(backend: &dyn Backend) {
    let client = Client::new();
    let heavy = client.weighted(3, 3);
    granted(backend, &heavy).await;
    let light = [(); 4].map(|()| client.weighted(3, 1));
    for waiter in &light {
        waits(backend, waiter, LIVE).await;
    }
    let _ = released(backend, &heavy).await;
    for waiter in &light[..3] {
        claims(backend, waiter).await;
    }
    assert_eq!(renewed(backend, &light[3]).await, Renewal::NotHeld(Expired));
}

pub(super) async fn each_waiter_keeps_to_its_own_limit(backend: &dyn Backend) {
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

pub(super) async fn a_raised_limit_lets_more_in(backend: &dyn Backend) {
    let client = Client::new();
    granted(backend, &client.permit(1, LONG)).await;
    let mut waiter = client.permit(1, LONG);
    let position = waits(backend, &waiter, LIVE).await;
    let late = client.permit(3, LONG);
    waits(backend, &late, LIVE).await;
    waiter.kind = Kind::Semaphore { limit: 2, weight: 1 };
    granted_when_asking(backend, &waiter, position).await;
    claims(backend, &late).await;
}

pub(super) async fn an_ended_permit_makes_room_for_the_first(backend: &dyn Backend) {
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
