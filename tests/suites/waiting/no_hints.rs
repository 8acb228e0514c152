//! Waiting without hints takes longer, and works.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::store::ClientId;
use leasehold::store::redis::{RedisStore, Settings};
use leasehold::{Locks, Wait};
use leasehold_tests::backend::light_client;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::{OwnTime, pass, until};
use redis::aio::MultiplexedConnection;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{ASK_AGAIN, until_queued};

/// Takes the right to publish from everybody, so every message is lost, and nobody is told.
async fn drop_all_messages(server: &Server) {
    let mut forbid = redis::cmd("ACL");
    forbid.arg(&["SETUSER", "default", "-publish", "-spublish"]);
    forbid.exec_async(&mut server.redis().await).await.unwrap();
}

/// A thousand contended grants. None is later than the poll bound.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_grants_without_a_message() {
    const LOCKS: usize = 250;
    let server = Server::start();
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(light_client(&server).await);
    }
    drop_all_messages(&server).await;
    let redis = server.redis().await;

    let (mut grants, mut firsts) = (tokio::task::JoinSet::new(), Vec::new());
    let time = Arc::new(OwnTime::begin());
    for n in 0..LOCKS {
        let name = format!("lock:{n}");
        let first = clients[0].mutex(&*name).lock().await.unwrap();
        let freed = Arc::new(Mutex::new(None));
        for locks in &clients[1..] {
            let (locks, name, freed) = (locks.clone(), name.clone(), freed.clone());
            let time = time.clone();
            grants.spawn(async move {
                let lease = locks.mutex(name).wait(Wait::Forever).lock().await.unwrap();
                let late =
                    freed.lock().await.map(|freed: Duration| time.passed().saturating_sub(freed));
                *freed.lock().await = Some(time.passed());
                lease.release().await.unwrap();
                late.expect("it was held when this one came")
            });
        }
        let (mut redis, time) = (redis.clone(), time.clone());
        firsts.push(async move {
            until_queued(&mut redis, &name, 4).await;
            *freed.lock().await = Some(time.passed());
            first.release().await.unwrap();
        });
    }
    join_all(firsts).await;
    let late = grants.join_all().await;
    assert_eq!(late.len(), LOCKS * 4);
    let latest = late.iter().max().unwrap();
    println!("{} grants without a message, the latest {latest:?} after the release", late.len());
    assert!(*latest < ASK_AGAIN + Duration::from_secs(1), "{latest:?}");
}

/// The connection is lost, and with it the hint. The waiter asks at once, and not only at its next
/// heartbeat.
#[tokio::test]
async fn a_lost_connection_makes_waiters_ask_at_once() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let (holder, locks) = (light_client(&server).await, light_client(&server).await);
    let mut times = Vec::new();
    for _ in 0..5 {
        let held = holder.mutex("a").lock().await.unwrap();
        let waits = super::waiter(locks.clone(), "a");
        until_queued(&mut redis, "a", 1).await;
        // Both connections are subscribed, so they are of this type.
        let mut kill = redis::cmd("CLIENT");
        kill.arg(&["KILL", "TYPE", "pubsub"]).exec_async(&mut redis).await.unwrap();
        let time = OwnTime::begin();
        held.release().await.unwrap();
        waits.await.unwrap().release().await.unwrap();
        times.push(time.passed());
    }
    times.sort_unstable();
    assert!(times[2] < ASK_AGAIN / 2, "{times:?}");
}

/// A client with four connections. Hints come over one of them.
async fn client_of_four(server: &Server) -> Locks {
    let settings = Settings { connections: 4, ..Settings::default() };
    let id = ClientId::random();
    let store = RedisStore::connect(&server.url(), &settings, id, Handle::current()).await;
    Locks::over_as(Arc::new(store.unwrap()), id)
}

/// The server's list of subscribed connections.
async fn subscribed(redis: &mut MultiplexedConnection) -> Vec<String> {
    let list: String = redis::cmd("CLIENT").arg("LIST").query_async(redis).await.unwrap();
    let lines = list.lines().filter(|line| line.contains(" sub=2 "));
    lines.map(str::to_owned).collect()
}

/// Names of locks whose commands do not use the connection of the hints. They are the same for each
/// client of four.
async fn elsewhere(server: &Server, count: usize) -> Vec<&'static str> {
    const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let mut names = Vec::new();
    for name in NAMES {
        let locks = client_of_four(server).await;
        locks.mutex(name).lock().await.unwrap().release().await.unwrap();
        let hearing = subscribed(&mut server.redis().await).await;
        if hearing.iter().all(|line| !line.contains(" cmd=evalsha")) {
            names.push(name);
        }
        drop(locks);
        until("it has gone", async || subscribed(&mut server.redis().await).await.is_empty()).await;
    }
    assert!(names.len() >= count, "three of four are elsewhere: {names:?}");
    names.truncate(count);
    names
}

/// The connection of the hints is lost, and no lock that is waited for uses it. The client makes a
/// new one all the same.
#[tokio::test]
async fn a_lost_connection_for_hints_returns_during_a_wait() {
    let server = Server::start();
    let names = elsewhere(&server, 3).await;
    let mut redis = server.redis().await;
    let (holder, locks) =
        (Locks::connect(&server.url()).await.unwrap(), client_of_four(&server).await);
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for name in names {
        held.push(holder.mutex(name).lock().await.unwrap());
        waiting.push(super::waiter(locks.clone(), name));
        until_queued(&mut redis, name, 1).await;
    }
    for _ in 0..3 {
        let before = subscribed(&mut redis).await;
        assert_eq!(before.len(), 2, "{before:?}");
        let mut kill = redis::cmd("CLIENT");
        kill.arg(&["KILL", "TYPE", "pubsub"]).exec_async(&mut redis).await.unwrap();
        drop(holder.mutex("z").lock().await.unwrap()); // by which the holder's comes back
        until("both hear again", async || subscribed(&mut redis).await.len() == 2).await;
    }
    let why = "a lost connection has let waiters ask often, and leases be renewed within a second";
    pass(Duration::from_millis(1300), why).await;
    server.forget_stats().await;
    let begun = Instant::now();
    // Waiters rest now, and rely on hints.
    until("three waiters have asked seven times", async || server.script_calls().await > 3 * 2)
        .await;
    assert!(begun.elapsed() > ASK_AGAIN, "{:?}", begun.elapsed());
    for (lease, waiter) in held.into_iter().zip(waiting) {
        server.forget_stats().await;
        lease.release().await.unwrap();
        waiter.await.unwrap().release().await.unwrap();
        let calls = server.script_calls().await;
        // Two releases, a confirmation, and the asks of the others.
        assert!(calls <= 5, "{calls} calls for a release that is told");
    }
}

/// Nobody may publish or subscribe: waiters ask often, and in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_right_to_messages_all_are_served_in_order() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let mut rights = redis::cmd("ACL");
    rights.arg(&["SETUSER", "u", "on", ">p", "~*", "resetchannels", "+@all"]);
    rights.arg(&["-subscribe", "-psubscribe", "-ssubscribe", "-publish", "-spublish"]);
    rights.exec_async(&mut redis).await.unwrap();
    let url = format!("redis://u:p@127.0.0.1:{}/", server.port());
    let holder = Locks::connect(&url).await.unwrap();
    let held = holder.mutex("a").lock().await.unwrap();
    let (order, mut grants) = tokio::sync::mpsc::unbounded_channel();
    for n in 0..10 {
        let (locks, order) = (Locks::connect(&url).await.unwrap(), order.clone());
        tokio::spawn(async move {
            let lease = locks.mutex("a").wait(Wait::Forever).lock().await.unwrap();
            order.send(n).unwrap();
            lease.release().await.unwrap();
        });
        until_queued(&mut redis, "a", n + 1).await;
    }
    drop(order);
    let time = OwnTime::begin();
    held.release().await.unwrap();
    for n in 0..10 {
        assert_eq!(grants.recv().await, Some(n));
    }
    assert!(time.passed() < Duration::from_secs(5), "200 ms each: {:?}", time.passed());
}
