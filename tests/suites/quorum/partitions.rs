//! Each client reaches other servers than the next: links are cut one by one, and neither the
//! servers nor the clients know.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{LockError, Locks, LossReason, QuorumLocks};
use leasehold_tests::masters::Masters;
use leasehold_tests::waiting::{OwnTime, work_for};
use redis_server_wrapper::{Direction, FaultProxy};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::random::{Records, What};

const TTL: Duration = Duration::from_secs(1);

/// The time-out of a server.
const PATIENCE: Duration = Duration::from_millis(200);

/// Much longer than anything here takes.
const SOON: Duration = Duration::from_secs(60);

/// A client, and its links to the servers.
struct Client {
    locks: QuorumLocks,
    links: Vec<FaultProxy>,
}

impl Client {
    async fn of(masters: &Masters) -> Self {
        let mut links = Vec::new();
        for server in masters.nodes() {
            links.push(FaultProxy::spawn(("127.0.0.1", server.port())).await.unwrap());
        }
        let urls = links.iter().map(|link| format!("redis://{}/", link.addr()));
        let builder = Locks::builder().assume_durable(true).command_timeout(PATIENCE);
        let locks = builder.connect_quorum(urls.collect::<Vec<_>>()).await.unwrap();
        Self { locks, links }
    }

    /// Cuts all links except those to these servers. Data on its way arrives when the link is back.
    fn reaches(&self, which: impl Fn(usize) -> bool) {
        for (place, link) in self.links.iter().enumerate() {
            for direction in [Direction::ClientToUpstream, Direction::UpstreamToClient] {
                if which(place) {
                    link.clear_stall(direction);
                } else {
                    link.set_stall(direction);
                }
            }
        }
    }
}

#[tokio::test]
async fn only_the_side_with_the_majority_is_served() {
    let masters = Masters::start(5);
    let (few, many) = (Client::of(&masters).await, Client::of(&masters).await);
    let lease = few.locks.mutex("a").ttl(TTL).lock().await.unwrap();
    let first = lease.fence().unwrap();
    let (waiting, mutex) = (OwnTime::begin(), many.locks.mutex("a").ttl(TTL).wait(SOON));
    few.reaches(|place| place < 2);
    many.reaches(|place| place >= 2);
    let next = mutex.lock().await.unwrap();
    assert!(!lease.is_held(), "its time was over before");
    assert!(waiting.passed() < 3 * TTL, "{:?}", waiting.passed());
    assert!(next.fence().unwrap() > first);
    assert_eq!(lease.lost().await, LossReason::Expired);
    // The lease ends even on the minority that renewed it last.
    drop(lease);
    for server in &masters.nodes()[..2] {
        server.until_all_is_free().await;
    }
    for _ in 0..3 {
        let refused = few.locks.mutex("a").try_lock().await;
        assert!(matches!(refused, Err(LockError::Quorum { .. })), "{refused:?}");
        assert!(next.is_held());
    }
    next.release().await.unwrap();
    many.locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    few.reaches(|_| true);
    let served = few.locks.mutex("a").wait(SOON).lock().await.unwrap();
    served.release().await.unwrap();
}

/// Acquires and releases for ever.
async fn come_and_go(locks: QuorumLocks, records: Arc<Records>) {
    loop {
        let asked = locks.mutex("a").ttl(TTL).wait(TTL).lock().await;
        match asked {
            Ok(lease) => {
                records.note(What::Mutex, &lease);
                if fastrand::u8(..20) == 0 {
                    // Too long for a holder that can't renew.
                    work_for(TTL * 2).await;
                } else {
                    work_for(Duration::from_millis(fastrand::u64(..20))).await;
                }
                let _ = lease.release().await;
            }
            Err(LockError::Quorum { .. } | LockError::TimedOut { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

/// Both sides may reach the majority's common server, or neither side a majority. A command to an
/// unreachable server arrives later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unstable_links_never_allow_two_holders() {
    let masters = Masters::start(5);
    let clients = [Client::of(&masters).await, Client::of(&masters).await];
    let (records, mut tasks) = (Arc::<Records>::default(), JoinSet::new());
    for client in &clients {
        for _ in 0..2 {
            tasks.spawn(come_and_go(client.locks.clone(), records.clone()));
        }
    }
    let until = Instant::now() + Duration::from_secs(10);
    let mut rng = fastrand::Rng::new();
    println!("seed {}", rng.get_seed());
    // On a busy machine it takes longer until that proves something.
    while Instant::now() < until || records.grants() < 50 {
        let client = &clients[rng.usize(..2)];
        let reached = [(); 5].map(|()| rng.u8(..10) < 7);
        client.reaches(|place| reached[place]);
        work_for(Duration::from_millis(rng.u64(50..600))).await;
        assert_eq!(records.wrong(), None);
    }
    for client in &clients {
        client.reaches(|_| true);
    }
    tasks.shutdown().await;
    for client in &clients {
        let again = timeout(SOON, client.locks.mutex("a").wait(SOON).lock()).await;
        let lease = again.expect("it is served").unwrap();
        records.note(What::Mutex, &lease);
        lease.release().await.unwrap();
    }
    assert_eq!(records.wrong(), None);
}
