//! Servers and connections that fail.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::store::ClientId;
use leasehold::store::fault_injection::FaultInjector;
use leasehold::store::redis::{RedisStore, Settings};
use leasehold::{Fault, Forced, LockError, Locks, LossReason, Outcome, Step, Wait};
use leasehold_tests::backend::light_client;
use leasehold_tests::kinds::{EVERY_KIND, Guard};
use leasehold_tests::server::{Server, free_port};
use leasehold_tests::waiting::{OwnTime, until, until_outlived};
use redis_server_wrapper::{Delay, Direction, FaultProxy};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// No lease ends in the meantime.
const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn connections_that_are_killed_are_replaced() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut redis = server.redis().await;
    for _ in 0..20 {
        let lease = locks.mutex("a").lock().await.unwrap();
        let kill = redis::cmd("CLIENT").arg(&["KILL", "SKIPME", "yes"]).clone();
        kill.exec_async(&mut redis).await.unwrap();
        lease.release().await.unwrap();
        kill.exec_async(&mut redis).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_restarts_is_used_again() {
    let port = free_port();
    let server = Server::start_on(port);
    let locks = Locks::connect(&server.url()).await.unwrap();
    let before = locks.mutex("a").lock().await.unwrap().fence().unwrap();
    drop(server);
    let error = locks.mutex("a").try_lock().await.unwrap_err();
    assert!(matches!(error, LockError::Store { outcome: Outcome::NotRun, .. }), "{error}");
    let server = Server::start_on(port);
    let lease = locks.mutex("a").lock().await.unwrap();
    assert!(lease.fence().unwrap() > before, "though the server lost its data");
    lease.release().await.unwrap();
    drop(server);
}

/// Not at their next renewals, which would be hours later: others may have the locks meanwhile.
#[tokio::test]
async fn holders_learn_of_lost_data_once_the_server_is_back() {
    const HOURS: Duration = Duration::from_secs(24 * 60 * 60);
    for end in ["", "?protocol=resp2"] {
        let port = free_port();
        let server = Server::start_on(port);
        let locks = Locks::connect(&format!("{}{end}", server.url())).await.unwrap();
        let mut guards = Vec::new();
        for kind in EVERY_KIND {
            guards.push(kind.lock(&locks, &format!("{kind:?}"), HOURS).await.unwrap());
        }
        drop(server);
        let _server = Server::start_on(port);
        for (guard, kind) in guards.iter().zip(EVERY_KIND) {
            let reason = timeout(LONG, guard.lost()).await;
            assert_eq!(reason.expect("its client has seen the end"), LossReason::Gone, "{kind:?}");
        }
    }
}

/// A server that writes everything to disk forgets nothing. The holder keeps the lock, and the
/// others wait for it.
#[tokio::test]
async fn a_server_with_full_persistence_may_restart() {
    let folder = std::env::temp_dir().join(format!("leasehold-aof-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (port, dir) = (free_port(), folder.to_str().unwrap());
    let durable = ["--appendonly", "yes", "--appendfsync", "always", "--dir", dir];
    let server = Server::start_on_with(port, &durable);
    let one = Locks::connect(&server.url()).await.unwrap();
    let other = Locks::connect(&server.url()).await.unwrap();
    let mut leases = Vec::new();
    for kind in EVERY_KIND {
        leases.push(kind.lock(&one, &format!("{kind:?}"), LONG).await.unwrap());
    }
    server.kill().await;
    drop(server);
    let server = Server::start_on_with(port, &durable);
    // The first commands find the connections gone.
    let there = until("it is there again", async || other.inspect("a").await.is_ok());
    timeout(LONG / 2, there).await.expect("before a lease ends");
    for kind in EVERY_KIND {
        assert!(other.inspect(format!("{kind:?}")).await.unwrap().held > 0, "{kind:?}");
    }
    let refused = other.mutex("Mutex").try_lock().await;
    assert!(matches!(refused, Err(LockError::Busy { .. })), "{refused:?}");
    for lease in leases.iter().flat_map(Guard::leases) {
        lease.renew().await.unwrap();
    }
    drop((leases, one, server));
    std::fs::remove_dir_all(folder).unwrap();
}

/// A thousand leases are released while the server does not answer. Only some releases are in
/// flight at a time, so they do not all time out and come again.
#[tokio::test]
async fn a_backlog_of_releases_does_not_time_out_at_once() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let leases = (0..1_000).map(|n| locks.reentrant_mutex(format!("a:{n}")).owner("me"));
    let leases = leases.map(|mutex| async move { mutex.lock().await });
    let leases = futures_util::future::try_join_all(leases).await.unwrap();
    server.forget_stats().await;
    let frozen = server.freeze().await;
    drop(leases);
    // It is sent after the first releases, so they have timed out when it has.
    locks.inspect("a").await.unwrap_err();
    drop(frozen);
    for n in 0..1_000 {
        let mutex = locks.reentrant_mutex(format!("a:{n}")).owner("you");
        mutex.wait(Duration::from_secs(10)).lock().await.unwrap().release().await.unwrap();
    }
    // Each release reads its record once, the pairs above do as well, each of their grants also
    // reads the greatest token, and one batch of 128 came again. On a busy machine a second one may
    // time out as well. Without a bound over 300 would come again.
    let reads = server.stats("get").await.0;
    assert!((4_000..4_300).contains(&reads), "{reads}");
}

/// A client waits for a connection that takes 400 ms to make. It does not treat the commands that
/// wait for it as unanswered.
#[tokio::test]
async fn a_slow_network_costs_one_reconnect() {
    let server = Server::start();
    let proxy = FaultProxy::spawn(("127.0.0.1", server.port())).await.unwrap();
    proxy.set_delay(Direction::UpstreamToClient, Delay::Fixed(Duration::from_millis(150)));
    let locks = Locks::connect(&format!("redis://{}/", proxy.addr())).await.unwrap();
    locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    let mut redis = server.redis().await;
    let kill = redis::cmd("CLIENT").arg(&["KILL", "SKIPME", "yes"]).clone();
    kill.exec_async(&mut redis).await.unwrap();
    let before = connections(&server).await;
    let pairs = (0..50).map(|n| {
        let mutex = locks.mutex(format!("k{n}")).wait(Duration::from_secs(20));
        async move {
            for _ in 0..3 {
                mutex.lock().await.unwrap().release().await.unwrap();
            }
        }
    });
    futures_util::future::join_all(pairs).await;
    let made = connections(&server).await - before - 1; // the one that asks
    assert!(made <= 2, "{made} connections");
}

/// The number of connections that the server has accepted.
async fn connections(server: &Server) -> u64 {
    server.info("stats", "total_connections_received").await
}

/// After a restart the server counts its connections from the beginning. The number of the
/// abandoned connection is somebody else's now.
#[tokio::test]
async fn a_restart_does_not_make_us_end_other_peoples_connections() {
    let port = free_port();
    let server = Server::start_on(port);
    let locks = Locks::connect(&server.url()).await.unwrap();
    locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    drop(server);
    let server = Server::start_on(port);
    let mut others = Vec::new();
    for _ in 0..20 {
        others.push(server.redis().await);
    }
    locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    for other in &mut others {
        let pong: String = redis::cmd("PING").query_async(other).await.expect("it is still there");
        assert_eq!(pong, "PONG");
    }
}

/// The token of a grant that was made when the clock was 30 s ahead.
#[tokio::test]
async fn tokens_grow_when_the_servers_clock_is_set_back() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let lease = locks.mutex("a").lock().await.unwrap();
    let ahead = lease.fence().unwrap().get() + 30_000_000;
    lease.release().await.unwrap();
    let mut redis = server.redis().await;
    let mut set = redis::cmd("SETRANGE");
    set.arg("leasehold:tokens").arg(0).arg(ahead).exec_async(&mut redis).await.unwrap();
    for n in 1..=3 {
        let lease = locks.mutex("a").lock().await.unwrap();
        assert_eq!(lease.fence().unwrap().get(), ahead + 64 * n);
        lease.release().await.unwrap();
    }
}

/// An offer from before that names a time which is still to come. The waiter is in the queue again, and
/// does not take it for its own.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_offer_from_before_the_clock_was_set_back_is_not_believed() {
    let server = Server::start_skewed();
    let holder = Locks::connect(&server.url()).await.unwrap();
    let (id, url, runtime) = (ClientId::random(), server.url(), Handle::current());
    let store = RedisStore::connect(&url, &Settings::default(), id, runtime).await.unwrap();
    let store = Arc::new(FaultInjector::over(Arc::new(store)));
    let locks = Locks::over_as(store.clone(), id);
    let held = holder.mutex("a").lock().await.unwrap();
    let waits = tokio::spawn(async move { locks.mutex("a").wait(Wait::Forever).lock().await });
    let is_queued = async || holder.inspect("a").await.unwrap().waiting > 0;
    until("it is in the queue", async || is_queued().await).await;
    // The offer arrives late. Meanwhile the waiter's asks are lost, and another has the lock.
    store.hold_hints();
    store.always(Some(Step::Acquire), Fault::LoseCommand);
    held.release().await.unwrap();
    let other = holder.mutex("a").wait(Wait::Forever).lock().await.unwrap();
    server.jump_back(Duration::from_secs(3600));
    store.heal(Some(Step::Acquire));
    // Each look at the log empties it.
    let asks = || store.log().contains(&"acquire");
    asks();
    until("it asks again", async || asks()).await;
    until("it is in the queue again", async || is_queued().await).await;
    store.deliver_hints();
    until("it asks the server instead", async || asks() || waits.is_finished()).await;
    assert!(!waits.is_finished() && other.is_held(), "two hold it");
    other.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
}

/// The lock of a dead holder lasts that much longer, and can be released by force. A renewed lease
/// is not affected, and leaves nothing behind.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_clock_set_back_extends_the_locks_of_dead_holders() {
    const TTL: Duration = Duration::from_secs(1);
    let server = Server::start_skewed();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let held = locks.mutex("held").ttl(TTL).lock().await.unwrap();
    let renewed = locks.mutex("renewed").ttl(TTL).auto_renew(false).lock().await.unwrap();
    let dead = locks.mutex("dead").ttl(TTL).auto_renew(false).lock().await.unwrap();
    server.jump_back(Duration::from_secs(3600));
    // The renewal uses the new clock, so the lease ends with its TTL.
    renewed.renew().await.unwrap();
    std::mem::forget(renewed);
    assert_eq!(dead.lost().await, LossReason::Expired);
    assert!(held.is_held());
    let refused = locks.mutex("dead").ttl(TTL).try_lock().await;
    assert!(matches!(refused, Err(LockError::Busy { .. })), "{refused:?}");
    let forced = locks.force_release("dead").await.unwrap();
    assert!(matches!(forced, Forced::Released { held: 1, .. }), "{forced:?}");
    for name in ["dead", "renewed"] {
        let mutex = locks.mutex(name).ttl(TTL).wait(TTL * 20);
        mutex.lock().await.unwrap().release().await.unwrap();
    }
    held.release().await.unwrap();
}

#[tokio::test]
async fn a_frozen_server_fails_in_bounded_time_and_loses_the_lease_at_its_deadline() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let lease = locks.mutex("a").ttl(Duration::from_millis(900)).lock().await.unwrap();
    let frozen = server.freeze().await;
    let time = OwnTime::begin();
    let error = locks.mutex("b").try_lock().await.unwrap_err();
    assert!(matches!(error, LockError::Store { .. }), "{error}");
    assert!(time.passed() < Duration::from_secs(5), "{:?}", time.passed());
    assert_eq!(lease.lost().await, LossReason::Expired);
    drop(frozen);
    let lease = locks.mutex("a").lock().await.unwrap();
    lease.release().await.unwrap();
    locks.mutex("b").wait(Wait::Forever).lock().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_deleted_lease_is_reported_lost() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let lease = locks.mutex("a").ttl(Duration::from_millis(600)).lock().await.unwrap();
    let mut redis = server.redis().await;
    redis::cmd("DEL").arg("leasehold:lock:{a}").exec_async(&mut redis).await.unwrap();
    let other = locks.mutex("a").lock().await.unwrap();
    assert_eq!(lease.lost().await, LossReason::Taken);
    drop(lease);
    assert!(other.is_held());
    other.release().await.unwrap();
}

/// The reply is cut off after each number of bytes. The client sends the acquire again on another
/// connection, and holds the lock once.
#[tokio::test]
async fn a_reply_that_is_cut_off_leaks_nothing() {
    let server = Server::start();
    let proxy = FaultProxy::spawn(("127.0.0.1", server.port())).await.unwrap();
    let locks = Locks::connect(&format!("redis://{}/", proxy.addr())).await.unwrap();
    let direct = Locks::connect(&server.url()).await.unwrap();
    let cuts = || proxy.stats().closes_upstream_to_client;
    for bytes in 0..12 {
        let before = cuts();
        proxy.close_after(Direction::UpstreamToClient, bytes);
        let asking = locks.mutex("a");
        let asking = asking.lock();
        let healed = async {
            until("the next connection is cut as well", async || cuts() > before + 1).await;
            proxy.clear_close_after(Direction::UpstreamToClient);
        };
        let (lease, ()) = tokio::join!(asking, healed);
        let lease = lease.unwrap();
        assert!(direct.mutex("a").try_lock().await.is_err());
        lease.release().await.unwrap();
        direct.mutex("a").try_lock().await.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn a_full_server_refuses_and_still_frees() {
    /// On a busy machine a renewal may be late, but not by a second.
    const TTL: Duration = Duration::from_secs(2);
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let lease = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    let permit = locks.semaphore("s", 2).ttl(TTL).acquire().await.unwrap();
    let mut redis = server.redis().await;
    let full = redis::cmd("CONFIG").arg(&["SET", "maxmemory", "1"]).clone();
    full.exec_async(&mut redis).await.unwrap();
    let error = locks.mutex("b").try_lock().await.unwrap_err();
    assert!(matches!(error, LockError::Store { outcome: Outcome::NotRun, .. }), "{error}");
    assert!(error.to_string().contains("memory is full"), "{error}");
    tokio::join!(until_outlived(&lease, TTL), until_outlived(&permit, TTL));
    lease.release().await.unwrap();
    permit.release().await.unwrap();
}

/// Somebody raises `maxmemory`, or other keys expire.
#[tokio::test]
async fn a_call_that_waits_outlives_a_full_server() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let locks = Locks::connect(&server.url()).await.unwrap();
    // The scripts are known, and the connection stands.
    for (nth, kind) in EVERY_KIND.into_iter().enumerate() {
        kind.lock(&locks, &nth.to_string(), LONG).await.unwrap().release().await.unwrap();
    }
    set_maxmemory(&mut redis, "1").await;
    for (nth, kind) in EVERY_KIND.into_iter().enumerate() {
        server.forget_stats().await;
        let acquired = tokio::spawn(kind.lock(&locks, &nth.to_string(), LONG));
        until("four asks are refused", async || {
            let told = acquired.is_finished();
            assert!(!told, "{kind:?}: it is told at once that the server is full");
            refusals(&mut redis, "OOM").await >= 4
        })
        .await;
        set_maxmemory(&mut redis, "0").await;
        acquired.await.unwrap().unwrap().release().await.unwrap();
        set_maxmemory(&mut redis, "1").await;
    }
}

/// An operator has taken a right away by mistake. Leases are released as soon as it is back, not
/// when their TTLs are over.
#[tokio::test]
async fn a_release_is_tried_until_the_user_has_the_right_again() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let locks = Locks::connect(&server.url()).await.unwrap();
    let lease = locks.mutex("a").ttl(Duration::from_secs(60)).lock().await.unwrap();
    let may = async |redis: &mut redis::aio::MultiplexedConnection, rule: &str| {
        let mut acl = redis::cmd("ACL");
        acl.arg(&["SETUSER", "default", rule]).exec_async(redis).await.unwrap();
    };
    may(&mut redis, "-evalsha").await;
    lease.release().await.unwrap_err();
    until("it goes on trying", async || refusals(&mut redis, "NOPERM").await >= 8).await;
    may(&mut redis, "+evalsha").await;
    let next = locks.mutex("a").wait(Duration::from_secs(30)).lock().await.unwrap();
    next.release().await.unwrap();
}

/// A loop without a pause asks as seldom as any call does that waits: each of its calls has the
/// patience that it has for a server that is away.
#[tokio::test]
async fn a_loop_on_a_full_server_does_not_spin() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let locks = Locks::connect(&server.url()).await.unwrap();
    locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    set_maxmemory(&mut redis, "1").await;
    server.forget_stats().await;
    let begun = Instant::now();
    for wait in [0, 0, 300, 1200].map(Duration::from_millis) {
        let error = locks.mutex("a").wait(wait).lock().await.unwrap_err();
        assert!(matches!(error, LockError::Store { outcome: Outcome::NotRun, .. }), "{error}");
        assert!(error.to_string().contains("raise maxmemory"), "{error}");
    }
    assert!(begun.elapsed() >= Duration::from_millis(4200), "{:?}", begun.elapsed());
    let asked = refusals(&mut redis, "OOM").await;
    assert!(asked > 4 * 3 && asked < 4 * 60, "{asked} commands for four calls");
}

/// How many commands the server has refused with this error.
async fn refusals(redis: &mut redis::aio::MultiplexedConnection, error: &str) -> u64 {
    let info: String = redis::cmd("INFO").arg("errorstats").query_async(redis).await.unwrap();
    let name = format!("errorstat_{error}:count=");
    let count = info.lines().find_map(|line| line.strip_prefix(&*name));
    count.map_or(0, |count| count.trim().parse().unwrap())
}

async fn set_maxmemory(redis: &mut redis::aio::MultiplexedConnection, bytes: &str) {
    let set = redis::cmd("CONFIG").arg(&["SET", "maxmemory", bytes]).clone();
    set.exec_async(redis).await.unwrap();
}

/// Tools that copy keys leave such a record. It gets the TTL of the next request, even of one that
/// waits.
#[tokio::test]
async fn a_record_without_expiry_is_repaired_for_a_waiter() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let (holder, locks) = (light_client(&server).await, light_client(&server).await);
    let lease = holder.mutex("a").ttl(Duration::from_secs(60)).lock().await.unwrap();
    redis::cmd("PERSIST").arg("leasehold:lock:{a}").exec_async(&mut redis).await.unwrap();
    server.forget_stats().await;
    let mutex = locks.mutex("a").ttl(Duration::from_millis(700)).wait(Duration::from_secs(9));
    let next = mutex.lock().await.unwrap();
    let asked = server.script_calls().await;
    assert!(asked < 10, "{asked} commands");
    next.release().await.unwrap();
    assert!(lease.release().await.is_err(), "it was taken from one that counted as dead");
}

/// Foreign values under a lock's keys are left alone. No key of ours stays without expiry, and no
/// release fails.
#[tokio::test]
async fn foreign_values_under_a_locks_keys_do_no_harm() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let (holder, locks) = (light_client(&server).await, light_client(&server).await);
    for role in ["queue", "waiters"] {
        let lease = holder.mutex("a").lock().await.unwrap();
        let key = format!("leasehold:{role}:{{a}}");
        redis::cmd("SET").arg(&key).arg("foreign").exec_async(&mut redis).await.unwrap();
        let waited = locks.mutex("a").wait(Duration::from_millis(50)).lock().await;
        assert!(matches!(waited, Err(LockError::WrongKind { .. })), "{waited:?}");
        let keys: Vec<String> =
            redis::cmd("KEYS").arg("*:{a}").query_async(&mut redis).await.unwrap();
        for found in keys {
            let ends: i64 = redis::cmd("PTTL").arg(&found).query_async(&mut redis).await.unwrap();
            assert_eq!(ends == -1, found == key, "{found} ends in {ends}");
        }
        lease.release().await.unwrap();
        redis::cmd("DEL").arg(&key).exec_async(&mut redis).await.unwrap();
    }

    // A waiter's entry of another version counts as that of a dead waiter.
    let lease = holder.mutex("a").lock().await.unwrap();
    let waiter = tokio::spawn({
        let mutex = locks.mutex("a").wait(Duration::from_secs(9));
        async move { mutex.lock().await.unwrap().release().await.unwrap() }
    });
    let waiters = "leasehold:waiters:{a}";
    let ids = loop {
        let ids: Vec<String> =
            redis::cmd("HKEYS").arg(waiters).query_async(&mut redis).await.unwrap();
        if !ids.is_empty() {
            break ids;
        }
    };
    let mut say = redis::cmd("HSET");
    say.arg(waiters).arg(&ids[0]).arg("version 2").exec_async(&mut redis).await.unwrap();
    lease.release().await.unwrap();
    waiter.await.unwrap();
}
