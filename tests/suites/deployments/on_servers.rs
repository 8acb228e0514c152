//! One server: passwords, foreign keys, missing rights, and the cost of an acquire.

use std::process::Command;

use futures_util::future::join_all;
use leasehold::Rate;
use leasehold::store::{Adoption, Ask, ClientId, ClientInfo, Kind, Owner, Request};
use leasehold_tests::process::Process;
use leasehold_tests::requests::{redis_store, redis_store_of, request};
use leasehold_tests::rights::{LOGIN, Rights, assert_nothing_was_refused};
use leasehold_tests::server::Server;
use leasehold_tests::tls::{Tls, authority};
use leasehold_tests::waiting::{until, until_outlived};

use super::*;

fn worker(url: Option<&str>) -> Vec<String> {
    worker_with(url, None)
}

fn worker_with(url: Option<&str>, prefix: Option<&str>) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
    command.args(["-", "env"]).env_remove("REDIS_URL").env_remove("LEASEHOLD_PREFIX");
    command.envs(url.map(|url| ("REDIS_URL", url)));
    Process::start(command.envs(prefix.map(|prefix| ("LEASEHOLD_PREFIX", prefix)))).rest()
}

/// As the tool takes it.
#[tokio::test]
async fn from_env_takes_the_prefix_of_its_variable() {
    let server = Server::start();
    let locked = ["from_env: locked", "or_in_memory: locked"];
    assert_eq!(worker_with(Some(&server.url()), Some("")), locked, "an empty one counts as none");
    let locks = Locks::builder().prefix("billing").connect(&server.url()).await.unwrap();
    let held = locks.mutex("a").lock().await.unwrap();
    assert_eq!(worker_with(Some(&server.url()), Some("orders")), locked);
    let waits = worker_with(Some(&server.url()), Some("billing"));
    assert!(waits.is_empty(), "it is held there: {waits:?}");
    held.release().await.unwrap();
    let said = worker_with(Some(&server.url()), Some("a{b")).join("\n");
    assert!(said.contains("from_env: `LEASEHOLD_PREFIX`: "), "{said}");
}

#[tokio::test]
async fn from_env_is_an_error_without_the_variable() {
    let said = worker(None).join("\n");
    assert!(said.contains("from_env: `REDIS_URL`: it is not set"), "{said}");
    assert!(said.contains("or_in_memory: locked"), "{said}");
    assert_eq!(worker(Some("")), worker(None), "an empty one counts as none");
    let server = Server::start();
    let said = worker(Some(&server.url())).join("\n");
    assert_eq!(said, "from_env: locked\nor_in_memory: locked");
}

#[tokio::test]
async fn a_missing_or_wrong_password_is_reported() {
    let server = Server::start_with(&["--requirepass", CANARY]);
    let error = Locks::connect(&server.url()).await.unwrap_err();
    assert!(matches!(error, LockError::Store { step: Step::Connect, .. }), "{error}");
    assert_error_has(&error, &["asks for a password", &server.port().to_string()]);

    let url = |password| format!("redis://:{password}@127.0.0.1:{}/", server.port());
    let error = Locks::connect(&url("wrong")).await.unwrap_err();
    assert_error_has(&error, &["password in the URL is wrong"]);

    let locks = Locks::connect(&url(CANARY)).await.unwrap();
    assert_no_secret(&locks);
    let lease = locks.mutex("a").lock().await.unwrap();
    assert_no_secret(&lease);
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_changed_password_is_reported() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut redis = server.redis().await;
    redis::cmd("CONFIG").arg(&["SET", "requirepass", CANARY]).exec_async(&mut redis).await.unwrap();
    let kill = redis::cmd("CLIENT").arg(&["KILL", "SKIPME", "yes"]).clone();
    kill.exec_async(&mut redis).await.unwrap();
    let error = locks.mutex("a").try_lock().await.unwrap_err();
    assert!(matches!(error, LockError::Store { .. }), "{error}");
    assert_error_has(&error, &["asks for a password"]);
}

#[tokio::test]
async fn foreign_keys_are_left_alone() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut redis = server.redis().await;
    for (key, name) in [("lock", "list"), ("holders", "set")] {
        let key = format!("leasehold:{key}:{{{name}}}");
        redis::cmd("RPUSH").arg(&key).arg("x").exec_async(&mut redis).await.unwrap();
    }
    for error in [
        locks.mutex("list").lock().await.unwrap_err(),
        locks.semaphore("list", 2).acquire().await.unwrap_err(),
        locks.semaphore("set", 2).acquire().await.unwrap_err(),
    ] {
        assert!(matches!(error, LockError::WrongKind { .. }), "{error}");
        assert_error_has(&error, &["choose another name"]);
    }
    // A lock's key becomes something else while it is held.
    let lease = locks.mutex("a").lock().await.unwrap();
    let permit = locks.semaphore("s", 1).acquire().await.unwrap();
    for key in ["leasehold:lock:{a}", "leasehold:lock:{s}"] {
        redis::cmd("DEL").arg(key).exec_async(&mut redis).await.unwrap();
        redis::cmd("RPUSH").arg(key).arg("x").exec_async(&mut redis).await.unwrap();
    }
    assert!(matches!(lease.release().await, Err(LockError::Lost { .. })));
    assert!(matches!(permit.release().await, Err(LockError::Lost { .. })));
    for key in ["leasehold:lock:{a}", "leasehold:lock:{s}"] {
        let kind: String = redis::cmd("TYPE").arg(key).query_async(&mut redis).await.unwrap();
        assert_eq!(kind, "list");
    }
}

/// Somebody deleted the record of a semaphore, and put something else in its place.
#[tokio::test]
async fn a_foreign_key_in_place_of_a_record_is_left_alone() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut redis = server.redis().await;
    let key = "leasehold:lock:{s}";

    let first = locks.semaphore("s", 2).acquire().await.unwrap();
    let second = locks.semaphore("s", 2).acquire().await.unwrap();
    redis::cmd("DEL").arg(key).exec_async(&mut redis).await.unwrap();
    let refused = locks.mutex("s").try_lock().await;
    assert!(matches!(refused, Err(LockError::WrongKind { .. })), "{refused:?}");

    first.release().await.unwrap();
    redis::cmd("SET")
        .arg(&[key, "somebody's", "PX", "60000"])
        .exec_async(&mut redis)
        .await
        .unwrap();
    second.release().await.unwrap();
    let value: String = redis::cmd("GET").arg(key).query_async(&mut redis).await.unwrap();
    assert_eq!(value, "somebody's");
}

/// The server's certificate is signed by an authority of the test's own,
/// which one process trusts and the other does not.
#[tokio::test]
async fn tls_is_used_and_certificates_are_checked() {
    let server = Tls::start_with(&["--requirepass", CANARY]);
    let url = server.url_as(&format!(":{CANARY}@"));
    let worker = |ca: Option<String>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
        command.args(["-", "env"]).env("REDIS_URL", &url).env_remove("SSL_CERT_DIR");
        Process::start(command.envs(ca.map(|ca| ("SSL_CERT_FILE", ca)))).rest().join("\n")
    };
    assert_eq!(worker(Some(authority())), "from_env: locked\nor_in_memory: locked");
    let said = worker(None);
    let address = url.rsplit('@').next().unwrap().trim_end_matches('/');
    assert!(said.contains(&format!("connect to {address}")), "{said}");
    assert!(said.contains("certificate") && !said.contains(CANARY), "{said}");
}

#[tokio::test]
async fn a_cancel_leaves_a_foreign_string_alone() {
    let server = Server::start();
    let store = redis_store(&server.url()).await;
    let mut redis = server.redis().await;
    let set = redis::cmd("SET").arg(&["leasehold:lock:{a}", "somebody's", "PX", "60000"]).clone();
    set.exec_async(&mut redis).await.unwrap();
    for kind in [Kind::Mutex, Kind::Semaphore { limit: 2, weight: 1 }] {
        assert!(!store.cancel(&request("a", kind, Duration::from_secs(9))).await.unwrap());
    }
    let value: String =
        redis::cmd("GET").arg("leasehold:lock:{a}").query_async(&mut redis).await.unwrap();
    assert_eq!(value, "somebody's");
}

/// A missing right fails a script in the middle.
#[tokio::test]
async fn a_user_without_a_right_leaves_no_key_without_expiry() {
    for missing in ["pexpire", "pttl", "set", "zadd", "zcard", "time"] {
        let server = Server::start();
        let mut redis = server.redis().await;
        let url = user_without(&server, missing).await;
        let store = redis_store(&url).await;
        for kind in [Kind::Mutex, Kind::Semaphore { limit: 2, weight: 1 }] {
            let name = if kind == Kind::Mutex { "a" } else { "s" };
            let _ = store.acquire(&request(name, kind, Duration::from_secs(9)), None).await;
            // Its TTL is shorter than the first one, so the script asks how long the key lasts.
            let refused = store.acquire(&request(name, kind, Duration::from_secs(5)), None).await;
            assert!(refused.is_err() || missing != "pttl", "{missing}: {refused:?}");
        }
        every_key_expires(&mut redis, missing).await;
    }
}

async fn every_key_expires(redis: &mut redis::aio::MultiplexedConnection, missing: &str) {
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(redis).await.unwrap();
    for key in keys {
        let left: i64 = redis::cmd("PTTL").arg(&key).query_async(redis).await.unwrap();
        assert!(left > 0, "without {missing}, {key} has {left}");
    }
}

/// A user that lacks one right of the scripts.
async fn user_without(server: &Server, missing: &str) -> String {
    let mut acl = redis::cmd("ACL");
    acl.arg(&["SETUSER", "u", "on", ">p", "~*", "+@all", &format!("-{missing}")]);
    acl.exec_async(&mut server.redis().await).await.unwrap();
    format!("redis://u:p@127.0.0.1:{}/", server.port())
}

/// The same for the keys of owners, weights, forced releases and a client's record of itself.
#[tokio::test]
async fn a_user_without_a_right_leaves_no_owner_without_expiry() {
    for missing in ["pexpire", "zincrby", "unlink", "rename", "zadd"] {
        let server = Server::start();
        let mut redis = server.redis().await;
        let url = user_without(&server, missing).await;
        let id = ClientId::random();
        let store = redis_store_of(&url, id).await;
        let client = ClientInfo::new(id, "a".into(), String::new(), 1);
        let _ = store.introduce(&client, Duration::from_secs(9)).await;
        let kinds = [
            Kind::Mutex,
            Kind::Reentrant,
            Kind::Semaphore { limit: 2, weight: 2 },
            Kind::Read,
            Kind::Write,
        ];
        for kind in kinds {
            for owner in [None, Some(Owner::new("me").unwrap())] {
                let name = format!("{kind:?}, {owner:?}");
                let mut request = request(&name, kind, Duration::from_secs(9));
                request.owner = owner;
                let _ = store.acquire(&request, None).await;
                let _ = store.force_release(&request.key, leasehold_tests::requests::force()).await;
            }
        }
        every_key_expires(&mut redis, missing).await;
    }
}

/// The same for rates, limits, marks of success, and what is asked to run again.
#[tokio::test]
async fn a_user_without_a_right_leaves_no_limit_without_expiry() {
    for missing in ["pexpire", "zadd", "zremrangebyscore", "hset", "hincrby", "set", "publish"] {
        let server = Server::start();
        let mut redis = server.redis().await;
        let locks = Locks::connect(&user_without(&server, missing).await).await.unwrap();
        let _ = locks.rate("r", Rate::per_minute(5)).try_acquire().await;
        let _ = locks.limits().name("s").set(2).await;
        let job = locks.mutex("j").once_per(Duration::from_secs(3600));
        if let Ok(lease) = job.try_lock().await {
            let _ = lease.complete().await;
        }
        let _ = locks.run_again("j", "ann", "it failed").await;
        every_key_expires(&mut redis, missing).await;
    }
}

#[tokio::test]
async fn a_server_without_the_client_command_works() {
    let server = Server::start_with(&["--rename-command", "CLIENT", ""]);
    let locks = Locks::connect(&server.url()).await.unwrap();
    locks.mutex("a").lock().await.unwrap().release().await.unwrap();
}

/// Exactly the rights that docs/keys.md lists. Both checks mostly wait for leases to outlast their
/// TTLs, so they run at the same time.
#[tokio::test]
async fn the_documented_rights_are_enough() {
    join_all(["", " -client|info -client|kill"].map(rights_are_enough)).await;
}

/// Checks that the documented rights, with this change, are enough.
async fn rights_are_enough(more: &str) {
    /// On a busy machine a renewal may be late, but not by a second.
    const TTL: Duration = Duration::from_millis(1500);
    let server = Server::start();
    Rights::of_the_docs().and(more).give([&server]).await;
    let url = server.url_as(LOGIN);
    let locks = Locks::connect(&url).await.unwrap();
    for _ in 0..2 {
        let lease = locks.mutex("a").ttl(TTL).lock().await.unwrap();
        let permit = locks.semaphore("s", 1).ttl(TTL).acquire().await.unwrap();
        assert!(locks.semaphore("s", 1).try_acquire().await.unwrap_err().is_held_by_another());
        tokio::join!(until_outlived(&lease, TTL), until_outlived(&permit, TTL));
        lease.release().await.unwrap();
        permit.release().await.unwrap();
    }
    // Cancelled and expired requests.
    let store = redis_store(&url).await;
    store.cancel(&request("t", Kind::Mutex, Duration::from_secs(9))).await.unwrap();
    let limit = Kind::Semaphore { limit: 1, weight: 1 };
    // A command for it has a third of its TTL.
    let dead = request("t", limit, Duration::from_secs(1));
    store.acquire(&dead, None).await.unwrap();
    let permit = || {
        let two = Kind::Semaphore { limit: 2, weight: 1 };
        request("t", two, Duration::from_secs(9))
    };
    store.acquire(&permit(), None).await.unwrap();
    until("the first is dead", async || locks.inspect("t").await.unwrap().held == 1).await;
    store.acquire(&permit(), None).await.unwrap();
    assert!(!store.cancel(&dead).await.unwrap(), "it is dead");
    for (nth, kind) in
        [Kind::Mutex, Kind::Reentrant, limit, Kind::Read, Kind::Write].into_iter().enumerate()
    {
        let [from, heir] = [(); 2].map(|()| {
            let owner = Owner::new("me").ok();
            Request { owner, ..request(&nth.to_string(), kind, Duration::from_secs(9)) }
        });
        store.acquire(&from, None).await.unwrap();
        let adopted = store.adopt(from.id.into(), &heir).await.unwrap();
        assert!(matches!(adopted, Adoption::Adopted { .. }), "{kind:?}: {adopted:?}");
    }
    crate::kinds::every_kind_and_question(&locks).await;
    if more.is_empty() {
        assert_nothing_was_refused([&server]).await;
    }
}

#[tokio::test]
async fn every_key_has_an_expiry_and_every_connection_a_name() {
    let server = Server::start();
    let locks =
        Locks::builder().prefix("shop").service("billing").connect(&server.url()).await.unwrap();
    let lease = locks.mutex("a").lock().await.unwrap();
    let permit = locks.semaphore("s", 3).acquire().await.unwrap();
    locks
        .mutex("b")
        .hold_at_least(Duration::from_secs(9))
        .lock()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    locks.mutex("c").lock().await.unwrap().release().await.unwrap();
    locks.semaphore("t", 3).acquire().await.unwrap().release().await.unwrap();
    // With owners, a writer, and a forced lease.
    let hold = locks.reentrant_mutex("e").owner("me").lock().await.unwrap();
    let rw = locks.rw_lock("r").owner("me");
    let leases = [rw.read().await.unwrap(), rw.try_write().await.unwrap(), hold];
    let forced = locks.mutex("f").lock().await.unwrap();
    let _ = locks.force_release("f").await.unwrap();

    let mut redis = server.redis().await;
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut redis).await.unwrap();
    assert_eq!(keys.len(), 14, "{keys:?}");
    for key in &keys {
        assert!(key.starts_with("shop:"), "{key}");
        let left: i64 = redis::cmd("PTTL").arg(key).query_async(&mut redis).await.unwrap();
        assert!(left > 0, "{key} has {left}");
    }
    let client = keys.iter().find(|key| key.starts_with("shop:client:")).expect("its record");
    let fields = ["service", "process"];
    let (service, process): (String, u32) =
        redis::cmd("HMGET").arg(client).arg(&fields).query_async(&mut redis).await.unwrap();
    assert_eq!((&*service, process), ("billing", std::process::id()));
    lease.release().await.unwrap();
    permit.release().await.unwrap();
    assert!(forced.release().await.is_err());
    for lease in leases {
        lease.release().await.unwrap();
    }
}

/// The commands that an uncontended acquire and its release cost.
#[tokio::test]
async fn an_acquire_and_a_release_are_one_command_each() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    // The first of each sends its script, once for all clients.
    locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    locks.semaphore("s", 1).acquire().await.unwrap().release().await.unwrap();
    let mut redis = server.redis().await;
    redis::cmd("CONFIG").arg("RESETSTAT").exec_async(&mut redis).await.unwrap();
    for _ in 0..100 {
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
        locks.semaphore("s", 1).acquire().await.unwrap().release().await.unwrap();
    }
    let stats: String =
        redis::cmd("INFO").arg("commandstats").query_async(&mut redis).await.unwrap();
    assert!(stats.contains("cmdstat_evalsha:calls=400,"), "{stats}");
    for other in ["cmdstat_eval:", "cmdstat_ping:", "cmdstat_script"] {
        assert!(!stats.contains(other), "{stats}");
    }
}
