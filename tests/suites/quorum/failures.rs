//! Quorums of real, independent servers: dead, frozen, emptied by a restart, and with clocks that
//! jump.

use std::time::Duration;

use leasehold::{LockError, Locks, LossReason, QuorumLocks, Step};
use leasehold_tests::masters::Masters;
use leasehold_tests::server::{Server, free_port};
use leasehold_tests::waiting::{OwnTime, until};
use tokio::time::{Instant, timeout};

use super::LONG;

const SECOND: Duration = Duration::from_secs(1);

/// The time-out of a server: the machine may be busy.
const PATIENCE: Duration = Duration::from_millis(500);

/// A client of new servers, which have nothing to forget.
pub(crate) async fn connect(masters: &Masters) -> QuorumLocks {
    let builder = Locks::builder().assume_durable(true).command_timeout(PATIENCE);
    builder.connect_quorum(masters.urls()).await.expect("a majority is there")
}

/// The records on the servers, each with its server's index.
async fn held(servers: &[Server]) -> Vec<String> {
    let mut held = Vec::new();
    for (place, server) in servers.iter().enumerate() {
        held.extend(server.unfree().await.into_iter().map(|key| format!("{place}: {key}")));
    }
    held
}

/// Waits until this many servers hold something, well before a TTL of `LONG` is over. A client
/// needs only the answers of a majority, so the others may be late.
pub(super) async fn until_held(servers: &[Server], count: usize) {
    let waited = until("so many are held", async || held(servers).await.len() == count);
    let is_in_time = timeout(LONG * 5 / 6, waited).await.is_ok();
    assert!(is_in_time, "{count} should be held, and {:?} are", held(servers).await);
}

#[tokio::test]
async fn a_frozen_minority_is_not_waited_for() {
    let masters = Masters::start(5);
    // Longer than the test: a request to a frozen server would not come back.
    let patient = Locks::builder().assume_durable(true).command_timeout(LONG * 2);
    let locks = patient.connect_quorum(masters.urls()).await.unwrap();
    let frozen = [masters.freeze(0).await, masters.freeze(1).await];
    let work = async {
        for _ in 0..20 {
            let lease = locks.mutex("a").ttl(LONG).lock().await.unwrap();
            lease.release().await.unwrap();
            let write = locks.rw_lock("r").ttl(LONG).write().await.unwrap();
            write.renew().await.unwrap();
            write.release().await.unwrap();
        }
    };
    timeout(LONG, work).await.expect("three of five have answered");
    drop(frozen);
}

/// Half of the servers freeze in the middle of a request, and thaw at the end.
#[tokio::test]
async fn requests_to_a_frozen_majority_are_cancelled() {
    let masters = Masters::start(5);
    let locks = connect(&masters).await;
    let frozen = [masters.freeze(0).await, masters.freeze(2).await, masters.freeze(4).await];
    let time = OwnTime::begin();
    let error = locks.mutex("a").try_lock().await.unwrap_err();
    // Two time-outs.
    assert!(time.passed() < 2 * PATIENCE + SECOND, "{:?}", time.passed());
    let LockError::Quorum { cause, .. } = &error else { panic!("{error:?}") };
    assert_eq!(cause.answers().len(), 5);
    for (place, answer) in cause.answers().iter().enumerate() {
        assert_eq!(answer.server, format!("127.0.0.1:{}", masters.nodes()[place].port()));
        let is_silent = answer.answer.contains("no answer in time");
        assert_eq!(is_silent, place % 2 == 0, "{answer:?}");
    }
    drop(frozen);
    // All is cancelled long before its TTL is over.
    until_held(masters.nodes(), 0).await;
    locks.mutex("a").lock().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_lease_outlives_a_minority_and_is_lost_with_the_majority() {
    let mut masters = Masters::start(3);
    let locks = connect(&masters).await;
    let lease = locks.mutex("a").ttl(SECOND).lock().await.unwrap();
    for forgetful in [0, 1] {
        masters.restart_empty(forgetful).await;
        // The lease is restored on the server that forgot it.
        until_held(masters.nodes(), 3).await;
    }
    assert!(lease.is_held());
    masters.kill(0).await;
    masters.kill(2).await;
    assert_eq!(lease.lost().await, LossReason::Expired);
}

/// A server that was restarted empty does not count until all that it may have granted has ended.
#[tokio::test]
async fn a_server_that_was_restarted_counts_later() {
    let mut masters = Masters::start(3);
    // New servers do not count either. The server counts its age in whole seconds, which costs one
    // second.
    let builder = || Locks::builder().longest_ttl(3 * SECOND).command_timeout(PATIENCE);
    let locks = builder().connect_quorum(masters.urls()).await.unwrap();
    let error = locks.mutex("a").ttl(SECOND).try_lock().await.unwrap_err();
    assert!(error.to_string().contains("may have lost locks; it counts after 3s"), "{error}");
    let mutex = locks.mutex("a").ttl(SECOND);
    let lease = mutex.lock().await.expect("they count in time");
    masters.kill(2).await;
    masters.restart_empty(1).await;
    // One of three has the lease, and two have forgotten it. These would be the next majority.
    masters.restart_empty(2).await;
    let other = builder().connect_quorum(masters.urls()).await.unwrap();
    let begun = Instant::now();
    let second = other.mutex("a").ttl(SECOND).lock().await.unwrap();
    assert!(!lease.is_held(), "the first has ended");
    assert!(begun.elapsed() > SECOND, "{:?}", begun.elapsed());
    second.release().await.unwrap();
}

#[tokio::test]
async fn too_few_at_the_start_are_named() {
    let masters = Masters::start(1);
    let mut urls = masters.urls();
    for _ in 0..2 {
        urls.push(format!("redis://user:canary-password@127.0.0.1:{}/", free_port()));
    }
    let error = Locks::quorum(&urls).await.unwrap_err();
    let LockError::Quorum { step: Step::Connect, cause, .. } = &error else { panic!("{error:?}") };
    assert_eq!(cause.answers()[0].answer, "connected");
    assert!(cause.answers()[2].answer.contains("is the server running"), "{cause}");
    assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
}

#[tokio::test]
async fn an_invalid_quorum_is_refused() {
    let masters = Masters::start(3);
    let one = masters.urls().remove(0);
    let same = one.replace("127.0.0.1", "localhost");
    let other = masters.urls().remove(1);
    for (servers, words) in [
        (vec![], "0 servers"),
        (vec![one.clone(); 2], "2 servers"),
        (masters.urls().into_iter().chain(["redis://h/".to_owned()]).collect(), "4 servers"),
        (vec![one.clone(), other.clone(), one.clone()], "are the same server"),
        (vec![one.clone(), other.clone(), same], "are the same server"),
        (vec![one.clone(), other.clone(), "redis://a,b/".to_owned()], "single servers"),
        (vec![one, other, "redis+sentinel://a/m".to_owned()], "single servers"),
    ] {
        let error = Locks::quorum(&servers).await.unwrap_err();
        assert!(matches!(error, LockError::InvalidOption { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    for longest in [Duration::ZERO, Duration::MAX] {
        let refused = Locks::builder().longest_ttl(longest).connect_quorum(masters.urls()).await;
        assert!(matches!(refused, Err(LockError::InvalidOption { option: "longest_ttl", .. })));
    }
}

/// A server of a quorum has a tenth of the default time-out of a single server. So a client with
/// that default fails before one with half a second.
#[tokio::test]
async fn a_frozen_majority_costs_little_by_default() {
    let masters = Masters::start(3);
    let builder = || Locks::builder().assume_durable(true);
    let usual = builder().connect_quorum(masters.urls()).await.unwrap();
    let patient = builder().command_timeout(PATIENCE).connect_quorum(masters.urls()).await.unwrap();
    let frozen = [masters.freeze(0).await, masters.freeze(1).await];
    let (usual, patient) = (usual.mutex("a"), patient.mutex("b"));
    let (first, second) = (usual.try_lock(), patient.try_lock());
    let told = tokio::select! {
        biased;
        told = first => told,
        _ = second => panic!("its time-out is no shorter"),
    };
    assert!(matches!(told, Err(LockError::Quorum { .. })), "{told:?}");
    drop(frozen);
    until_held(masters.nodes(), 0).await;
}

/// A server does not count in the first minute after its start.
#[tokio::test]
async fn servers_do_not_count_in_their_first_minute_by_default() {
    let masters = Masters::start(3);
    let locks = Locks::quorum(masters.urls()).await.unwrap();
    let error = locks.mutex("a").try_lock().await.unwrap_err();
    assert!(error.to_string().contains("counts after 60s"), "{error}");
}

/// One jumping clock of five does no harm; with three, tokens fence the older holder off.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn jumping_clocks_leave_the_tokens_in_order() {
    let servers: Vec<_> = (0..5).map(|_| Server::start_skewed()).collect();
    let urls: Vec<_> = servers.iter().map(Server::url).collect();
    let builder = || Locks::builder().assume_durable(true).command_timeout(PATIENCE);
    let locks = builder().connect_quorum(&urls).await.unwrap();
    let other = builder().connect_quorum(&urls).await.unwrap();
    let lease = locks.mutex("a").ttl(LONG).lock().await.unwrap();
    let first = lease.fence().unwrap();
    until_held(&servers, 5).await;
    servers[0].jump(LONG + SECOND);
    let refused = other.mutex("a").ttl(LONG).try_lock().await;
    assert!(matches!(refused, Err(LockError::Busy { .. })), "{refused:?}");
    // The grant of the server that jumped is cancelled.
    until_held(&servers, 4).await;
    servers[1].jump(LONG + SECOND);
    servers[2].jump(LONG + SECOND);
    let second = other.mutex("a").ttl(LONG).try_lock().await.unwrap();
    assert!(lease.is_held(), "it can't know");
    assert!(second.fence().unwrap() > first);
    // The next renewal finds the loss.
    assert!(matches!(lease.renew().await, Err(LockError::Lost { .. })));
    second.release().await.unwrap();
    // The clocks go back by an hour. Tokens do not, as long as the servers remember them.
    for server in &servers {
        server.jump_back(Duration::from_secs(3600));
    }
    let third = locks.mutex("a").ttl(LONG).lock().await.unwrap();
    assert!(third.fence().unwrap() > first);
}

/// A server whose clock is far behind a token would forget the token with the lease.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn servers_with_clocks_too_far_apart_grant_nothing() {
    let servers: Vec<_> = (0..3).map(|_| Server::start_skewed()).collect();
    let urls: Vec<_> = servers.iter().map(Server::url).collect();
    let builder = Locks::builder().assume_durable(true).command_timeout(PATIENCE);
    let locks = builder.connect_quorum(&urls).await.unwrap();
    servers[0].jump(SECOND);
    // The quorum does without the server that is ahead, while two others answer.
    for _ in 0..20 {
        locks.mutex("a").ttl(LONG).lock().await.unwrap().release().await.unwrap();
        locks.rw_lock("r").ttl(LONG).write().await.unwrap().release().await.unwrap();
    }
    let frozen = servers[2].freeze().await;
    for ttl in [LONG, SECOND] {
        let error = locks.mutex("a").ttl(ttl).try_lock().await.unwrap_err();
        assert!(error.to_string().contains("too far ahead of another's"), "{error}");
    }
    drop(frozen);
}

/// The next token is greater, however soon a server forgets the last one, and even if its clock is
/// behind.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn tokens_grow_though_clocks_differ_and_nothing_is_remembered() {
    let servers: Vec<_> = (0..3).map(|_| Server::start_skewed()).collect();
    let urls: Vec<_> = servers.iter().map(Server::url).collect();
    let builder = Locks::builder().assume_durable(true).command_timeout(PATIENCE);
    let locks = builder.connect_quorum(&urls).await.unwrap();
    servers[0].jump(Duration::from_millis(90));
    let mut last = None;
    let mut grow = |lease: &leasehold::Lease| {
        let fence = lease.fence().unwrap();
        assert!(last < Some(fence), "{fence:?} after {last:?}");
        last = Some(fence);
    };
    let mutex = locks.mutex("a").hold_at_least(Duration::from_millis(1));
    // The server that is ahead takes part in some turns and not in others.
    for (turn, silent) in [2, 0, 2, 0, 1, 0].into_iter().enumerate() {
        let frozen = servers[silent].freeze().await;
        let ttl = if turn % 2 == 0 { LONG } else { SECOND };
        let lease = mutex.clone().ttl(ttl).lock().await.unwrap();
        grow(&lease);
        lease.release().await.unwrap();
        drop(frozen);
    }
    let rw =
        locks.rw_lock("r").read_ttl(Duration::from_millis(100)).write_ttl(LONG).auto_renew(false);
    for silent in [2, 0, 2, 0] {
        let frozen = servers[silent].freeze().await;
        let lease = rw.write().await.unwrap();
        grow(&lease);
        lease.release().await.unwrap();
        // By then only the reader's lease keeps the record.
        rw.read().await.unwrap().lost().await;
        drop(frozen);
    }
}

/// A replica is tolerated as one faulty server of three. Two replicas are refused.
#[tokio::test]
async fn a_replica_is_no_server_of_a_quorum() {
    let masters = Masters::start(4);
    let mut follow = redis::cmd("REPLICAOF");
    follow.arg("127.0.0.1").arg(masters.nodes()[3].port());
    follow.exec_async(&mut masters.nodes()[0].redis().await).await.unwrap();
    let builder = || Locks::builder().assume_durable(true).command_timeout(PATIENCE);
    let urls = &masters.urls()[..3];
    let locks = builder().connect_quorum(urls).await.unwrap();
    locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    follow.exec_async(&mut masters.nodes()[1].redis().await).await.unwrap();
    let error = builder().connect_quorum(urls).await.unwrap_err();
    assert!(error.to_string().contains("is a replica"), "{error}");
}
