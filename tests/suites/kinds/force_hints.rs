//! A holder whose lock is taken by force hears of it at once, not at its next renewal.

use std::future::pending;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::{Forced, Lease, LockError, Locks, LossReason};
use leasehold_tests::backend::light_client;
use leasehold_tests::rights::{LOGIN, Rights};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::until;
use tokio::time::timeout;

/// The next renewal would find the loss after a third of this.
const LONG: Duration = Duration::from_secs(900);

/// Well below that, and more than a busy machine needs.
const SOON: Duration = Duration::from_secs(60);

/// A lease of each kind.
async fn one_of_each(locks: &Locks, tag: &str, ttl: Duration, renew: bool) -> Vec<Lease> {
    let name = |kind: &str| format!("{kind}:{tag}:{renew}");
    let rw = |kind| locks.rw_lock(name(kind)).ttl(ttl).auto_renew(renew);
    vec![
        locks.mutex(name("mutex")).ttl(ttl).auto_renew(renew).lock().await.unwrap(),
        locks
            .reentrant_mutex(name("e"))
            .owner("me")
            .ttl(ttl)
            .auto_renew(renew)
            .lock()
            .await
            .unwrap(),
        locks.semaphore(name("s"), 3).ttl(ttl).auto_renew(renew).acquire_many(2).await.unwrap(),
        rw("read").read().await.unwrap(),
        rw("write").write().await.unwrap(),
    ]
}

async fn force(operator: &Locks, lease: &Lease) {
    let forced = operator.force_release(lease.key()).await.unwrap();
    assert!(matches!(forced, Forced::Released { held: 1, .. }), "{lease:?}: {forced:?}");
}

/// The longest time that work went on after a forced release.
async fn forces_each(operator: &Locks, leases: Vec<Lease>) -> Duration {
    let mut longest = Duration::ZERO;
    for lease in leases {
        let work = lease.run(pending::<()>());
        let (ended, begun) = (timeout(SOON, work), Instant::now());
        let (stopped, ()) = tokio::join!(ended, force(operator, &lease));
        longest = longest.max(begun.elapsed());
        let error = stopped.expect("its work is stopped").unwrap_err();
        let is_forced = matches!(error, LockError::Lost { reason: LossReason::Forced, .. });
        assert!(is_forced, "{lease:?}: {error:?}");
        assert_eq!(lease.lost().await, LossReason::Forced);
        assert!(!lease.is_held(), "{lease:?}");
    }
    longest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_server_a_forced_holder_hears_of_it_at_once() {
    let server = Server::start();
    let operator = light_client(&server).await;
    let clients = [Locks::connect(&server.url()).await.unwrap(), light_client(&server).await];
    for (tag, locks) in ["thread", "guest"].into_iter().zip(&clients) {
        for renew in [true, false] {
            let leases = one_of_each(locks, tag, LONG, renew).await;
            let longest = forces_each(&operator, leases).await;
            println!("{tag}, renewed: {renew}: stopped after {longest:?} at most");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn in_memory_a_forced_holder_hears_of_it_at_once() {
    let locks = Locks::in_memory();
    let begun = tokio::time::Instant::now();
    for renew in [true, false] {
        let leases = one_of_each(&locks, "new", LONG, renew).await;
        forces_each(&locks, leases).await;
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
    // After its first renewal each lease has a task of its own.
    let leases = one_of_each(&locks, "renewed", LONG, true).await;
    tokio::time::sleep(LONG * 2).await;
    let begun = tokio::time::Instant::now();
    forces_each(&locks, leases).await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn all_holders_hear_of_a_force() {
    const HOLDERS: u32 = 1_000;
    let server = Server::start();
    let (locks, operator) = (light_client(&server).await, light_client(&server).await);
    let semaphore = locks.semaphore("a", HOLDERS).ttl(LONG);
    let permits = join_all((0..HOLDERS).map(|_| semaphore.acquire())).await;
    let permits: Vec<_> = permits.into_iter().map(Result::unwrap).collect();
    let forced = operator.force_release("a").await.unwrap();
    assert!(matches!(forced, Forced::Released { held: 1_000, told: 1_000, .. }), "{forced:?}");
    let all_lost = join_all(permits.iter().map(Lease::lost));
    let reasons = timeout(SOON, all_lost).await.expect("all are told");
    assert!(reasons.iter().all(|reason| *reason == LossReason::Forced));
    // Those who lost it before are told once more, and do not count.
    let again = join_all((0..100).map(|_| semaphore.acquire())).await;
    assert!(again.iter().all(Result::is_ok));
    let forced = operator.force_release("a").await.unwrap();
    assert!(matches!(forced, Forced::Released { held: 100, told: 100, .. }), "{forced:?}");
}

/// They are more than one script could go through without holding up the server.
#[tokio::test]
async fn fifty_thousand_holders_lose_their_lock_in_one_step() {
    const HOLDERS: u32 = 50_000;
    let server = Server::start();
    let operator = light_client(&server).await;
    let permit = operator.semaphore("a", HOLDERS + 1).ttl(LONG).acquire().await.unwrap();
    let mut redis = server.redis().await;
    let of_others = r"local ends = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
        for at = 1, ARGV[1] do
            local id = string.format('AAAAAAAAAAAAAAAAAAAAAA%012x', at)
            redis.call('ZADD', KEYS[1], ends[#ends], id, -1, '^' .. id)
        end";
    let mut others = redis::cmd("EVAL");
    others.arg(of_others).arg(1).arg("leasehold:holders:{a}").arg(HOLDERS);
    others.exec_async(&mut redis).await.unwrap();
    let forced = operator.force_release("a").await.unwrap();
    let all = u64::from(HOLDERS) + 1;
    assert!(matches!(forced, Forced::Released { held, told: 1, .. } if held == all), "{forced:?}");
    assert_eq!(permit.lost().await, LossReason::Forced);
    let left: bool =
        redis::cmd("EXISTS").arg("leasehold:holders:{a}").query_async(&mut redis).await.unwrap();
    assert!(!left);
}

/// Without the hint the next renewal or the deadline finds the loss, as with any loss.
#[tokio::test]
async fn a_holder_without_hints_finds_out_by_its_renewal() {
    const TTL: Duration = Duration::from_millis(900);
    let server = Server::start();
    Rights::of_the_docs().and("-publish").give([&server]).await;
    let operator = Locks::connect(&server.url_as(LOGIN)).await.unwrap();
    let locks = light_client(&server).await;
    for (renew, reason) in [(true, LossReason::Forced), (false, LossReason::Expired)] {
        let leases = one_of_each(&locks, "deaf", TTL, renew).await;
        for lease in &leases {
            force(&operator, lease).await;
        }
        for lease in leases {
            assert_eq!(lease.lost().await, reason, "{lease:?}");
        }
    }
}

/// Anybody with the right to publish can forge the hint. The client only checks its lease.
#[tokio::test]
async fn a_forged_hint_takes_nothing_and_prolongs_nothing() {
    let server = Server::start();
    let locks = light_client(&server).await;
    let lease = locks.mutex("a").ttl(LONG).auto_renew(false).lock().await.unwrap();
    let mut redis = server.redis().await;
    let record: String =
        redis::cmd("GET").arg("leasehold:lock:{a}").query_async(&mut redis).await.unwrap();
    let id = &record[2..36];
    let before = lease.remaining();
    server.forget_stats().await;
    let heard: u32 = redis::cmd("PUBLISH")
        .arg(format!("leasehold:wake:{}", &id[..22]))
        .arg(format!("{id}F"))
        .query_async(&mut redis)
        .await
        .unwrap();
    assert_eq!(heard, 1);
    until("it checks its lease", async || server.stats("zscore").await.0 > 0).await;
    // The answer to this command comes after the answer to the check.
    assert_eq!(locks.inspect("a").await.unwrap().held, 1);
    assert!(lease.is_held() && lease.remaining() <= before);
    lease.release().await.unwrap();
}
