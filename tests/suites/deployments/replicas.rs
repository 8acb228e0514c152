//! `sync_replicas`: a grant counts when replicas have it.

use std::time::Duration;

use leasehold::{LockError, Locks, Outcome, Rate, Wait};
use leasehold_tests::cluster::Cluster;
use leasehold_tests::kinds::EVERY_KIND;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::until;
use tokio::time::timeout;

use super::errors::run;
use super::sentinel::pair;

/// Much longer than anything here takes.
const SOON: Duration = Duration::from_secs(60);

const TTL: Duration = Duration::from_secs(30);

const TIME: Duration = Duration::from_millis(200);

async fn connect(server: &Server) -> Locks {
    Locks::builder().sync_replicas(1, TIME).connect(&server.url()).await.unwrap()
}

async fn keys(server: &Server) -> Vec<String> {
    let mut redis = server.redis().await;
    redis::cmd("KEYS").arg("leasehold:lock:*").query_async(&mut redis).await.unwrap()
}

/// Waits until the master has waited in vain for its replica, and does so again.
async fn until_asked_twice(master: &Server) {
    let before = master.stats("wait").await.0;
    until("the client asks again", async || master.stats("wait").await.0 > before + 1).await;
}

/// The replica has a grant as soon as the holder has it.
#[tokio::test]
async fn a_grant_is_at_the_replica() {
    let [master, replica] = pair().await;
    let locks = connect(&master).await;
    for (nth, kind) in EVERY_KIND.into_iter().enumerate() {
        let name = format!("a:{nth}");
        let guard = kind.lock(&locks, &name, TTL).await.unwrap();
        let there = keys(&replica).await;
        assert!(there.contains(&format!("leasehold:lock:{{{name}}}")), "{kind:?}: {there:?}");
        guard.release().await.unwrap();
    }
    assert!(master.stats("wait").await.0 >= EVERY_KIND.len() as u64);
}

/// The replica is frozen. A grant that it does not get in time is cancelled.
#[tokio::test]
async fn a_grant_that_the_replica_lacks_is_refused() {
    let [master, replica] = pair().await;
    let (locks, other) = (connect(&master).await, Locks::connect(&master.url()).await.unwrap());
    let frozen = replica.freeze().await;
    for (nth, kind) in EVERY_KIND.into_iter().enumerate() {
        let name = format!("a:{nth}");
        let error = kind.try_lock(&locks, &name, TTL).await.unwrap_err();
        assert!(matches!(error, LockError::Store { outcome: Outcome::NotRun, .. }), "{error:?}");
        super::assert_error_has(&error, &["only 0 of 1 replicas have it", "sync_replicas"]);
        let free = kind.rival().try_lock(&other, &name, TTL).await;
        free.expect("it was taken back").release().await.unwrap();
    }
    // The waiter is granted when the replica goes on.
    let mutex = locks.mutex("a:0").wait(SOON);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until_asked_twice(&master).await;
    drop(frozen);
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

/// The replica is frozen. What is taken from a rate, and does not get there, lets nobody in, and is
/// given back.
#[tokio::test]
async fn a_rate_that_the_replica_lacks_lets_nobody_in() {
    let [master, replica] = pair().await;
    let locks = connect(&master).await;
    let limit = || locks.rate("r", Rate::per_hour(2));
    let frozen = replica.freeze().await;
    for asked in [
        limit().try_acquire().await.map(drop),
        limit().wait(2 * TIME).acquire().await.map(drop),
        locks.all(["a"]).rate("r", Rate::per_hour(2)).try_lock().await.map(drop),
    ] {
        let error = asked.unwrap_err();
        assert!(matches!(error, LockError::Store { outcome: Outcome::NotRun, .. }), "{error:?}");
    }
    // A waiter gets in when the replica goes on.
    let waits = limit().wait(SOON);
    let waiting = tokio::spawn(async move { waits.acquire().await });
    until_asked_twice(&master).await;
    drop(frozen);
    assert_eq!(waiting.await.unwrap().unwrap().remaining(), 1);
}

/// The replica has the mark of done work as soon as the completion has its answer. Without the
/// replica the caller learns that the mark may be lost; on the master it counts.
#[tokio::test]
async fn a_completion_is_at_the_replica() {
    let [master, replica] = pair().await;
    let locks = connect(&master).await;
    let work = |name: &str| locks.mutex(name).ttl(TTL).once(TTL);
    let is_marked = async |name: &str| -> bool {
        let mut redis = replica.redis().await;
        let done = format!("leasehold:done:{{{name}}}");
        redis::cmd("EXISTS").arg(done).query_async(&mut redis).await.unwrap()
    };
    for name in ["a", "b", "c"] {
        work(name).lock().await.unwrap().complete().await.unwrap();
        assert!(is_marked(name).await, "{name}");
    }

    let lease = work("d").lock().await.unwrap();
    let frozen = replica.freeze().await;
    let error = lease.complete().await.unwrap_err();
    assert!(matches!(error, LockError::Store { outcome: Outcome::Unknown, .. }), "{error:?}");
    super::assert_error_has(&error, &["only 0 of 1 replicas have it", "sync_replicas"]);
    let other = Locks::connect(&master.url()).await.unwrap();
    assert!(other.mutex("d").once(TTL).try_lock().await.is_err_and(|error| error.is_done()));
    drop(frozen);
    until("it is at the replica", async || is_marked("d").await).await;
}

/// A completion that the replica lacks is sent again, maybe on another connection. Since Redis 7.2, `WAIT`
/// waits for what its own connection has written: on those servers alone this shows something.
#[tokio::test]
async fn a_completion_that_is_sent_again_is_at_the_replica() {
    let [master, replica] = pair().await;
    let locks = connect(&master).await;
    let work = |name: &str| locks.mutex(name).ttl(TTL).once(TTL);
    // At the same time, so each has a connection.
    let (a, b, c) = (work("a"), work("b"), work("c"));
    let (first, second, third) = tokio::join!(a.lock(), b.lock(), c.lock());
    let frozen = replica.freeze().await;
    for lease in [first, second, third] {
        let error = lease.unwrap().complete().await.unwrap_err();
        super::assert_error_has(&error, &["only 0 of 1 replicas have it", "sync_replicas"]);
    }
    drop(frozen);
}

/// The replica is frozen. An adoption that it does not get is a grant that it does not get.
#[tokio::test]
async fn an_adoption_that_the_replica_lacks_is_refused() {
    let [master, replica] = pair().await;
    let (locks, other) = (connect(&master).await, Locks::connect(&master.url()).await.unwrap());
    let ticket = async || locks.mutex("a").ttl(TTL).lock().await.unwrap().detach().await.unwrap();
    locks.adopt(ticket().await).await.unwrap().release().await.unwrap();
    let ticket = ticket().await;
    let frozen = replica.freeze().await;
    let error = locks.adopt(ticket).await.unwrap_err();
    super::assert_error_has(&error, &["only 0 of 1 replicas have it", "sync_replicas"]);
    // It is cancelled in the background.
    other.mutex("a").wait(SOON).lock().await.expect("it is free").release().await.unwrap();
    drop(frozen);
}

/// WAIT delays no other command: another lock is renewed and released meanwhile.
#[tokio::test]
async fn other_commands_are_not_delayed() {
    let [master, replica] = pair().await;
    let locks = Locks::builder().sync_replicas(1, SOON).connect(&master.url()).await.unwrap();
    let lease = locks.mutex("held").ttl(TTL).lock().await.unwrap();
    let frozen = replica.freeze().await;
    let mutex = locks.mutex("a").wait(SOON);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    let is_waiting = async || master.info("clients", "blocked_clients").await == 1;
    until("the master waits for the replica", async || is_waiting().await).await;
    lease.renew().await.unwrap();
    lease.release().await.unwrap();
    assert!(is_waiting().await, "it has not ended meanwhile");
    drop(frozen);
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

/// No WAIT follows a hand-over by a release. The waiter asks again, and so waits for the replicas.
#[tokio::test]
async fn a_handed_over_lease_is_at_the_replica() {
    let [master, replica] = pair().await;
    let (one, two) = (connect(&master).await, connect(&master).await);
    let lease = one.mutex("a").lock().await.unwrap();
    let mutex = two.mutex("a").wait(Wait::Forever);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until("it waits", async || one.inspect("a").await.unwrap().waiting > 0).await;
    let waited = master.stats("wait").await.0;
    let frozen = replica.freeze().await;
    lease.release().await.unwrap();
    until_asked_twice(&master).await;
    assert!(!waiting.is_finished(), "the replica does not know the grant");
    drop(frozen);
    let lease = timeout(SOON, waiting).await.unwrap().unwrap().unwrap();
    assert!(master.stats("wait").await.0 > waited);
    lease.release().await.unwrap();
}

#[tokio::test]
async fn sync_replicas_is_refused_where_it_is_unavailable() {
    let builder = || Locks::builder().sync_replicas(1, TIME);
    let server = Server::start();
    let cluster = Cluster::start().await;
    let manager = bb8_redis::RedisConnectionManager::new(server.url()).unwrap();
    let pool = bb8_redis::bb8::Pool::builder().build(manager).await.unwrap();
    for error in [
        builder().connect(&cluster.url()).await.unwrap_err(),
        builder().connect(&cluster.nodes()[0].url()).await.unwrap_err(),
        builder().connect_pool(pool).await.unwrap_err(),
        builder().sync_replicas(0, TIME).connect(&server.url()).await.unwrap_err(),
        builder().sync_replicas(1, Duration::ZERO).connect(&server.url()).await.unwrap_err(),
    ] {
        let is_it = matches!(error, LockError::InvalidOption { option: "sync_replicas", .. });
        assert!(is_it, "{error}");
    }
}

#[tokio::test]
async fn without_the_right_to_wait_nothing_is_left_behind() {
    let [master, _replica] = pair().await;
    run(&mut master.redis().await, "ACL SETUSER u on >p ~* &* +@all -wait").await;
    let url = format!("redis://u:p@127.0.0.1:{}/", master.port());
    let locks = Locks::builder().sync_replicas(1, TIME).connect(&url).await.unwrap();
    let error = locks.mutex("a").try_lock().await.unwrap_err();
    super::assert_error_has(&error, &["docs/keys.md"]);
    let other = Locks::connect(&master.url()).await.unwrap();
    other.mutex("a").try_lock().await.unwrap().release().await.unwrap();
}
