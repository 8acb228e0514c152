//! Servers that refuse the first line of scripts, such as those before Redis 7.0. These tests also
//! run on such a server: see `tests/run`.

use std::time::Duration;

use leasehold::store::redis::{RedisStore, Settings};
use leasehold::store::{Ask, ClientId, Kind};
use leasehold::{Lease, LockError, Locks, Severity};
use leasehold_tests::logs::LogRecorder;
use leasehold_tests::no_flags::NoFlags;
use leasehold_tests::requests;
use leasehold_tests::sentinel::until_linked;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::until;
use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Handle;
use tracing::Level;

const WARNING: &str = "the lock store refuses the flags of scripts";

async fn ask<T: FromRedisValue>(redis: &mut MultiplexedConnection, command: &str) -> T {
    let words: Vec<_> = command.split(' ').collect();
    redis::cmd(words[0]).arg(&words[1..]).query_async(redis).await.expect(command)
}

/// Locks of all kinds, each with this name.
async fn all_kinds(locks: &Locks, name: &str) -> Vec<Result<Lease, LockError>> {
    let (mutex, reentrant, permit, permits, reader, writer) = (
        locks.mutex(format!("m:{name}")),
        locks.reentrant_mutex(format!("e:{name}")).owner("me"),
        locks.semaphore(format!("s:{name}"), 3),
        locks.semaphore(format!("w:{name}"), 3),
        locks.rw_lock(format!("r:{name}")),
        locks.rw_lock(format!("x:{name}")),
    );
    // Together: each of them asks a server that is full for a second.
    let all = Box::pin(async {
        tokio::join!(
            mutex.try_lock(),
            reentrant.try_lock(),
            permit.try_acquire(),
            permits.try_acquire_many(2),
            reader.try_read(),
            writer.try_write(),
        )
    });
    let (mutex, reentrant, permit, permits, reader, writer) = all.await;
    vec![mutex, reentrant, permit, permits, reader, writer]
}

#[tokio::test]
async fn all_kinds_work_on_a_server_that_refuses_flags() {
    let server = Server::start();
    let proxy = NoFlags::before(&server).await;
    // Several connections, of which each finds out for itself.
    let locks = Locks::builder().connections(3).connect(&proxy.url()).await.unwrap();
    let other = Locks::connect(&server.url()).await.unwrap();
    for n in 0..8 {
        for lease in all_kinds(&locks, &n.to_string()).await {
            let lease = lease.unwrap();
            lease.renew().await.unwrap();
            assert_eq!(locks.inspect(lease.key().clone()).await.unwrap().holders.len(), 1);
            lease.release().await.unwrap();
        }
    }
    // A client that sends flags and one that does not see each other's locks.
    let held = locks.mutex("a").lock().await.unwrap();
    assert!(matches!(other.mutex("a").try_lock().await, Err(LockError::Busy { .. })));
    let waiting = tokio::spawn(async move { other.mutex("a").lock().await });
    until("it waits", async || locks.inspect("a").await.unwrap().waiting > 0).await;
    let first = held.fence().unwrap();
    held.release().await.unwrap();
    assert!(waiting.await.unwrap().unwrap().fence().unwrap() > first);
    assert!(proxy.seen() > 0);
}

#[tokio::test]
async fn a_client_with_several_connections_logs_it_once() {
    let (log, _guard) = LogRecorder::start(Level::WARN);
    let server = Server::start();
    let proxy = NoFlags::before(&server).await;
    let settings = Settings { connections: 3, ..Settings::default() };
    // On the test's own thread, which the recorder hears.
    let runtime = Handle::current();
    let store = RedisStore::connect(&proxy.url(), &settings, ClientId::random(), runtime).await;
    let store = store.unwrap();
    for n in 0..20 {
        let request = requests::request(&n.to_string(), Kind::Mutex, Duration::from_secs(30));
        store.acquire(&request, None).await.unwrap();
    }
    assert!(proxy.seen() >= 3, "each connection finds out for itself");
    assert_eq!(log.text().matches(WARNING).count(), 1, "{}", log.text());
    assert_eq!(log.text().lines().count(), 1, "{}", log.text());
}

/// After a failover another server may answer, at the same address and of another version. Each
/// connection finds out for itself what its server takes.
#[tokio::test]
async fn the_next_server_may_be_another_one() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let proxy = NoFlags::before(&server).await;
    let locks = Locks::connect(&proxy.url()).await.unwrap();
    // All kinds, once the client is connected again.
    let work = async || {
        while let Err(error) = locks.mutex("first").wait(Duration::ZERO).lock().await {
            assert!(
                matches!(error, LockError::Store { .. } | LockError::TimedOut { .. }),
                "{error:?}"
            );
        }
        for lease in all_kinds(&locks, "a").await {
            lease.unwrap().release().await.unwrap();
        }
    };
    // On a busy machine a connection may be late, and find out after the others.
    let comes_to_know = async || {
        for _ in 0..10 {
            let seen = proxy.seen();
            work().await;
            if proxy.seen() == seen {
                return;
            }
        }
        panic!("it asks again and again");
    };
    comes_to_know().await;
    let mut seen = proxy.seen();
    for takes_flags in [true, false, true] {
        proxy.let_flags_through(takes_flags);
        let () = ask(&mut redis, "SCRIPT FLUSH").await;
        let _: i64 = ask(&mut redis, "CLIENT KILL SKIPME yes").await;
        work().await;
        assert!(proxy.seen() > seen, "a new connection tries it again");
        comes_to_know().await;
        seen = proxy.seen();
    }
}

/// With flags, a script that grants does not begin while memory is full, and one that renews or
/// releases runs to its end. Without them it is the same.
#[tokio::test]
async fn a_full_server_grants_nothing_and_takes_everything_back() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let proxy = NoFlags::before(&server).await;
    for url in [server.url(), proxy.url()] {
        let locks = Locks::connect(&url).await.unwrap();
        let leases = all_kinds(&locks, "held").await;
        // A waiter, to whom the mutex is handed over.
        let waiting = tokio::spawn({
            let locks = locks.clone();
            async move { locks.mutex("m:held").lock().await }
        });
        until("it waits", async || locks.inspect("m:held").await.unwrap().waiting > 0).await;
        let () = ask(&mut redis, "CONFIG SET maxmemory 1").await;
        let keys: i64 = ask(&mut redis, "DBSIZE").await;
        for refused in all_kinds(&locks, "new").await {
            let text = refused.unwrap_err().to_string();
            assert!(text.contains("memory is full"), "{text}");
        }
        assert_eq!(keys, ask::<i64>(&mut redis, "DBSIZE").await, "something was left behind");
        for lease in &leases {
            lease.as_ref().unwrap().renew().await.unwrap();
        }
        for lease in leases {
            lease.unwrap().release().await.unwrap();
        }
        waiting.await.unwrap().unwrap().release().await.unwrap();
        let () = ask(&mut redis, "CONFIG SET maxmemory 0").await;
        for lease in all_kinds(&locks, "held").await {
            lease.unwrap().release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn too_few_replicas_stop_grants() {
    let server = Server::start_with(&["--min-replicas-to-write", "1"]);
    let proxy = NoFlags::before(&server).await;
    for url in [server.url(), proxy.url()] {
        let locks = Locks::connect(&url).await.unwrap();
        for refused in all_kinds(&locks, "a").await {
            let text = refused.unwrap_err().to_string();
            assert!(text.contains("NOREPLICAS"), "{text}");
        }
        assert_eq!(0, ask::<i64>(&mut server.redis().await, "DBSIZE").await);
    }
}

#[tokio::test]
async fn replicas_confirm_grants_without_flags() {
    let master = Server::start();
    let replica = Server::start_with(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    until_linked(&replica).await;
    let proxy = NoFlags::before(&master).await;
    let builder = Locks::builder().sync_replicas(1, Duration::from_secs(10));
    let locks = builder.connect(&proxy.url()).await.unwrap();
    for lease in all_kinds(&locks, "a").await {
        lease.unwrap().release().await.unwrap();
    }
}

/// A key of another type is recognised, although an old server packs the error into another one.
#[tokio::test]
async fn a_key_of_another_type_is_named() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let proxy = NoFlags::before(&server).await;
    let locks = Locks::connect(&proxy.url()).await.unwrap();
    let _: i64 = ask(&mut redis, "RPUSH leasehold:lock:{m:a} x").await;
    let error = locks.mutex("m:a").try_lock().await.unwrap_err();
    assert!(matches!(error, LockError::WrongKind { .. }), "{error:?}");
    let kinds: String = ask(&mut redis, "TYPE leasehold:lock:{m:a}").await;
    assert_eq!(kinds, "list");
}

#[tokio::test]
async fn the_diagnosis_says_it() {
    let server = Server::start_with(&["--appendonly", "yes"]);
    let proxy = NoFlags::before(&server).await;
    let locks = Locks::connect(&proxy.url()).await.unwrap();
    // Whether or not a script was sent before.
    for _ in 0..2 {
        let findings = locks.diagnose().await.findings;
        let [finding] = &findings[..] else { panic!("{findings:#?}") };
        assert_eq!((finding.check, finding.severity), ("script-flags", Severity::Warning));
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    }
}
