//! Locks that linger: a drop leaves nothing, names add up to nothing, and tokens grow.
//!
//! The clock of the server stands still where a drop is tested, so a free lock was released.

use std::time::Duration;

use leasehold::{Lease, LockError, Locks, Released};
use leasehold_tests::polls::drop_after;
use leasehold_tests::server::Server;

use super::{TTL, is_long, timeless};

/// Long enough for all polls of one future.
const LINGER: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Mutex,
    Permit,
    Read,
    Write,
}

const KINDS: [Kind; 4] = [Kind::Mutex, Kind::Permit, Kind::Read, Kind::Write];

impl Kind {
    /// The kind that excludes it.
    fn rival(self) -> Self {
        if matches!(self, Self::Read) { Self::Write } else { self }
    }

    async fn acquire(self, locks: &Locks, name: &str, wait: Duration) -> Result<Lease, LockError> {
        let semaphore = locks.semaphore(name, 1).ttl(TTL).wait(wait).linger(LINGER);
        let rw_lock = locks.rw_lock(name).ttl(TTL).wait(wait).linger(LINGER);
        match self {
            Self::Mutex => locks.mutex(name).ttl(TTL).wait(wait).linger(LINGER).lock().await,
            Self::Permit => semaphore.acquire().await,
            Self::Read => rw_lock.read().await,
            Self::Write => rw_lock.write().await,
        }
    }
}

/// A server on which nothing expires, and two clients whose locks linger.
async fn setting() -> (Server, Locks, Locks) {
    let server = timeless();
    let here = Locks::connect(&server.url()).await.unwrap();
    let elsewhere = Locks::connect(&server.url()).await.unwrap();
    for locks in [&here, &elsewhere] {
        // Until a connection for hints is open, nothing lingers.
        let lingers = async || {
            let lease = Kind::Mutex.acquire(locks, "first", TTL).await.unwrap();
            lease.release().await.unwrap() == Released::Lingers
        };
        while !lingers().await {}
        locks.mutex("first").lock().await.unwrap().release().await.map(drop).unwrap();
    }
    (server, here, elsewhere)
}

/// Runs it for each kind, on a new name, with no poll, with one, with two, and so on, until it says
/// that it is done.
async fn at_each_poll(mut is_done: impl AsyncFnMut(Kind, &str, usize) -> bool) {
    let mut dropped = 0;
    for round in 0..3 {
        for kind in KINDS {
            for polls in 0..100 {
                if is_done(kind, &format!("{kind:?}:{round}:{polls}"), polls).await {
                    break;
                }
                assert!(polls < 99, "it never completes");
                dropped += polls.min(1);
            }
        }
    }
    assert!(dropped > 0, "it never suspends, so it was never dropped");
}

#[tokio::test]
async fn an_acquisition_of_a_lock_that_lingers_elsewhere_is_dropped() {
    let (server, here, elsewhere) = setting().await;
    for wait in [TTL, Duration::ZERO] {
        at_each_poll(async |kind, name, polls| {
            let name = format!("{name}:{wait:?}");
            let held = kind.rival().acquire(&elsewhere, &name, TTL).await.unwrap();
            let _ = held.release().await.unwrap();
            drop_after(polls, kind.acquire(&here, &name, wait)).await.is_some()
        })
        .await;
    }
    server.until_all_is_free().await;
}

#[tokio::test]
async fn a_release_into_lingering_is_dropped() {
    let (server, here, _) = setting().await;
    at_each_poll(async |kind, name, polls| {
        let held = kind.acquire(&here, name, TTL).await.unwrap();
        drop_after(polls, held.release()).await.is_some_and(|it| it.is_ok())
    })
    .await;
    server.until_all_is_free().await;
}

/// The first task is dropped while it waits behind a lease that is in use, or has just ended. The
/// second gets the lease all the same.
#[tokio::test]
async fn a_waiter_behind_a_lease_that_lingers_is_dropped() {
    let (server, here, _) = setting().await;
    at_each_poll(async |kind, name, polls| {
        let held = kind.rival().acquire(&here, name, TTL).await.unwrap();
        let _ = held.release().await.unwrap();
        // This one was idle.
        let held = kind.rival().acquire(&here, name, TTL).await.unwrap();
        let release = tokio::spawn(async move { held.release().await.map(drop) });
        let taken = drop_after(polls, kind.acquire(&here, name, TTL)).await;
        release.await.unwrap().unwrap();
        let is_done = taken.is_some();
        drop(taken);
        kind.acquire(&here, name, TTL).await.unwrap().release().await.unwrap();
        is_done
    })
    .await;
    server.until_all_is_free().await;
}

/// `./tests/run long` makes a million local grants, and ten thousand recalls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_grow_over_local_grants_and_recalls() {
    const GRANTS: u64 = 100;
    let names = if is_long() { 10_000 } else { 300 };
    let server = Server::start();
    let here = Locks::connect(&server.url()).await.unwrap();
    let elsewhere = Locks::connect(&server.url()).await.unwrap();
    let mut lingered = 0;
    for n in 0..names {
        let name = format!("token:{n}");
        let mutex = here.mutex(&name).linger(Duration::from_secs(2));
        let mut last = 0;
        let mut grows = |lease: &Lease| {
            let token = lease.fence().unwrap().get();
            assert!(token > last, "{token} after {last}");
            last = token;
        };
        for _ in 0..GRANTS {
            let lease = mutex.lock().await.unwrap();
            grows(&lease);
            lingered += u64::from(lease.release().await.unwrap() == Released::Lingers);
        }
        // It recalls the lease.
        let lease = elsewhere.mutex(&name).wait(Duration::from_secs(5)).lock().await.unwrap();
        grows(&lease);
        lease.release().await.unwrap();
        let lease = mutex.lock().await.unwrap();
        grows(&lease);
        lease.release().await.unwrap();
    }
    println!("{lingered} of {} leases lingered", names * GRANTS);
    // A busy machine may recall some twice, or lose its hints.
    assert!(lingered > names * GRANTS * 9 / 10, "{lingered}");
}
