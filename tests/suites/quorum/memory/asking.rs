//! Acquiring a lock: votes, missing servers, and the token.

use std::time::Duration;

use leasehold::LockError;
use leasehold_tests::members::{Fault, Members, TIME_OUT};
use tokio::time::{Instant, sleep};

use super::{SECOND, holding, members, shown};
use crate::quorum::LONG;

#[tokio::test(start_paused = true)]
async fn one_holds_at_a_time_and_a_release_frees() {
    let members = members(3);
    let (one, other) = (members.locks(), members.locks());
    let lease = one.mutex("a").lock().await.unwrap();
    let refused = other.mutex("a").try_lock().await;
    assert!(matches!(refused, Err(LockError::Busy { .. })), "{refused:?}");
    let first = lease.fence().unwrap();
    lease.release().await.unwrap();
    assert_eq!(holding(&members, "a").await, 0);
    let lease = other.mutex("a").try_lock().await.unwrap();
    assert!(lease.fence().unwrap() > first);
}

#[tokio::test(start_paused = true)]
async fn a_dead_or_frozen_minority_is_tolerated() {
    let members = members(5);
    members.member(0).kill();
    members.member(1).freeze();
    let locks = members.locks();
    let begun = Instant::now();
    let lease = locks.mutex("a").try_lock().await.unwrap();
    let read = locks.rw_lock("r").try_read().await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO, "three have answered, and are enough");
    lease.release().await.unwrap();
    read.release().await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
    members.member(1).thaw();
    sleep(SECOND).await;
    assert_eq!(holding(&members, "a").await + holding(&members, "r").await, 0);
}

/// Nothing is left, not even on a server that never answered.
#[tokio::test(start_paused = true)]
async fn without_a_majority_the_error_lists_each_answer() {
    let members = members(5);
    members.member(0).kill();
    members.member(1).freeze();
    members.member(2).freeze();
    let locks = members.locks();
    let begun = Instant::now();
    let error = locks.mutex("a").try_lock().await.unwrap_err();
    assert!(begun.elapsed() <= 2 * TIME_OUT, "{:?}", begun.elapsed());
    let LockError::Quorum { cause, .. } = &error else { panic!("{error:?}") };
    let answers: Vec<_> = cause.answers().iter().map(|it| &*it.answer).collect();
    assert!(cause.needed() == 3 && answers.len() == 5, "{cause}");
    assert_eq!(answers[0], "is it running?");
    assert_eq!(answers[1..3], ["no answer in time"; 2]);
    assert_eq!(answers[3..], ["granted, and taken back"; 2]);
    let text = error.to_string();
    assert!(text.contains("`a`") && text.contains("server 1: no answer in time"), "{text}");

    assert_eq!(holding(&members, "a").await, 0, "what was granted is taken back at once");
    members.member(1).thaw();
    members.member(2).thaw();
    sleep(SECOND).await;
    assert_eq!(holding(&members, "a").await, 0, "and the rest when it can be");
    locks.mutex("a").try_lock().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_asks_until_there_is_a_majority_again() {
    let members = members(3);
    members.member(0).kill();
    members.member(1).kill();
    let locks = members.locks();
    let waiting = tokio::spawn(async move { locks.mutex("a").lock().await });
    sleep(5 * SECOND).await;
    members.member(1).revive();
    waiting.await.unwrap().unwrap().release().await.unwrap();

    members.member(1).kill();
    let begun = Instant::now();
    let error = members.locks().mutex("a").wait(2 * SECOND).lock().await.unwrap_err();
    assert!(matches!(error, LockError::Quorum { .. }), "{error}");
    assert!(begun.elapsed() >= 2 * SECOND && begun.elapsed() < 3 * SECOND);
}

/// The lead of a clock over the others, in microseconds.
const AHEAD: i64 = 90_000;

/// A later majority may share only one store with an earlier one. That store may have given the
/// smallest of the earlier tokens.
#[tokio::test(start_paused = true)]
async fn tokens_grow_from_one_majority_to_the_next() {
    for kind in ["mutex", "write"] {
        let members = members(3);
        let locks = members.locks();
        let grant = async || match kind {
            "mutex" => locks.mutex("a").try_lock().await.unwrap(),
            _ => locks.rw_lock("a").try_write().await.unwrap(),
        };
        // The clock is as far ahead as it may be.
        members.member(0).jump(AHEAD);
        let mut last = None;
        for dead in [2, 0, 1, 2, 0, 0, 1] {
            members.member(dead).kill();
            let lease = grant().await;
            let fence = lease.fence().unwrap();
            assert!(last < Some(fence), "{last:?}, {fence:?}");
            last = Some(fence);
            lease.release().await.unwrap();
            members.member(dead).revive();
        }
    }
}

/// If only one of three servers knows a token, the next majority may be without it.
#[tokio::test(start_paused = true)]
async fn a_token_that_is_not_written_back_is_not_granted() {
    let members = members(3);
    let locks = members.locks();
    members.member(0).jump(AHEAD);
    members.member(2).kill();
    // This server answers the vote, but not the repair.
    let member = members.member(1);
    member.plan(Fault::Slow(Duration::ZERO));
    member.plan(Fault::LoseCommand);
    let error = locks.mutex("a").try_lock().await.unwrap_err();
    assert!(matches!(error, LockError::Quorum { .. }), "{error}");
    assert_eq!(member.log()[..2], ["vote", "repair"]);
    sleep(SECOND).await;
    assert_eq!(holding(&members, "a").await, 0, "it is taken back");
    member.log();
    let lease = locks.mutex("a").try_lock().await.unwrap();
    assert_eq!(member.log(), ["vote", "repair"]);
    for place in [0, 1] {
        let holder = shown(&members, place, "a").await.holders.pop().unwrap();
        assert_eq!(holder.fence, Some(lease.fence().unwrap()));
    }
}

/// A server that votes late is told the token, and replaces a server that does not answer.
#[tokio::test(start_paused = true)]
async fn a_late_voter_is_told_the_token() {
    let members = members(5);
    members.member(0).jump(AHEAD);
    members.member(4).kill();
    // This server grants the lock, but is not told the token.
    members.member(2).plan(Fault::Slow(Duration::ZERO));
    members.member(2).plan(Fault::LoseCommand);
    let late = members.member(3);
    late.plan(Fault::Slow(TIME_OUT / 5));
    let begun = Instant::now();
    let lease = members.locks().mutex("a").try_lock().await.unwrap();
    assert!(begun.elapsed() < TIME_OUT, "{:?}", begun.elapsed());
    assert_eq!(late.log(), ["vote", "repair"]);
    for place in [0, 1, 3] {
        let holder = shown(&members, place, "a").await.holders.pop().unwrap();
        assert_eq!(holder.fence, Some(lease.fence().unwrap()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_longer_than_the_start_delay_is_refused() {
    let members = Members::start(3, SECOND, SECOND);
    let mutex = members.locks().mutex("a");
    for (option, refused) in [
        ("ttl", mutex.clone().ttl(2 * SECOND).lock().await),
        ("hold_at_least", mutex.clone().ttl(SECOND).hold_at_least(2 * SECOND).lock().await),
    ] {
        let Err(LockError::InvalidOption { option: named, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(named, option);
    }
}

#[tokio::test(start_paused = true)]
async fn one_name_is_one_kind_of_lock() {
    let members = members(3);
    let locks = members.locks();
    let _lease = locks.mutex("a").lock().await.unwrap();
    let error = locks.rw_lock("a").try_read().await.unwrap_err();
    assert!(matches!(error, LockError::WrongKind { .. }), "{error}");
}

/// The order is not guaranteed, but every waiter is served, and soon.
#[tokio::test(start_paused = true)]
async fn every_waiter_is_served() {
    let members = members(5);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let locks = members.locks();
        tasks.spawn(async move {
            for _ in 0..20 {
                let lease = locks.mutex("a").wait(LONG).lock().await.unwrap();
                sleep(Duration::from_millis(1)).await;
                lease.release().await.unwrap();
                sleep(Duration::from_millis(5)).await;
            }
        });
    }
    let begun = Instant::now();
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    // 160 stays of a millisecond, and the pauses between tries.
    assert!(begun.elapsed() < 10 * SECOND, "{:?}", begun.elapsed());
}
