//! Bugs of other libraries that need a server to show.

use std::process::Command;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::{LockError, Locks, Wait};
use leasehold_tests::backend::light_client;
use leasehold_tests::kinds::{EVERY_KIND, Guard};
use leasehold_tests::polls::drop_after;
use leasehold_tests::process::Process;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::{OwnTime, until_outlived};
use redis::aio::MultiplexedConnection;

async fn ask<T: redis::FromRedisValue>(redis: &mut MultiplexedConnection, line: &str) -> T {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().expect("a command"));
    command.arg(words.collect::<Vec<_>>()).query_async(redis).await.expect("an answer")
}

async fn until_queued(redis: &mut MultiplexedConnection, name: &str) {
    while ask::<u32>(redis, &format!("ZCARD leasehold:queue:{{{name}}}")).await == 0 {
        tokio::task::yield_now().await;
    }
}

fn waits(locks: &Locks, name: &str) -> tokio::task::JoinHandle<()> {
    let mutex = locks.mutex(name).wait(Wait::Forever);
    tokio::spawn(async move { mutex.lock().await.unwrap().release().await.map(drop).unwrap() })
}

/// A subscription a lock, out of a bounded pool: "unable to acquire
/// subscription lock".
#[tokio::test]
async fn waiting_for_many_locks_takes_one_subscription() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let (holder, locks) = (light_client(&server).await, light_client(&server).await);
    let mut all = Vec::new();
    for n in 0..300 {
        let name = format!("lock:{n}");
        all.push((holder.mutex(&*name).lock().await.unwrap(), waits(&locks, &name)));
    }
    while ask::<Vec<String>>(&mut redis, "KEYS leasehold:queue:*").await.len() < 300 {
        tokio::task::yield_now().await;
    }
    let channels: Vec<String> = ask(&mut redis, "PUBSUB CHANNELS").await;
    assert_eq!(channels.len(), 3, "one a client, and one for changed limits: {channels:?}");
    for (held, waits) in all {
        held.release().await.unwrap();
        waits.await.unwrap();
    }
}

/// The message came before the subscription was active, and the waiter slept
/// for the whole lease.
#[tokio::test]
async fn a_release_right_behind_the_first_ask_is_not_missed() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let holder = light_client(&server).await;
    for _ in 0..50 {
        let held = holder.mutex("a").lock().await.unwrap();
        let waits = waits(&light_client(&server).await, "a");
        until_queued(&mut redis, "a").await;
        let time = OwnTime::begin();
        held.release().await.unwrap();
        waits.await.unwrap();
        assert!(time.passed() < Duration::from_secs(1), "{:?}", time.passed());
    }
}

/// Messages to nobody saturated the network.
#[tokio::test]
async fn nothing_is_published_when_nobody_waits() {
    let server = Server::start();
    let locks = light_client(&server).await;
    server.forget_stats().await;
    for n in 0..20 {
        let lease = locks.mutex(format!("a:{n}")).lock().await.unwrap();
        assert!(locks.mutex(format!("a:{n}")).try_lock().await.is_err());
        lease.release().await.unwrap();
        locks.semaphore("s", 2).acquire().await.unwrap().release().await.unwrap();
    }
    assert_eq!(server.stats("publish").await.0 + server.stats("spublish").await.0, 0);
}

/// The lock's key was evicted, or one of its queue's, and nobody was told.
#[tokio::test]
async fn evicted_keys_do_not_stall_waiters() {
    let server = Server::start();
    let mut redis = server.redis().await;
    for role in ["lock", "queue", "waiters", "holders"] {
        let (holder, locks) = (light_client(&server).await, light_client(&server).await);
        let held = holder.mutex("a").lock().await.unwrap();
        let all = holder.semaphore("s", 2).acquire_many(2).await.unwrap();
        let mutex = waits(&locks, "a");
        let semaphore = locks.semaphore("s", 2).wait(Wait::Forever);
        let permit = tokio::spawn(async move {
            semaphore.acquire_many(2).await.unwrap().release().await.map(drop).unwrap();
        });
        until_queued(&mut redis, "a").await;
        until_queued(&mut redis, "s").await;
        for name in ["a", "s"] {
            ask::<u32>(&mut redis, &format!("DEL leasehold:{role}:{{{name}}}")).await;
        }
        let time = OwnTime::begin();
        let _ = held.release().await;
        let _ = all.release().await;
        mutex.await.unwrap();
        permit.await.unwrap();
        let took = time.passed();
        assert!(took < Duration::from_secs(4), "without its {role} key: {took:?}");
    }
}

/// A permit was lost with each crash.
#[tokio::test]
async fn a_crash_costs_no_permit() {
    let server = Server::start();
    let locks = light_client(&server).await;
    let mut crashed: Vec<_> = (0..3)
        .map(|_| {
            let mut hold = Command::new(env!("CARGO_BIN_EXE_worker"));
            Process::start(hold.args([&server.url(), "permit", "s", "3", "1000"]))
        })
        .collect();
    for process in &mut crashed {
        assert_eq!(process.line().as_deref(), Some("ready"));
    }
    assert!(locks.semaphore("s", 3).try_acquire().await.is_err());
    for process in &mut crashed {
        process.kill();
    }
    let all = locks.semaphore("s", 3).wait(Duration::from_secs(4)).acquire_many(3).await;
    all.unwrap().release().await.unwrap();
}

/// The watchdog outlived its lock, or an acquisition that was interrupted.
#[tokio::test]
async fn an_ended_lease_is_not_renewed() {
    const TTL: Duration = Duration::from_millis(900);
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let elsewhere = light_client(&server).await;
    for kind in EVERY_KIND {
        let guard = async |what| kind.lock(&locks, &format!("{what}:{kind:?}"), TTL).await;
        guard("released").await.unwrap().release().await.unwrap();
        drop(guard("dropped").await.unwrap());
        let _ = drop_after(1, kind.lock(&locks, &format!("given up:{kind:?}"), TTL)).await;
        if let Guard::One(lease) = guard("detached").await.unwrap() {
            let adopted = elsewhere.adopt(lease.detach().await.unwrap()).await.unwrap();
            adopted.release().await.unwrap();
        }
    }
    server.until_all_is_free().await;
    server.forget_stats().await;
    // On another server a lease is renewed meanwhile.
    let another = Server::start();
    let renewed = light_client(&another).await.mutex("a").ttl(TTL).lock().await.unwrap();
    until_outlived(&renewed, TTL).await;
    assert_eq!(server.script_calls().await, 0);
}

/// `extend` brought back a lock that had expired; and `extend` and `unlock` of one
/// reported success, since a reply was read as the wrong type.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_expired_lease_is_neither_revived_nor_reported_renewed_or_released() {
    const TTL: Duration = Duration::from_secs(30);
    let server = Server::start_skewed();
    server.stop_clock();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let other = light_client(&server).await;
    let mut held = Vec::new();
    for kind in EVERY_KIND {
        let (renewed, released) = (format!("a:{kind:?}"), format!("b:{kind:?}"));
        let to_renew = kind.lock(&locks, &renewed, TTL).await.unwrap();
        let to_release = kind.lock(&locks, &released, TTL).await.unwrap();
        held.push((kind, to_renew, to_release));
    }
    // Only the server's clock moves. By their holders' clocks the leases have their whole TTL
    // left.
    server.jump(TTL + Duration::from_millis(1));
    for (kind, to_renew, to_release) in held {
        assert!(to_renew.is_held() && to_release.is_held(), "nobody has asked yet");
        for lease in to_renew.leases() {
            let renewed = lease.renew().await;
            assert!(matches!(renewed, Err(LockError::Lost { .. })), "{kind:?}: {renewed:?}");
        }
        assert!(!to_renew.is_held());
        let released = to_release.release().await;
        assert!(matches!(released, Err(LockError::Lost { .. })), "{kind:?}: {released:?}");
        for name in ["a", "b"] {
            let taken = kind.rival().try_lock(&other, &format!("{name}:{kind:?}"), TTL).await;
            assert!(taken.is_ok(), "{kind:?}: {taken:?}");
        }
    }
}

/// An acquire that timed out after its write left a lock that nobody had. Here the server does
/// not answer until all acquires were given up. Then it runs their commands.
#[tokio::test]
async fn an_acquire_that_timed_out_leaves_no_lock() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let frozen = server.freeze().await;
    let tries = EVERY_KIND
        .map(|kind| kind.try_lock(&locks, &format!("a:{kind:?}"), Duration::from_secs(30)));
    for tried in join_all(tries).await {
        assert!(matches!(tried, Err(LockError::Store { .. })), "{tried:?}");
    }
    drop(frozen);
    // The server has read all earlier commands when it greets the next client. Their grants are
    // cancelled, and do not just expire.
    let other = light_client(&server).await;
    server.until_all_is_free().await;
    for kind in EVERY_KIND {
        let name = format!("a:{kind:?}");
        let taken = kind.rival().try_lock(&other, &name, Duration::from_secs(30)).await;
        assert!(taken.is_ok(), "{taken:?}");
    }
}
