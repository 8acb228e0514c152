//! One clock is wrong, or was, while the others are right.

use std::time::Duration;

use leasehold::{Lease, LockError, QuorumLocks};
use leasehold_tests::members::{BEGINNING, Fault, TIME_OUT};
use tokio::time::{Instant, sleep};

use super::{SECOND, members, shown, take};

/// In microseconds.
const SECONDS: i64 = 1_000_000;

/// The most that a token may be off, because answers take time.
const OFF: i64 = 50_000;

/// Far ahead and far behind.
const WRONG: [i64; 4] = [3600 * SECONDS, 31 * SECONDS, -31 * SECONDS, -3600 * SECONDS];

async fn try_take(locks: &QuorumLocks, kind: &str) -> Result<Lease, LockError> {
    match kind {
        "mutex" => locks.mutex("a").ttl(SECOND).try_lock().await,
        _ => locks.rw_lock("a").ttl(SECOND).try_write().await,
    }
}

/// Acquires and releases the lock. Returns the token.
async fn token(locks: &QuorumLocks, kind: &str) -> u64 {
    let lease = try_take(locks, kind).await.expect("most clocks are right");
    let token = lease.fence().unwrap().into();
    lease.release().await.unwrap();
    token
}

/// By how much a token is ahead of the right clocks, in microseconds.
fn ahead(token: u64, begun: Instant) -> i64 {
    let now = BEGINNING + u64::try_from(begun.elapsed().as_micros()).unwrap();
    token.cast_signed() - now.cast_signed()
}

/// It does not matter which server answers last.
#[tokio::test(start_paused = true)]
async fn one_wrong_clock_of_three_costs_no_acquire() {
    for kind in ["mutex", "write"] {
        for wrong in WRONG {
            let (members, begun) = (members(3), Instant::now());
            let (locks, mut last) = (members.locks(), 0);
            members.member(2).jump(wrong);
            for late in [0, 1, 2, 0, 1, 2] {
                members.member(late).plan(Fault::Slow(TIME_OUT / 5));
                let token = token(&locks, kind).await;
                assert!(last < token && ahead(token, begun).abs() < OFF, "{late}: {wrong}");
                last = token;
            }
        }
    }
}

/// The clock is right again, but the tokens that its server remembers are not.
#[tokio::test(start_paused = true)]
async fn tokens_of_a_formerly_wrong_clock_do_not_prevent_a_grant() {
    for kind in ["mutex", "write"] {
        for wrong in WRONG {
            let (members, begun) = (members(3), Instant::now());
            let locks = members.locks();
            members.member(2).jump(wrong);
            let first = token(&locks, kind).await;
            members.member(2).jump(-wrong);
            members.member(0).kill();
            let second = token(&locks, kind).await;
            assert!(first < second && ahead(second, begun).abs() < OFF, "{second}, {wrong}");
        }
    }
}

/// No other clock confirms the token. Once its clock is right again, that one does not either.
#[tokio::test(start_paused = true)]
async fn a_clock_far_ahead_does_not_confirm_a_token() {
    for kind in ["mutex", "write"] {
        let members = members(3);
        let locks = members.locks();
        // The clock is as far ahead as it may be.
        members.member(0).jump(90_000);
        members.member(2).jump(3600 * SECONDS);
        let first = token(&locks, kind).await;
        members.member(2).jump(-3600 * SECONDS);
        members.member(0).kill();
        let second = token(&locks, kind).await;
        assert!(first < second, "{first}, {second}");
    }
}

/// The server with the wrong clock has the lease, and its token stays its own.
#[tokio::test(start_paused = true)]
async fn a_wrong_clock_gives_no_token_to_a_restored_lease() {
    for kind in ["mutex", "read", "write"] {
        for wrong in WRONG {
            let (members, begun) = (members(3), Instant::now());
            let locks = members.locks();
            members.member(2).jump(wrong);
            drop(take(&locks, "write").await);
            let lease = take(&locks, kind).await;
            members.member(0).restart_empty();
            sleep(SECOND / 2).await;
            assert_eq!(shown(&members, 0, "a").await.holders.len(), 1, "{kind}");
            lease.release().await.unwrap();
            members.member(2).kill();
            let write = if kind == "read" { "write" } else { kind };
            let next = token(&locks, write).await;
            assert!(ahead(next, begun).abs() < OFF, "{kind}: {next}, {wrong}");
        }
    }
}

/// Two servers can't tell which clock is wrong. Each learns the other's time.
#[tokio::test(start_paused = true)]
async fn two_clocks_that_differ_grant_nothing() {
    for wrong in WRONG {
        let members = members(3);
        members.member(2).jump(wrong);
        members.member(0).kill();
        let error = try_take(&members.locks(), "mutex").await.unwrap_err();
        let LockError::Quorum { cause, .. } = &error else { panic!("{error:?}") };
        let (ahead, behind) = if wrong > 0 { (2, 1) } else { (1, 2) };
        let said = |place: usize| &*cause.answers()[place].answer;
        assert!(said(ahead).contains("too far ahead of another's"), "{error}");
        assert!(said(behind).contains("too far behind another's"), "{error}");
        sleep(Duration::from_millis(1)).await;
        assert_eq!(super::holding(&members, "a").await, 0);
    }
}
