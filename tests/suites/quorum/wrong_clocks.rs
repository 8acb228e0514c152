//! Real servers. Most clocks are right, and the others are far off. The tokens of a wrong clock do
//! not spread.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::LONG;
use super::failures::until_held;
use futures_util::future::join_all;
use leasehold::store::Kind;
use leasehold::{Lease, LockError, LockKey, Locks, QuorumLocks};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::until_outlived;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// After a majority's release the others may hold for a moment.
const WAIT: Duration = Duration::from_secs(3);

/// Three servers, and a client of theirs.
async fn start() -> (Vec<Server>, QuorumLocks) {
    let servers: Vec<_> = (0..3).map(|_| Server::start_skewed()).collect();
    let builder = Locks::builder().assume_durable(true).command_timeout(SECOND / 2);
    let locks =
        builder.connect_quorum(servers.iter().map(Server::url).collect::<Vec<_>>()).await.unwrap();
    (servers, locks)
}

async fn take(locks: &QuorumLocks, kind: Kind, ttl: Duration) -> Result<Lease, LockError> {
    let (mutex, rw) =
        (locks.mutex("a").ttl(ttl).wait(WAIT), locks.rw_lock("a").ttl(ttl).wait(WAIT));
    match kind {
        Kind::Mutex => mutex.lock().await,
        Kind::Read => rw.read().await,
        _ => rw.write().await,
    }
}

/// The next token of a lock that nobody else wants.
async fn next(locks: &QuorumLocks, kind: Kind) -> u64 {
    let kind = if kind == Kind::Read { Kind::Write } else { kind };
    let lease = take(locks, kind, LONG).await.expect("most clocks are right");
    let fence = lease.fence().unwrap();
    lease.release().await.unwrap();
    fence.into()
}

/// By how many seconds a token is ahead of the right clocks.
fn ahead(token: u64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(token / 1_000_000).unwrap() - i64::try_from(now.as_secs()).unwrap()
}

/// A server that was frozen gets the lease back, but not the token of a server whose clock is
/// ahead.
#[tokio::test]
async fn a_fast_clock_gives_no_token_to_a_former_holder() {
    // On a busy machine a renewal may be late, but not by a second.
    let ttl = SECOND * 2;
    // The kinds share the time for which a server is frozen.
    let kinds = [Kind::Mutex, Kind::Read, Kind::Write].map(async |kind| {
        let (servers, locks) = start().await;
        servers[2].jump(HOUR);
        let first = next(&locks, kind).await;
        let lease = take(&locks, kind, ttl).await.unwrap();
        let keys = if kind == Kind::Mutex { 3 } else { 6 };
        until_held(&servers, keys).await;
        let frozen = servers[0].freeze().await;
        until_outlived(&lease, ttl).await;
        drop(frozen);
        until_held(&servers, keys).await;
        lease.release().await.expect("the others held it all the time");
        let second = next(&locks, kind).await;
        assert!(first < second && ahead(second).abs() < 60, "{kind:?}: {first}, {second}");
        // The two servers with right clocks need no third.
        servers[2].kill().await;
        let third = next(&locks, kind).await;
        assert!(second < third && ahead(third).abs() < 60, "{kind:?}: {second}, {third}");
    });
    join_all(kinds).await;
}

/// One clock is wrong, in whatever order the servers answer. Then the clock is right again, but its
/// records are not.
#[tokio::test]
async fn one_wrong_clock_of_three_costs_no_acquire() {
    for kind in [Kind::Mutex, Kind::Write] {
        let (servers, locks) = start().await;
        let mut last = 0;
        let mut grow = |token| {
            assert!(last < token && ahead(token).abs() < 60, "{kind:?}: {last}, {token}");
            last = token;
        };
        for jump in [HOUR, SECOND * 31] {
            for is_ahead in [true, false] {
                let there = |server: &Server| {
                    if is_ahead { server.jump(jump) } else { server.jump_back(jump) }
                };
                let back = |server: &Server| {
                    if is_ahead { server.jump_back(jump) } else { server.jump(jump) }
                };
                there(&servers[2]);
                for _ in 0..30 {
                    grow(next(&locks, kind).await);
                }
                back(&servers[2]);
                for _ in 0..10 {
                    grow(next(&locks, kind).await);
                }
            }
        }
        // The grants of the wrong clock do not prevent a grant now.
        let frozen = servers[0].freeze().await;
        grow(next(&locks, kind).await);
        drop(frozen);
    }
}

/// The token is from a time when the clock was wrong, or from an earlier version.
#[tokio::test]
async fn a_token_far_ahead_of_its_servers_clock_is_ignored() {
    for kind in [Kind::Mutex, Kind::Write] {
        let (servers, locks) = start().await;
        let mut last = next(&locks, kind).await;
        for place in 0..3 {
            let key = LockKey::new("a").unwrap().in_store("leasehold", "lock");
            let mut write = redis::cmd("SETRANGE");
            write.arg(key).arg(36).arg(format!("{:016}", last + 3_600_000_000));
            write.exec_async(&mut servers[place].redis().await).await.unwrap();
            // The quorum needs this server's vote.
            let frozen = servers[(place + 1) % 3].freeze().await;
            let token = next(&locks, kind).await;
            assert!(last < token && ahead(token).abs() < 60, "{kind:?}: {last}, {token}");
            last = token;
            drop(frozen);
        }
    }
}

/// A majority has tokens of clocks that were wrong by different times: a holder may have the lesser
/// one. All clocks are right by now.
#[tokio::test]
async fn tokens_continue_where_a_majority_is_ahead_by_different_times() {
    for kind in [Kind::Mutex, Kind::Write] {
        let (servers, locks) = start().await;
        let last = next(&locks, kind).await;
        for (server, more) in servers.iter().zip([HOUR, HOUR + 31 * SECOND]) {
            let key = LockKey::new("a").unwrap().in_store("leasehold", "lock");
            let mut write = redis::cmd("SETRANGE");
            let token = last + u64::try_from(more.as_micros()).unwrap();
            write.arg(key).arg(36).arg(format!("{token:016}"));
            write.exec_async(&mut server.redis().await).await.unwrap();
        }
        let token = next(&locks, kind).await;
        let floor = last + u64::try_from(HOUR.as_micros()).unwrap();
        assert!(floor < token && ahead(token) < 3600 + 20, "{kind:?}: {floor}, {token}");
    }
}

/// A holder may have this token. Then the clocks are wrong.
#[tokio::test]
async fn tokens_continue_from_one_that_a_majority_remembers() {
    for kind in [Kind::Mutex, Kind::Write] {
        let (servers, locks) = start().await;
        let first = next(&locks, kind).await;
        for server in &servers {
            server.jump_back(HOUR);
        }
        let second = next(&locks, kind).await;
        assert!(first < second, "{kind:?}: {first}, {second}");
    }
}
