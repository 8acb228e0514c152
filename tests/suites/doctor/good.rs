//! Good servers, on which nothing is found.

use std::time::Duration;

use bb8_redis::RedisConnectionManager;
use bb8_redis::bb8::Pool;
use leasehold::Locks;
use leasehold_tests::cluster::Cluster;
use leasehold_tests::rights::{LOGIN, Rights, assert_nothing_was_refused};
use leasehold_tests::sentinel::Sentinel;
use leasehold_tests::server::Server;
use leasehold_tests::waiting;

use super::nothing;
use super::server::{good, replica_of, run, until};

async fn keep_on_disk(servers: &[Server]) {
    for server in servers {
        run(&mut server.redis().await, "CONFIG SET appendonly yes").await;
    }
}

fn has(diagnosis: &leasehold::Diagnosis, name: &str, words: &str) {
    let mut values = diagnosis.facts.iter().filter(|fact| fact.name == name);
    assert!(values.any(|fact| fact.value.contains(words)), "{name}: {words}: {diagnosis:#?}");
}

#[tokio::test]
async fn nothing_is_found_on_one_server() {
    let server = good();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let held = locks.mutex("held").lock().await.unwrap();
    let done = locks.mutex("free").lock().await.unwrap();
    done.release().await.unwrap();
    let diagnosis = locks.diagnose().await;
    nothing(&diagnosis);
    let address = format!("127.0.0.1:{}", server.port());
    assert!(diagnosis.facts.iter().all(|fact| fact.server == address), "{diagnosis:#?}");
    for (name, words) in [
        ("version", "."),
        ("mode", "standalone"),
        ("role", "master"),
        ("round-trip", "(median)"),
        ("clock", "this machine's"),
        ("memory", "no limit, maxmemory-policy noeviction"),
        ("persistence", "appendonly yes, appendfsync everysec; no save points"),
        ("replicas", "none"),
        ("clients", " of "),
        ("keys", "3 in all databases, 3 of them"),
        ("records", "3 keys under the prefix leasehold (all): 1 of locks, 1 of these in use"),
    ] {
        has(&diagnosis, name, words);
    }
    assert!(held.is_held());
    held.release().await.unwrap();
}

/// It is what the client has: by RESP2, on several connections, and in another database.
#[tokio::test]
async fn nothing_is_found_by_other_connections() {
    let server = good();
    for url in [format!("{}?protocol=resp2", server.url()), format!("{}3", server.url())] {
        let locks = Locks::builder().connections(3).connect(&url).await.unwrap();
        nothing(&locks.diagnose().await);
    }
    let lazy = Locks::connect_lazy(&server.url()).unwrap();
    nothing(&lazy.diagnose().await);
}

#[tokio::test]
async fn nothing_is_found_by_a_pool() {
    let server = good();
    let manager = RedisConnectionManager::new(server.url()).unwrap();
    let pool = Pool::builder().build(manager).await.unwrap();
    let locks = Locks::builder().connect_pool(pool).await.unwrap();
    nothing(&locks.diagnose().await);
}

#[tokio::test]
async fn nothing_is_found_on_a_master_with_a_replica() {
    let server = good();
    let replica = replica_of(&server).await;
    let sync = Locks::builder().sync_replicas(1, Duration::from_secs(1));
    let locks = sync.connect(&server.url()).await.unwrap();
    let diagnosis = until(&locks, 0).await;
    has(&diagnosis, "replicas", &format!("127.0.0.1:{} online", replica.port()));
}

#[tokio::test]
async fn nothing_is_found_behind_sentinels() {
    let sentinel = Sentinel::start(1, Duration::from_secs(15)).await;
    keep_on_disk(sentinel.servers()).await;
    let locks = Locks::connect(&sentinel.url()).await.unwrap();
    let diagnosis = until(&locks, 0).await;
    let master = format!("127.0.0.1:{}", sentinel.servers()[0].port());
    assert!(diagnosis.facts.iter().all(|fact| fact.server == master), "{diagnosis:#?}");
}

#[tokio::test]
async fn nothing_is_found_on_a_cluster() {
    let cluster = Cluster::start().await;
    keep_on_disk(cluster.nodes()).await;
    let locks = Locks::connect(&cluster.url()).await.unwrap();
    let diagnosis = locks.diagnose().await;
    nothing(&diagnosis);
    for node in cluster.nodes() {
        let server = format!("127.0.0.1:{}", node.port());
        let facts = diagnosis.facts.iter().filter(|fact| fact.server == server);
        assert!(facts.count() > 10, "{diagnosis:#?}");
    }
    has(&diagnosis, "cluster", "3 nodes, 16384 of 16384 slots");
}

#[tokio::test]
async fn nothing_is_found_on_a_quorum() {
    let servers = [good(), good(), good()];
    let urls = servers.iter().map(Server::url);
    let builder = Locks::builder().longest_ttl(Duration::from_secs(1));
    let locks = builder.connect_quorum(urls).await.unwrap();
    let diagnosis = loop {
        let diagnosis = locks.diagnose().await;
        // The machine may be busy.
        let is_slow = diagnosis.findings.iter().any(|it| it.check == "latency");
        if !is_slow {
            break diagnosis;
        }
    };
    nothing(&diagnosis);
    let told = servers.iter().filter(|server| {
        let address = format!("127.0.0.1:{}", server.port());
        diagnosis.facts.iter().any(|fact| fact.server == address)
    });
    assert_eq!(told.count(), 3, "{diagnosis:#?}");
}

/// The user of docs/keys.md with the rights for a diagnosis: nothing is found, and the server has
/// refused nothing.
#[tokio::test]
async fn the_documented_rights_are_enough() {
    let rights = || Rights::of_the_docs().also("For a whole diagnosis, add `…`.");
    let server = good();
    rights().give([&server]).await;
    let locks = Locks::connect(&server.url_as(LOGIN)).await.unwrap();
    nothing(&locks.diagnose().await);
    assert_nothing_was_refused([&server]).await;

    let cluster = Cluster::start().await;
    keep_on_disk(cluster.nodes()).await;
    let of_cluster = rights().also("On a cluster, add `…`: the client asks");
    let of_cluster = of_cluster.also("On a cluster, a diagnosis also needs `…`.");
    of_cluster.give(cluster.nodes()).await;
    let locks = Locks::connect(&cluster.url_as(LOGIN)).await.unwrap();
    nothing(&locks.diagnose().await);
    assert_nothing_was_refused(cluster.nodes()).await;
}

/// A look leaves the server as it was, and the locks as they were.
#[tokio::test]
async fn a_diagnosis_changes_nothing() {
    let server = good();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let held = locks.mutex("held").ttl(Duration::from_secs(60)).lock().await.unwrap();
    // The client writes who it is in the background.
    waiting::until("the client is known", async || {
        locks.inspect("held").await.unwrap().holders[0].client.is_some()
    })
    .await;
    let mut redis = server.redis().await;
    let keys = async |redis: &mut _| {
        let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(redis).await.unwrap();
        keys.sort();
        keys
    };
    let (before, changes) =
        (keys(&mut redis).await, server.info("persistence", "rdb_changes_since_last_save").await);
    for _ in 0..3 {
        nothing(&locks.diagnose().await);
    }
    assert_eq!(keys(&mut redis).await, before);
    let after = server.info("persistence", "rdb_changes_since_last_save").await;
    assert_eq!(after, changes, "no write has written");
    // Hints still arrive.
    let waiter = locks.mutex("held").wait(Duration::from_secs(30));
    let other = Locks::connect(&server.url()).await.unwrap();
    other.diagnose().await;
    let waits = tokio::spawn(async move { waiter.lock().await });
    held.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
}
