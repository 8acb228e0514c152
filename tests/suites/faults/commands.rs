//! Single commands on a server that forgot the scripts, or has foreign keys.

use leasehold_tests::requests;
use std::time::Duration;

use leasehold::LossReason::Taken;
use leasehold::store::redis::{RedisStore, Settings};
use leasehold::store::{
    Adoption, Ask, Attempt, ClientId, Kind, Owner, QueuePosition, Renewal, Request, Waiting,
};
use leasehold_tests::server::Server;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Handle;

const KINDS: [Kind; 5] = [
    Kind::Mutex,
    Kind::Reentrant,
    Kind::Semaphore { limit: 3, weight: 2 },
    Kind::Read,
    Kind::Write,
];

async fn store(server: &Server) -> RedisStore {
    let client = ClientId::random();
    RedisStore::connect(&server.url(), &Settings::default(), client, Handle::current())
        .await
        .unwrap()
}

fn request(name: &str, kind: Kind) -> Request {
    let owner = Owner::new("me").ok();
    Request { owner, ..requests::request(name, kind, Duration::from_secs(30)) }
}

async fn taken(store: &RedisStore, name: &str, kind: Kind) -> Request {
    let request = request(name, kind);
    let granted = store.acquire(&request, None).await.unwrap();
    assert!(matches!(granted, Attempt::Granted { .. }), "{granted:?}");
    request
}

async fn ask(redis: &mut MultiplexedConnection, line: &str) -> redis::Value {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().expect("a command"));
    command.arg(words.collect::<Vec<_>>()).query_async(redis).await.expect(line)
}

/// The value of a key of any type, and its expiry.
async fn stored(redis: &mut MultiplexedConnection, key: &str) -> [redis::Value; 2] {
    [ask(redis, &format!("DUMP {key}")).await, ask(redis, &format!("PTTL {key}")).await]
}

#[tokio::test]
async fn a_foreign_key_is_neither_adopted_nor_changed() {
    let server = Server::start();
    let (store, mut redis) = (store(&server).await, server.redis().await);
    // One value is as long as a record, and one begins like a record.
    let long = "x".repeat(100);
    let strings = ["foreign", "MH", &long].map(|value| ("lock", format!("SET KEY {value}")));
    let others = [("lock", "RPUSH KEY a".to_owned()), ("holders", "SET KEY a".to_owned())];
    for kind in KINDS {
        for (role, put) in strings.iter().chain(&others) {
            // Without a record there is nothing to look for among the holders.
            let from = taken(&store, "a", kind).await;
            let key = format!("leasehold:{role}:{{a}}");
            let _ = ask(&mut redis, &format!("DEL {key}")).await;
            let _ = ask(&mut redis, &put.replace("KEY", &key)).await;
            let before = stored(&mut redis, &key).await;
            let heir = request("a", kind);
            let answer = store.adopt(from.id.into(), &heir).await.unwrap();
            if kind == Kind::Mutex && *role == "holders" {
                assert!(matches!(answer, Adoption::Adopted { .. }), "a mutex has no such key");
            } else {
                assert_eq!(answer, Adoption::NotHeld(Taken), "{kind:?}: {put}");
            }
            assert_eq!(stored(&mut redis, &key).await, before, "{kind:?}: {put}");
            let _ = ask(&mut redis, "FLUSHALL").await;
        }
    }
}

#[tokio::test]
async fn adoption_survives_a_script_flush() {
    let server = Server::start();
    let (store, mut redis) = (store(&server).await, server.redis().await);
    for kind in KINDS {
        let (from, heir) = (taken(&store, "a", kind).await, request("a", kind));
        let mut first = None;
        for _ in 0..2 {
            let _ = ask(&mut redis, "SCRIPT FLUSH").await;
            let answer = store.adopt(from.id.into(), &heir).await.unwrap();
            assert!(matches!(answer, Adoption::Adopted { .. }), "{answer:?}");
            assert_eq!(*first.get_or_insert(answer), answer, "{kind:?}");
        }
        assert!(store.cancel(&heir).await.unwrap());
    }
}

/// The adopted lease may have been the one that would end last.
#[tokio::test]
async fn no_key_outlasts_the_holder_after_an_adoption() {
    let server = Server::start();
    let (store, mut redis) = (store(&server).await, server.redis().await);
    for (nth, kind) in KINDS.into_iter().enumerate() {
        let name = nth.to_string();
        let from = taken(&store, &name, kind).await;
        let heir = Request { ttl: Duration::from_secs(9), ..request(&name, kind) };
        // If others may hold beside it, the key does not go with the former holder.
        let _ = store.acquire(&Request { ttl: heir.ttl, ..request(&name, kind) }, None).await;
        let answer = store.adopt(from.id.into(), &heir).await.unwrap();
        assert!(matches!(answer, Adoption::Adopted { .. }), "{kind:?}: {answer:?}");
        for role in ["lock", "holders"] {
            let left = ask(&mut redis, &format!("PTTL leasehold:{role}:{{{name}}}")).await;
            let redis::Value::Int(left_ms) = left else { panic!("{left:?}") };
            let is_there = role == "lock" || kind != Kind::Mutex;
            assert_eq!(is_there, left_ms > 0, "{kind:?}: {role} ends in {left_ms}");
            assert!(left_ms <= 9_000, "{kind:?}: {role} ends in {left_ms}");
        }
    }
}

/// A full server allows adoption, as it allows renewals and releases: a detached lease must not be
/// lost to it.
#[tokio::test]
async fn a_full_server_allows_adoption() {
    let server = Server::start();
    let (store, mut redis) = (store(&server).await, server.redis().await);
    for (nth, kind) in KINDS.into_iter().enumerate() {
        let name = nth.to_string();
        let (from, heir) = (taken(&store, &name, kind).await, request(&name, kind));
        let _ = ask(&mut redis, "CONFIG SET maxmemory 1").await;
        assert!(store.acquire(&request("b", kind), None).await.is_err(), "it is full");
        let answer = store.adopt(from.id.into(), &heir).await.unwrap();
        assert!(matches!(answer, Adoption::Adopted { .. }), "{kind:?}: {answer:?}");
        let _ = ask(&mut redis, "CONFIG SET maxmemory 0").await;
    }
}

/// The server keeps what a script had done before it lacked a right. Who asks again gets a permit of its
/// whole weight, and a token of its own; so does a waiter that such a script has served.
#[tokio::test]
async fn a_grant_that_a_missing_right_cuts_short_is_none() {
    let server = Server::start();
    let (store, mut redis) = (store(&server).await, server.redis().await);
    let mut user = async |right: &str| {
        let _ = ask(&mut redis, &format!("ACL SETUSER default {right}")).await;
    };
    let permits = |weight| request("permits", Kind::Semaphore { limit: 3, weight });
    let all = permits(3);
    user("-zincrby").await;
    assert!(store.acquire(&all, None).await.is_err());
    user("+zincrby").await;
    let granted = store.acquire(&all, None).await.unwrap();
    assert!(matches!(granted, Attempt::Granted { .. }), "{granted:?}");
    let more = store.acquire(&permits(1), None).await.unwrap();
    assert!(matches!(more, Attempt::Busy { .. }), "{more:?}");

    let waits = || {
        let position = QueuePosition::New { age: Duration::ZERO };
        Some(Waiting { live: Duration::from_secs(20), position })
    };
    for kind in [Kind::Reentrant, Kind::Write] {
        let name = format!("{kind:?}");
        let [first, next] = [(); 2].map(|()| request(&name, kind));
        let last = Request { owner: Owner::new("other").ok(), ..request(&name, kind) };
        let Attempt::Granted { token: before } = store.acquire(&first, None).await.unwrap() else {
            panic!("{kind:?} is free")
        };
        let _ = store.release(&first, Duration::ZERO).await.unwrap();
        user("-set").await;
        assert!(store.acquire(&next, None).await.is_err());
        user("+set").await;
        let Attempt::Granted { token } = store.acquire(&next, None).await.unwrap() else {
            panic!("{kind:?} is free")
        };
        assert!(token > before, "{kind:?}: {token} after {before}");

        let queued = store.acquire(&last, waits()).await.unwrap();
        assert!(matches!(queued, Attempt::Queued { .. }), "{queued:?}");
        user("-zcard").await;
        assert!(store.release(&next, Duration::ZERO).await.is_err());
        user("+zcard").await;
        let Attempt::Granted { token: of_last } = store.acquire(&last, waits()).await.unwrap()
        else {
            panic!("{kind:?} was offered")
        };
        assert!(of_last > token, "{kind:?}: {of_last} after {token}");
    }
}

async fn all(store: &RedisStore, requests: &[Request]) -> Vec<Renewal> {
    let answers = store.renew_all(requests).await;
    answers.into_iter().map(|answer| answer.expect("the store answers")).collect()
}

#[tokio::test]
async fn a_foreign_key_does_not_disturb_other_renewals() {
    let server = Server::start();
    let (store, mut redis) = (store(&server).await, server.redis().await);
    let (mut requests, mut expected) = (Vec::new(), Vec::new());
    for (nth, kind) in KINDS.into_iter().enumerate() {
        requests.push(taken(&store, &format!("held:{nth}"), kind).await);
        expected.push(Renewal::Renewed);
        let roles: &[&str] = if kind == Kind::Mutex { &["lock"] } else { &["holders"] };
        for role in roles {
            let name = format!("foreign:{nth}:{role}");
            requests.push(taken(&store, &name, kind).await);
            expected.push(Renewal::NotHeld(Taken));
            let key = format!("leasehold:{role}:{{{name}}}");
            let _ = ask(&mut redis, &format!("DEL {key}")).await;
            let _ = ask(&mut redis, &format!("RPUSH {key} a")).await;
        }
    }
    for flush in [false, true] {
        if flush {
            let _ = ask(&mut redis, "SCRIPT FLUSH").await;
        }
        assert_eq!(all(&store, &requests).await, expected);
    }
}

/// Renewals whose script was forgotten are sent again one by one. The answers keep their order.
#[tokio::test]
async fn renewals_survive_a_script_flush_in_order() {
    let server = Server::start();
    let (store, mut redis) = (store(&server).await, server.redis().await);
    let (mut requests, mut expected) = (Vec::new(), Vec::new());
    for (nth, kind) in KINDS.into_iter().cycle().enumerate().take(1000) {
        let mut request = taken(&store, &nth.to_string(), kind).await;
        let is_lost = nth % 7 == 3;
        if is_lost {
            assert!(store.cancel(&request).await.unwrap());
        }
        request.ttl *= 2;
        requests.push(request);
        expected.push(!is_lost);
    }
    let _ = ask(&mut redis, "SCRIPT FLUSH").await;
    let renewed: Vec<_> =
        all(&store, &requests).await.into_iter().map(|it| it == Renewal::Renewed).collect();
    assert_eq!(renewed, expected);
    let redis::Value::Int(left_ms) = ask(&mut redis, "PTTL leasehold:lock:{999}").await else {
        panic!("it is there")
    };
    assert!(left_ms > 30_000, "{left_ms}");
}

/// The driver reports an empty pipeline like a broken connection.
#[tokio::test]
async fn an_empty_batch_of_renewals_opens_no_connection() {
    let server = Server::start();
    let (store, mut redis) = (store(&server).await, server.redis().await);
    let _ = taken(&store, "a", Kind::Mutex).await;
    let ids = async |redis: &mut MultiplexedConnection| {
        let list: String = redis::cmd("CLIENT").arg("LIST").query_async(redis).await.unwrap();
        let ids = list.lines().filter_map(|line| line.split(' ').next().map(str::to_owned));
        ids.collect::<Vec<_>>()
    };
    let before = ids(&mut redis).await;
    for name in ["b", "c"] {
        assert_eq!(all(&store, &[]).await, []);
        let _ = taken(&store, name, Kind::Mutex).await;
    }
    assert_eq!(ids(&mut redis).await, before);
}

/// If the server can't be reached, each renewal gets that error and no other.
#[tokio::test]
async fn each_renewal_reports_a_silent_server() {
    let server = Server::start();
    let store = store(&server).await;
    let requests = ["a", "b", "c"].map(|name| request(name, Kind::Mutex));
    drop(server);
    let answers = store.renew_all(&requests).await;
    assert_eq!(answers.len(), requests.len());
    assert!(answers.into_iter().all(|answer| answer.is_err_and(|error| error.is_passing)));
}
