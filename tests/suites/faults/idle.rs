//! How long an idle lease may be taken up: for its own linger, and not after the store has
//! forgotten it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::store::validity;
use leasehold::{Lease, LockError, Locks, Released};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(30);

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(200);
const LITTLE: Duration = Duration::from_millis(50);

/// For so long after the store has confirmed an idle lease, it is taken up without a question.
const CONFIRMED: Duration = Duration::from_secs(1);

/// The kinds that can linger.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Mutex,
    Permit,
    Reader,
    Writer,
}

const KINDS: [Kind; 4] = [Kind::Mutex, Kind::Permit, Kind::Reader, Kind::Writer];

impl Kind {
    /// Acquires the lock `a`, in a way that excludes all others of its kind if one is held.
    async fn acquire(self, locks: &Locks, wait: Duration, renew: bool) -> Result<Lease, LockError> {
        let mutex = locks.mutex("a").ttl(TTL).wait(wait).linger(LONG).auto_renew(renew);
        let permits = locks.semaphore("a", 1).ttl(TTL).wait(wait).linger(LONG).auto_renew(renew);
        let rw = locks.rw_lock("a").ttl(TTL).wait(wait).linger(LONG).auto_renew(renew);
        match self {
            Self::Mutex => mutex.lock().await,
            Self::Permit => permits.acquire().await,
            Self::Reader => rw.read().await,
            Self::Writer => rw.write().await,
        }
    }

    async fn idle(self, locks: &Locks) {
        let lease = self.acquire(locks, LONG, true).await.unwrap();
        assert_eq!(lease.release().await.unwrap(), Released::Lingers, "{self:?}");
    }

    /// Takes the lock so that none of this kind has room beside it.
    async fn exclude(self, locks: &Locks) -> Lease {
        match self {
            Self::Reader => Self::Writer,
            other => other,
        }
        .acquire(locks, Duration::ZERO, true)
        .await
        .unwrap()
    }

    async fn is_refused(self, locks: &Locks) {
        let refused = self.acquire(locks, Duration::ZERO, true).await;
        assert!(matches!(refused, Err(LockError::Busy { .. })), "{self:?}: {refused:?}");
        let refused = self.acquire(locks, LITTLE, true).await;
        assert!(matches!(refused, Err(LockError::TimedOut { .. })), "{self:?}: {refused:?}");
    }
}

async fn held(locks: &Locks, name: &str) -> u64 {
    locks.inspect(name).await.unwrap().held
}

/// Neither a lease that lingers beside it nor the last use of the lock makes it linger for longer,
/// or for a shorter time.
#[tokio::test(start_paused = true)]
async fn each_lease_ends_after_its_own_linger() {
    for lingers in [[LONG, SHORT], [SHORT, LONG]] {
        let locks = Locks::in_memory();
        let mutex = locks.mutex("a").ttl(TTL);
        let permits = locks.semaphore("s", 2).ttl(TTL);
        let mut leases = Vec::new();
        for linger in lingers {
            let lease = mutex.clone().linger(linger).lock().await.unwrap();
            assert_eq!(lease.release().await.unwrap(), Released::Lingers);
            leases.push(permits.clone().linger(linger).acquire().await.unwrap());
        }
        for lease in leases {
            assert_eq!(lease.release().await.unwrap(), Released::Lingers);
        }
        let begun = Instant::now();
        assert_eq!((held(&locks, "a").await, held(&locks, "s").await), (1, 2), "{lingers:?}");
        sleep(SHORT + LITTLE).await;
        let is_short = u64::from(lingers[1] == SHORT);
        assert_eq!((held(&locks, "a").await, held(&locks, "s").await), (1 - is_short, 1));
        assert_eq!(begun.elapsed(), SHORT + LITTLE);
    }
}

/// The store forgets the lock, and another client gets it.
#[tokio::test(start_paused = true)]
async fn an_idle_lease_that_the_store_forgot_is_not_taken_up_a_second_later() {
    for kind in KINDS {
        let (here, faults) = Locks::in_memory_with_faults();
        let elsewhere = Locks::over(faults.store().clone());
        kind.idle(&here).await;
        assert!(faults.expire("a"), "{kind:?}");
        let others = kind.exclude(&elsewhere).await;
        sleep(CONFIRMED + LITTLE).await;
        kind.is_refused(&here).await;
        others.release_now().await.unwrap();
        drop(kind.acquire(&here, LITTLE, true).await.unwrap());
    }
}

/// While it is used again and again, a lease is confirmed in the background.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_used_all_the_time_is_lost_soon_after_the_store_forgot_it() {
    for kind in KINDS {
        let (here, faults) = Locks::in_memory_with_faults();
        let elsewhere = Locks::over(faults.store().clone());
        kind.idle(&here).await;
        let uses = async |times: u32| {
            for _ in 0..times {
                kind.acquire(&here, Duration::ZERO, true).await.unwrap().release().await.unwrap();
                sleep(LITTLE).await;
            }
        };
        faults.store().log();
        uses(100).await;
        let log = faults.store().log();
        let questions = log.iter().filter(|command| **command == "linger").count();
        assert!(log.len() <= 11 && questions == log.len(), "{kind:?}: {log:?}");
        assert!(faults.expire("a"));
        let others = kind.exclude(&elsewhere).await;
        sleep(CONFIRMED).await;
        kind.is_refused(&here).await;
        drop(others);
    }
}

/// No task renews it, so it lasts for what is left.
#[tokio::test(start_paused = true)]
async fn a_lease_without_renewals_has_its_whole_ttl() {
    for kind in KINDS {
        let locks = Locks::in_memory();
        kind.idle(&locks).await;
        for idle_for in [Duration::ZERO, CONFIRMED / 2, TTL / 4, TTL] {
            sleep(idle_for).await;
            let lease = kind.acquire(&locks, Duration::ZERO, false).await.unwrap();
            assert_eq!(lease.remaining(), validity(TTL), "{kind:?} after {idle_for:?}");
            assert_eq!(lease.release().await.unwrap(), Released::Lingers);
        }
        if matches!(kind, Kind::Reader) {
            continue;
        }
        // A task that waits gets it from one that had it for a while.
        let lease = kind.acquire(&locks, Duration::ZERO, false).await.unwrap();
        let waiter = tokio::spawn({
            let locks = locks.clone();
            async move {
                let lease = kind.acquire(&locks, LONG, false).await.unwrap();
                // The first renewal makes an offer a lease.
                sleep(LITTLE).await;
                lease.remaining()
            }
        });
        sleep(TTL / 4).await;
        lease.release().await.unwrap();
        let left = waiter.await.unwrap();
        assert!(left >= validity(TTL).abs_diff(LITTLE * 2), "{kind:?}: {left:?}");
    }
}

/// A task that waits behind a lease of its own process has its place before whoever comes later
/// elsewhere, though the lease lingers between its uses.
#[tokio::test(start_paused = true)]
async fn a_task_is_not_passed_by_a_process_that_came_later() {
    for kind in [Kind::Mutex, Kind::Permit, Kind::Writer] {
        let (here, faults) = Locks::in_memory_with_faults();
        let elsewhere = Locks::over(faults.store().clone());
        kind.idle(&here).await;
        let lease = kind.acquire(&here, LONG, true).await.unwrap();
        let order = Arc::<Mutex<Vec<&str>>>::default();
        let wait = |locks: &Locks, name| {
            let (locks, order) = (locks.clone(), order.clone());
            tokio::spawn(async move {
                let lease = kind.acquire(&locks, LONG, true).await.unwrap();
                order.lock().unwrap().push(name);
                sleep(LITTLE).await;
                lease.release().await.unwrap();
            })
        };
        let first = wait(&here, "here");
        sleep(Duration::from_secs(5)).await;
        let second = wait(&elsewhere, "elsewhere");
        sleep(Duration::from_secs(5)).await;
        lease.release().await.unwrap();
        for waiter in [first, second] {
            waiter.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), ["here", "elsewhere"], "{kind:?}");
    }
}

#[cfg(feature = "servers")]
mod on_a_server {
    use leasehold_tests::backend::light_client;
    use leasehold_tests::server::{Server, free_port};
    use leasehold_tests::waiting::pass;

    use super::*;

    /// A restart is noticed by the connection that it ends.
    #[tokio::test]
    async fn an_idle_lease_is_not_taken_up_after_a_restart() {
        for kind in KINDS {
            let port = free_port();
            let server = Server::start_on(port);
            let here = light_client(&server).await;
            kind.idle(&here).await;
            drop(server);
            let server = Server::start_on(port);
            let others = kind.exclude(&light_client(&server).await).await;
            kind.is_refused(&here).await;
            assert!(others.is_held());
        }
    }

    /// No connection is lost: the client asks after a second.
    #[tokio::test]
    async fn an_idle_lease_is_not_taken_up_a_second_after_a_flush() {
        for kind in KINDS {
            let server = Server::start();
            let (here, elsewhere) = (light_client(&server).await, light_client(&server).await);
            kind.idle(&here).await;
            redis::cmd("FLUSHALL").exec_async(&mut server.redis().await).await.unwrap();
            let others = kind.exclude(&elsewhere).await;
            pass(CONFIRMED + LITTLE, "until then an idle lease is taken up without a question")
                .await;
            kind.is_refused(&here).await;
            assert!(others.is_held());
        }
    }

    /// Whatever has happened to the server meanwhile.
    #[tokio::test]
    async fn an_idle_lease_is_asked_for_after_a_connection_was_lost() {
        for kind in KINDS {
            let server = Server::start();
            let (here, mut redis) = (light_client(&server).await, server.redis().await);
            kind.idle(&here).await;
            for of in ["normal", "pubsub"] {
                let mut kill = redis::cmd("CLIENT");
                kill.arg(&["KILL", "TYPE", of, "SKIPME", "yes"]);
                kill.exec_async(&mut redis).await.unwrap();
            }
            redis::cmd("FLUSHALL").exec_async(&mut redis).await.unwrap();
            let others = kind.exclude(&light_client(&server).await).await;
            // The client has noticed it when it has its next connection.
            assert_eq!(held(&here, "a").await, 1);
            kind.is_refused(&here).await;
            assert!(others.is_held());
        }
    }
}
