//! Locks with a connection pool of the program's own.

use std::time::Duration;

use bb8_redis::RedisConnectionManager;
use bb8_redis::bb8::Pool;
use leasehold::{LockError, Locks, Wait};
use leasehold_tests::cluster::Cluster;
use leasehold_tests::kinds::EVERY_KIND;
use leasehold_tests::server::{Server, free_port};
use leasehold_tests::waiting::{OwnTime, until, until_outlived};
use tokio::time::timeout;

use super::errors::run;
use super::{CANARY, assert_no_secret};

/// Much longer than anything here takes.
const SOON: Duration = Duration::from_secs(60);

/// A TTL that does not end here.
const LONG: Duration = Duration::from_secs(30);

/// A pool in the usual set-up: it does not test connections before it hands them out.
async fn pool(url: &str, size: u32) -> Pool<RedisConnectionManager> {
    let manager = RedisConnectionManager::new(url).unwrap();
    let builder = Pool::builder().max_size(size).test_on_check_out(false);
    builder.connection_timeout(Duration::from_millis(500)).build(manager).await.unwrap()
}

async fn connect(pool: &Pool<RedisConnectionManager>) -> Locks {
    Locks::builder().connect_pool(pool.clone()).await.unwrap()
}

#[tokio::test]
async fn every_kind_works_with_a_pool() {
    let server = Server::start_with(&["--requirepass", CANARY]);
    let pool = pool(&format!("redis://:{CANARY}@127.0.0.1:{}", server.port()), 2).await;
    let locks = connect(&pool).await;
    assert_no_secret(&locks);
    crate::kinds::every_kind_and_question(&locks).await;
    assert_eq!(pool.state().connections, pool.state().idle_connections, "all are put back");
}

/// No hints come over a pool, so waiters ask often.
#[tokio::test]
async fn waiters_with_a_pool_are_served() {
    let server = Server::start();
    let (one, two) = (pool(&server.url(), 1).await, pool(&server.url(), 1).await);
    let (one, two) = (connect(&one).await, connect(&two).await);
    for _ in 0..3 {
        let lease = one.mutex("a").lock().await.unwrap();
        let mutex = two.mutex("a").wait(Wait::Forever);
        let waiting = tokio::spawn(async move { mutex.lock().await });
        until("it waits", async || one.inspect("a").await.unwrap().waiting > 0).await;
        lease.release().await.unwrap();
        let time = OwnTime::begin();
        waiting.await.unwrap().unwrap().release().await.unwrap();
        assert!(time.passed() < Duration::from_secs(1), "it asks often: {:?}", time.passed());
    }
}

/// Somebody else selects another database on all connections of the pool, or leaves a transaction
/// open there, before the client connects and afterwards. The locks stay where they are.
#[tokio::test]
async fn another_user_of_the_pool_does_not_move_the_locks() {
    for (nth, change) in ["SELECT 3", "MULTI"].into_iter().enumerate() {
        let server = Server::start();
        let pool = pool(&server.url(), 1).await;
        let outside = Locks::connect(&server.url()).await.unwrap();
        // The first of these clients connects before the change, the second after it.
        let first = connect(&pool).await;
        run(&mut pool.get().await.unwrap(), change).await;
        let second = connect(&pool).await;
        for (by, locks) in [&first, &second].into_iter().enumerate() {
            for (kind_nth, kind) in EVERY_KIND.into_iter().enumerate() {
                let name = format!("a:{nth}:{by}:{kind_nth}");
                let held = kind.lock(locks, &name, LONG).await.unwrap();
                let error = kind.rival().try_lock(&outside, &name, LONG).await.unwrap_err();
                assert!(error.is_held_by_another(), "{change}, {kind:?}: {error}");
                for lease in held.leases() {
                    lease.renew().await.unwrap();
                }
                held.release().await.unwrap();
            }
        }
        let mut redis = server.redis().await;
        run(&mut redis, "SELECT 3").await;
        let moved: u64 = redis::cmd("DBSIZE").query_async(&mut redis).await.unwrap();
        assert_eq!(moved, 0, "{change}");
    }
}

/// A connection that has died is replaced.
#[tokio::test]
async fn a_pool_replaces_dead_connections() {
    let server = Server::start();
    let pool = pool(&server.url(), 3).await;
    let locks = connect(&pool).await;
    let ttl = Duration::from_secs(2);
    let lease = locks.mutex("held").ttl(ttl).lock().await.unwrap();
    for _ in 0..3 {
        run(&mut server.redis().await, "CLIENT KILL SKIPME yes").await;
        let again = async {
            while let Err(error) = locks.mutex("a").lock().await {
                assert!(matches!(error, LockError::Store { .. }), "{error}");
            }
        };
        timeout(SOON, again).await.expect("there is another");
    }
    until_outlived(&lease, ttl).await;
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_restarted_server_is_found_again() {
    let port = free_port();
    let server = Server::start_on(port);
    let pool = pool(&server.url(), 1).await;
    let locks = connect(&pool).await;
    locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    drop(server);
    let error = locks.mutex("a").try_lock().await.unwrap_err();
    assert!(matches!(error, LockError::Store { .. }), "{error}");
    let server = Server::start_on(port);
    locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    drop(server);
}

/// The program keeps all connections of the pool for itself.
#[tokio::test]
async fn an_exhausted_pool_delays_nothing() {
    let server = Server::start();
    let pool = pool(&server.url(), 1).await;
    let kept = pool.get().await.unwrap();
    let locks = connect(&pool).await;
    locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    drop(kept);
}

#[tokio::test]
async fn a_pool_of_one_node_of_a_cluster_is_refused() {
    let cluster = Cluster::start().await;
    let pool = pool(&cluster.nodes()[0].url(), 1).await;
    let error = Locks::builder().connect_pool(pool).await.unwrap_err();
    assert!(matches!(error, LockError::InvalidOption { option: "pool", .. }), "{error}");
}

/// The client's own thread drives its connection.
#[test]
fn a_pool_outlives_the_runtime_it_was_made_on() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = Server::start();
    let first = runtime();
    let pool = first.block_on(pool(&server.url(), 1));
    let locks = first.block_on(connect(&pool));
    first.block_on(async { locks.mutex("a").lock().await.unwrap().release().await.unwrap() });
    drop(first);
    runtime().block_on(async {
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    });
}
