//! Limits that an operator sets: how soon they hold, and for whom.

use std::time::Duration;

use leasehold::{LockError, Locks};
use leasehold_tests::rights::{LOGIN, Rights};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::{OwnTime, until};
use tokio::time::Instant;

const POOL: &str = "pool";

async fn until_closed(locks: &Locks) {
    until("the client is refused", async || {
        locks.semaphore(POOL, 8).try_acquire().await.is_err_and(|error| error.is_closed())
    })
    .await;
}

async fn as_user(server: &Server, more: &str) -> Locks {
    Rights::of_the_docs().and(more).give([server]).await;
    Locks::connect(&server.url_as(LOGIN)).await.unwrap()
}

/// A client that gets no message looks every ten seconds.
#[tokio::test]
async fn a_client_without_messages_learns_of_a_limit_in_ten_seconds() {
    let server = Server::start();
    let operator = Locks::connect(&server.url()).await.unwrap();
    let silent = as_user(&server, "-subscribe -publish").await;
    silent.semaphore(POOL, 8).acquire().await.unwrap().release().await.unwrap();
    operator.limits().name(POOL).set(0).await.unwrap();
    let time = OwnTime::begin();
    until_closed(&silent).await;
    assert!(time.passed() < Duration::from_secs(13), "{:?}", time.passed());
}

/// A user of before, without the right to read them, works as before.
#[tokio::test]
async fn without_the_right_to_read_them_the_limits_of_the_code_hold() {
    let server = Server::start();
    let operator = Locks::connect(&server.url()).await.unwrap();
    operator.limits().name(POOL).set(0).await.unwrap();
    let former = as_user(&server, "-hgetall").await;
    let pool = former.semaphore(POOL, 2);
    let _both = (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
    assert!(matches!(pool.try_acquire().await, Err(LockError::Busy { .. })));
    let error = former.limits().list().await.unwrap_err();
    assert!(error.is_store_failure(), "{error}");
}

/// While none is set, a permit costs what it did: the limits are read once.
#[tokio::test]
async fn limits_that_nobody_sets_cost_one_command_for_each_client() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let begun = Instant::now();
    for _ in 0..100 {
        locks.semaphore(POOL, 2).acquire().await.unwrap().release().await.unwrap();
    }
    let stats: String = redis::cmd("INFO")
        .arg("commandstats")
        .query_async(&mut server.redis().await)
        .await
        .unwrap();
    let reads = stats.lines().find_map(|line| line.strip_prefix("cmdstat_hgetall:calls="));
    let reads: u64 = reads.and_then(|it| it.split(',').next()).unwrap().parse().unwrap();
    let repeated = begun.elapsed().as_secs() / 10;
    assert!((1..=1 + repeated).contains(&reads), "{reads}");
}

/// A server that has lost its data has no limits; the code's hold.
#[tokio::test]
async fn a_limit_ends_with_the_data_of_its_server() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    locks.limits().name(POOL).set(0).await.unwrap();
    until_closed(&locks).await;
    redis::cmd("FLUSHALL").exec_async(&mut server.redis().await).await.unwrap();
    let time = OwnTime::begin();
    let is_open = async || locks.semaphore(POOL, 8).try_acquire().await.is_ok();
    until("the limit has ended", is_open).await;
    assert!(time.passed() < Duration::from_secs(13), "{:?}", time.passed());
}

/// A user that gets the right later keeps to the limits from then on.
#[tokio::test]
async fn a_right_that_is_given_later_counts() {
    let server = Server::start();
    let operator = Locks::connect(&server.url()).await.unwrap();
    let former = as_user(&server, "-hgetall").await;
    drop(former.semaphore(POOL, 2).acquire().await.unwrap());
    Rights::of_the_docs().give([&server]).await;
    // It hears of a change, and reads again.
    operator.limits().name(POOL).set(0).await.unwrap();
    until_closed(&former).await;
}

/// What waits in one process gets in together when the limit is raised: nobody waits for the turn of
/// another.
#[tokio::test]
async fn a_raised_limit_lets_a_process_work_in_parallel() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let first = locks.semaphore(POOL, 1).acquire().await.unwrap();
    let (ready, mut all) = tokio::sync::mpsc::channel(16);
    let done = std::sync::Arc::new(tokio::sync::Notify::new());
    for _ in 0..10 {
        let (pool, ready, done) = (locks.semaphore(POOL, 1), ready.clone(), done.clone());
        tokio::spawn(async move {
            let _permit = pool.wait(leasehold::Wait::Forever).acquire().await.unwrap();
            ready.send(()).await.unwrap();
            done.notified().await;
        });
    }
    locks.limits().name(POOL).set(11).await.unwrap();
    for _ in 0..10 {
        tokio::time::timeout(Duration::from_secs(30), all.recv()).await.unwrap().unwrap();
    }
    done.notify_waiters();
    drop(first);
}
