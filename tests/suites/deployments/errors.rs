//! Errors of servers, each provoked on a real one: whether the command may have
//! run, whether asking again may help, and what the user is told.

use leasehold_tests::requests::{self, redis_store};
use std::time::Duration;

use leasehold::store::redis::RedisStore;
use leasehold::store::{Ask, Attempt, Ended, Kind, Renewal, Request, StoreError};
use leasehold::{LockError, LockKey, Locks, LossReason, Outcome};
use leasehold_tests::kinds::EVERY_KIND;
use leasehold_tests::server::{Server, free_port};
use leasehold_tests::waiting::until;
use redis::aio::MultiplexedConnection;
use tokio::time::timeout;

const TTL: Duration = Duration::from_secs(30);

/// Runs a command; a `_` is a blank that belongs to a word.
pub(super) async fn run(redis: &mut MultiplexedConnection, command: &str) {
    let words: Vec<_> = command.split(' ').map(|word| word.replace('_', " ")).collect();
    redis::cmd(&words[0]).arg(&words[1..]).exec_async(redis).await.expect(command);
}

async fn store(url: &str) -> RedisStore {
    redis_store(url).await
}

fn request(name: &str) -> Request {
    requests::request(name, Kind::Mutex, TTL)
}

/// The error of a refused acquire, from the store and from the public API.
struct Refused {
    error: StoreError,
    told: LockError,
}

async fn refused(url: &str) -> Refused {
    let (store, locks) = (store(url).await, Locks::connect(url).await.unwrap());
    refused_to(&store, &locks).await
}

async fn refused_to(store: &RedisStore, locks: &Locks) -> Refused {
    let error = store.acquire(&request("order:42"), None).await.unwrap_err();
    let told = locks.mutex("order:42").try_lock().await.unwrap_err();
    Refused { error, told }
}

impl Refused {
    /// Checks that the command did not run, that `is_passing` says whether a retry may help, and
    /// that the error names the lock and contains these words.
    fn is(&self, is_passing: bool, words: &[&str]) {
        let Self { error, told } = self;
        assert_eq!((error.outcome, error.is_passing), (Outcome::NotRun, is_passing), "{error:?}");
        let text = told.to_string();
        for word in words.iter().chain(&["`order:42`"]) {
            assert!(text.contains(word), "no {word:?} in: {text}");
        }
        assert!(matches!(told, LockError::Store { outcome: Outcome::NotRun, .. }), "{told:?}");
    }
}

#[tokio::test]
async fn a_forgotten_script_is_no_error() {
    let server = Server::start();
    let store = store(&server.url()).await;
    run(&mut server.redis().await, "SCRIPT FLUSH").await;
    let granted = store.acquire(&request("a"), None).await;
    assert!(matches!(granted, Ok(Attempt::Granted { .. })), "{granted:?}");
}

#[tokio::test]
async fn a_replica_refuses_for_now() {
    let server = Server::start();
    let (store, locks) = (store(&server.url()).await, Locks::connect(&server.url()).await.unwrap());
    let mut redis = server.redis().await;
    run(&mut redis, "REPLICAOF 127.0.0.1 1").await;
    refused_to(&store, &locks).await.is(true, &["read only replica", "is a replica"]);
    run(&mut redis, "CONFIG SET replica-serve-stale-data no").await;
    // Writes are refused as before, reads with another message.
    let error = store.inspect(&LockKey::new("order:42").unwrap()).await.unwrap_err();
    let told = locks.inspect("order:42").await.unwrap_err();
    Refused { error, told }.is(true, &["Link with MASTER", "is a replica"]);
    run(&mut redis, "REPLICAOF NO ONE").await;
    locks.mutex("order:42").lock().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_master_without_its_replicas_refuses_for_now() {
    let server = Server::start();
    let (mut redis, locks) = (server.redis().await, Locks::connect(&server.url()).await.unwrap());
    let kept = locks.mutex("kept").ttl(TTL).lock().await.unwrap();
    let lost = locks.mutex("lost").ttl(TTL / 30).lock().await.unwrap();
    run(&mut redis, "CONFIG SET min-replicas-to-write 1").await;
    refused(&server.url()).await.is(true, &["good replicas", "min-replicas-to-write"]);
    // Renewals are refused too, so leases end at their deadlines, and not before.
    assert_eq!(timeout(2 * TTL, lost.lost()).await.expect("it ends"), LossReason::Expired);
    assert!(kept.is_held());
    run(&mut redis, "CONFIG SET min-replicas-to-write 0").await;
    kept.renew().await.unwrap();
    kept.release().await.unwrap();
    locks.mutex("lost").try_lock().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_server_that_cannot_save_refuses_for_now() {
    let folder = std::env::temp_dir().join(format!("leasehold-misconf-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let server = Server::start_with(&["--dir", folder.to_str().unwrap()]);
    let mut redis = server.redis().await;
    // A dump can't replace a folder.
    std::fs::create_dir_all(folder.join("dump.rdb")).unwrap();
    run(&mut redis, "BGSAVE").await;
    let info = redis::cmd("INFO").arg("persistence").clone();
    until("it fails", async || {
        let said: String = info.query_async(&mut redis).await.unwrap();
        said.contains("rdb_last_bgsave_status:err")
    })
    .await;
    run(&mut redis, "CONFIG SET save 3600_1").await;
    refused(&server.url()).await.is(true, &["save to its disk"]);
    drop(server);
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_server_busy_with_a_script_refuses_for_now() {
    let server = Server::start();
    let (store, locks) = (store(&server.url()).await, Locks::connect(&server.url()).await.unwrap());
    let (mut redis, mut other) = (server.redis().await, server.redis().await);
    run(&mut redis, "CONFIG SET busy-reply-threshold 10").await;
    let endless = tokio::spawn(async move {
        let _ = redis::cmd("EVAL").arg("while true do end").arg(0).exec_async(&mut other).await;
    });
    until("it is busy", async || redis::cmd("PING").exec_async(&mut redis).await.is_err()).await;
    refused_to(&store, &locks).await.is(true, &["running a script", "SCRIPT KILL ends it"]);
    run(&mut redis, "SCRIPT KILL").await;
    endless.await.unwrap();
    locks.mutex("order:42").lock().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_server_that_loads_its_data_refuses_for_now() {
    let folder = std::env::temp_dir().join(format!("leasehold-loading-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let server = Server::start_with(&[
        "--dir",
        folder.to_str().unwrap(),
        "--enable-debug-command",
        "yes",
        "--loading-process-events-interval-bytes",
        "1024",
    ]);
    let (store, locks) = (store(&server.url()).await, Locks::connect(&server.url()).await.unwrap());
    let (mut redis, mut other) = (server.redis().await, server.redis().await);
    run(&mut redis, "DEBUG POPULATE 2000").await;
    run(&mut redis, "CONFIG SET key-load-delay 1000").await;
    let reloading = tokio::spawn(async move {
        let _ = redis::cmd("DEBUG").arg("RELOAD").exec_async(&mut other).await;
    });
    until("it loads", async || redis::cmd("GET").arg("x").exec_async(&mut redis).await.is_err())
        .await;
    refused_to(&store, &locks).await.is(true, &["loading the dataset"]);
    run(&mut redis, "CONFIG SET key-load-delay 0").await;
    timeout(Duration::from_secs(60), reloading).await.expect("it ends").unwrap();
    locks.mutex("order:42").lock().await.unwrap().release().await.unwrap();
    drop(server);
    std::fs::remove_dir_all(folder).unwrap();
}

/// A full server grants nothing. It renews and releases leases of every kind.
#[tokio::test]
async fn a_full_server_renews_and_releases_held_leases() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut guards = Vec::new();
    for (nth, kind) in EVERY_KIND.into_iter().enumerate() {
        guards.push(kind.lock(&locks, &format!("held:{nth}"), TTL).await.unwrap());
    }
    let store = store(&server.url()).await;
    let held = request("held");
    assert!(matches!(store.acquire(&held, None).await, Ok(Attempt::Granted { .. })));
    run(&mut server.redis().await, "CONFIG SET maxmemory 1").await;

    refused(&server.url()).await.is(true, &["memory is full", "maxmemory"]);
    for kind in EVERY_KIND {
        let error = kind.try_lock(&locks, "more", TTL).await.unwrap_err();
        assert!(error.to_string().contains("memory is full"), "{kind:?}: {error}");
    }
    assert!(matches!(store.renew(&held).await, Ok(Renewal::Renewed)));
    assert!(matches!(store.release(&held, Duration::ZERO).await, Ok(Ended::Released)));
    for guard in guards {
        for lease in guard.leases() {
            lease.renew().await.unwrap();
        }
        guard.release().await.unwrap();
    }
    run(&mut server.redis().await, "CONFIG SET maxmemory 0").await;
    for (nth, kind) in EVERY_KIND.into_iter().enumerate() {
        kind.rival().try_lock(&locks, &format!("held:{nth}"), TTL).await.expect("it is free");
    }
}

#[tokio::test]
async fn a_user_without_rights_learns_which_right_is_missing() {
    let server = Server::start();
    let mut redis = server.redis().await;
    run(&mut redis, "ACL SETUSER nobody on >p ~leasehold:* &* +@all").await;
    run(&mut redis, "ACL SETUSER elsewhere on >p ~other:* &* +@all").await;
    run(&mut redis, "ACL SETUSER half on >p ~* &* +@all -time -set").await;
    let url = |user| format!("redis://{user}:p@127.0.0.1:{}/", server.port());
    refused(&url("elsewhere")).await.is(false, &["docs/keys.md"]);
    // `connect` refuses a user that may not call scripts; this one may no longer.
    let (store, locks) =
        (store(&url("nobody")).await, Locks::connect(&url("nobody")).await.unwrap());
    run(&mut redis, "ACL SETUSER nobody -evalsha -eval").await;
    refused_to(&store, &locks).await.is(false, &["docs/keys.md"]);
    // A script that fails in the middle may have written before.
    let Refused { error, told } = refused(&url("half")).await;
    assert_eq!((error.outcome, error.is_passing), (Outcome::Unknown, false));
    assert!(told.to_string().contains("docs/keys.md"), "{told}");
}

#[tokio::test]
async fn a_server_without_room_for_clients_says_so() {
    let server = Server::start();
    let mut redis = server.redis().await;
    run(&mut redis, "CONFIG SET maxclients 1").await;
    // The server sends the error and closes. The driver may see the close first.
    for _ in 0..10 {
        let error = Locks::connect(&server.url()).await.unwrap_err();
        super::assert_error_has(&error, &["maxclients"]);
        assert!(matches!(error, LockError::Store { outcome: Outcome::NotRun, .. }), "{error:?}");
    }
    run(&mut redis, "CONFIG SET maxclients 9").await;
    Locks::connect(&server.url()).await.unwrap();
}

/// The user may not ask the node what it is. Only a cluster gives these answers.
#[tokio::test]
async fn a_cluster_node_behind_a_plain_url_is_detected() {
    let table = std::env::temp_dir().join(format!("leasehold-node-{}", free_port()));
    let table_name = table.to_str().unwrap();
    let server =
        Server::start_with(&["--cluster-enabled", "yes", "--cluster-config-file", table_name]);
    let mut redis = server.redis().await;
    run(&mut redis, "ACL SETUSER u on >p ~* &* +@all -info").await;
    let url = format!("redis://u:p@127.0.0.1:{}/", server.port());
    refused(&url).await.is(true, &["Hash slot not served", "lacks nodes"]);

    // Even with all slots it refuses what a single server would do.
    run(&mut redis, "CLUSTER ADDSLOTSRANGE 0 16383").await;
    let info = redis::cmd("CLUSTER").arg("INFO").clone();
    until("it has all slots", async || {
        info.query_async::<String>(&mut redis).await.unwrap().contains("state:ok")
    })
    .await;
    let store = store(&url).await;
    let several = store.acquire_all(&[request("a"), request("b")], &[]).expect("one command");
    let error = several.await.unwrap_err();
    assert_eq!((error.outcome, error.is_passing), (Outcome::NotRun, false));
    let text = error.source.to_string();
    assert!(text.contains("same slot") && text.contains("with the feature `cluster`"), "{text}");
    drop(server);
    let _ = std::fs::remove_file(table);
}
