//! Renewing a lease, and restoring it on servers that lost it.

use leasehold_tests::requests::request;
use std::time::Duration;

use leasehold::LossReason;
use leasehold::store::memory::MemoryStore;
use leasehold::store::{Ask, Kind, Renewal, Repaired, Request};
use leasehold_tests::members::{Fault, Members};
use tokio::time::{Instant, advance, sleep};

use super::{SECOND, holding, members, shown, take};
use crate::quorum::LONG;

#[tokio::test(start_paused = true)]
async fn a_lease_lasts_as_long_as_a_majority_renews_it() {
    let members = members(5);
    let lease = members.locks().mutex("a").ttl(SECOND).lock().await.unwrap();
    members.member(0).kill();
    members.member(1).freeze();
    sleep(10 * SECOND).await;
    assert!(lease.is_held());
    members.member(2).freeze();
    let begun = Instant::now();
    assert_eq!(lease.lost().await, LossReason::Expired);
    assert!(begun.elapsed() <= SECOND, "{:?}", begun.elapsed());
}

/// One store after the other forgets the lease. Each gets it back before the next one forgets.
#[tokio::test(start_paused = true)]
async fn a_lost_vote_is_restored_while_a_majority_stands() {
    for kind in ["mutex", "read", "write"] {
        let members = members(3);
        let locks = members.locks();
        let lease = take(&locks, kind).await;
        for place in [0, 1, 2, 0] {
            members.member(place).restart_empty();
            assert_eq!(holding(&members, "a").await, 2);
            sleep(SECOND / 2).await;
            assert_eq!(holding(&members, "a").await, 3, "{kind}");
        }
        assert!(lease.is_held());
        let other = members.locks();
        assert!(other.rw_lock("a").try_write().await.is_err());
        lease.release().await.unwrap();
        assert_eq!(holding(&members, "a").await, 0);
        drop(other.rw_lock("a").try_write().await.unwrap());
    }
}

/// A restored record does not vote for the renewal that found it lost.
#[tokio::test(start_paused = true)]
async fn a_lease_that_a_majority_lost_is_lost() {
    let members = members(3);
    let lease = members.locks().mutex("a").ttl(SECOND).lock().await.unwrap();
    members.member(0).restart_empty();
    members.member(1).restart_empty();
    assert_eq!(lease.lost().await, LossReason::Gone);
    assert_eq!(holding(&members, "a").await, 1, "and it is given to nobody");
    let _next = members.locks().mutex("a").try_lock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lock_granted_to_another_is_not_restored() {
    let members = members(3);
    let lease = members.locks().mutex("a").ttl(SECOND).lock().await.unwrap();
    // One store forgets the lease and grants it to another client. There is no majority, and no
    // repair.
    let store = members.member(0);
    store.restart_empty();
    members.member(1).freeze();
    members.member(2).freeze();
    let other = members.locks();
    let waiting = tokio::spawn(async move { other.mutex("a").ttl(SECOND).try_lock().await });
    tokio::task::yield_now().await;
    let holder = shown(&members, 0, "a").await.holders.pop().unwrap();
    members.member(1).thaw();
    members.member(2).thaw();
    advance(SECOND / 3).await;
    tokio::task::yield_now().await;
    let still = shown(&members, 0, "a").await.holders.pop();
    assert!(still.is_none_or(|still| still.client == holder.client));
    assert!(waiting.await.unwrap().is_err());
    assert!(lease.is_held());
}

/// A server that was restarted empty never allows a second holder. It does not count until all that
/// it may have forgotten has ended.
#[tokio::test(start_paused = true)]
async fn a_restarted_store_counts_once_its_leases_have_ended() {
    for (counts_after, is_safe) in [(SECOND, true), (Duration::ZERO, false)] {
        let members = Members::start(3, SECOND, counts_after);
        members.member(2).kill();
        let lease = members.locks().mutex("a").ttl(SECOND).lock().await.unwrap();
        members.member(2).revive();
        members.member(1).restart_empty();
        let second = members.locks().mutex("a").ttl(SECOND).try_lock().await;
        assert_eq!(lease.is_held() && second.is_ok(), !is_safe, "without the guard there are two");
        drop((lease, second));
        sleep(2 * SECOND).await;
        members.member(0).kill();
        drop(members.locks().mutex("a").ttl(SECOND).try_lock().await.unwrap());
    }
}

/// The next majority may consist of restarted servers alone.
#[tokio::test(start_paused = true)]
async fn a_restored_lease_has_its_token() {
    let members = members(3);
    members.member(0).jump(90_000);
    let lease = members.locks().mutex("a").ttl(SECOND).lock().await.unwrap();
    for place in 0..3 {
        members.member(place).restart_empty();
        sleep(SECOND / 2).await;
        let holder = shown(&members, place, "a").await.holders.pop().unwrap();
        assert!(holder.fence >= Some(lease.fence().unwrap()), "{place}: {holder:?}");
    }
}

/// The holder relies on the lease until then, and the next one need not wait for longer.
#[tokio::test(start_paused = true)]
async fn a_restored_lease_ends_with_the_renewed_ones() {
    let members = members(3);
    let _lease = members.locks().mutex("a").ttl(SECOND).lock().await.unwrap();
    members.member(0).restart_empty();
    // All answers to the renewal are slow.
    let slow = Duration::from_millis(30);
    for member in members.iter() {
        member.plan(Fault::Slow(slow));
    }
    sleep(SECOND / 2).await;
    let lasts = async |place| shown(&members, place, "a").await.holders[0].remaining;
    let (healed, renewed) = (lasts(0).await, lasts(1).await);
    // Less the drift between two clocks.
    assert!(healed + SECOND / 100 <= renewed, "{healed:?}, {renewed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_not_restored_after_its_end_or_over_another() {
    let [request, other] = [(); 2].map(|()| request("a", Kind::Mutex, LONG));
    for kind in [Kind::Mutex, Kind::Read, Kind::Write] {
        let (request, store) = (Request { kind, ..request.clone() }, MemoryStore::default());
        store.vote(&request, Duration::ZERO).await.unwrap();
        store.cancel(&request).await.unwrap();
        let repaired = store.repair(&request, 1, SECOND).await.unwrap();
        assert_eq!(repaired, Repaired::NotHeld, "{kind:?} has ended");

        let rival = if kind == Kind::Mutex { Kind::Mutex } else { Kind::Write };
        let (rival, store) = (Request { kind: rival, ..other.clone() }, MemoryStore::default());
        store.vote(&rival, Duration::ZERO).await.unwrap();
        let repaired = store.repair(&request, 1, SECOND).await.unwrap();
        assert_eq!(repaired, Repaired::NotHeld, "{kind:?} beside {rival:?}");
        assert!(matches!(store.renew(&rival).await, Ok(Renewal::Renewed)));
    }
}

/// One store has the record of another client, which has died. The record stays until it ends.
#[tokio::test(start_paused = true)]
async fn renewals_leave_another_holders_record_alone() {
    let members = members(3);
    let lease = members.locks().mutex("a").ttl(SECOND).lock().await.unwrap();
    members.member(0).restart_empty();
    let dead = request("a", Kind::Mutex, 5 * SECOND);
    members.member(0).store().vote(&dead, Duration::ZERO).await.unwrap();
    sleep(4 * SECOND).await;
    assert!(matches!(members.member(0).store().renew(&dead).await, Ok(Renewal::Renewed)));
    sleep(6 * SECOND).await;
    assert!(lease.is_held());
    assert!(!matches!(members.member(0).store().renew(&dead).await, Ok(Renewal::Renewed)));
    assert_eq!(holding(&members, "a").await, 3, "it is given back when the other has ended");
}

/// A repair may come after the release. It finds the id of the ended request.
#[tokio::test(start_paused = true)]
async fn a_late_repair_does_not_count() {
    for kind in ["mutex", "read", "write"] {
        let members = members(3);
        let locks = members.locks();
        let lease = take(&locks, kind).await;
        let forgetful = members.member(0);
        forgetful.restart_empty();
        // The renewal arrives, and then the repair, which is late.
        forgetful.plan(Fault::Slow(Duration::ZERO));
        forgetful.plan(Fault::Late(SECOND / 4));
        forgetful.log();
        while !forgetful.log().contains(&"repair") {
            sleep(Duration::from_millis(1)).await;
        }
        lease.release().await.unwrap();
        sleep(SECOND / 2).await;
        assert_eq!(holding(&members, "a").await, 0, "{kind}");
    }
}
