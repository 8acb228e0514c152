//! Several locks on a real server.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::store::{All, Ask, ClientId, Kind, NotAll, Renewal};
use leasehold::{LockError, Rate, Wait};
use leasehold_tests::backend::light_client;
use leasehold_tests::requests::{Requests, redis_store, request, sent_together, take};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::until;

use super::{NAMES, are_free};

const TTL: Duration = Duration::from_secs(9);

/// The number of locks does not matter.
#[tokio::test]
async fn free_locks_cost_one_command() {
    let server = Server::start();
    let locks = light_client(&server).await;
    let names: Vec<_> = (0..64).map(|n| format!("n:{n}")).collect();
    // Loads the scripts into the server.
    locks.all(&names).lock().await.unwrap().release().await.unwrap();
    server.forget_stats().await;
    let leases = locks.all(&names).lock().await.unwrap();
    assert_eq!(server.script_calls().await, 1);
    sent_together(&server, leases.release()).await.unwrap();
    assert_eq!(server.script_calls().await, 1 + 5, "after the first, releases go 16 together");
    assert_eq!(server.stats("publish").await.0, 0);
    // Nor does the kind.
    let mixed = locks.all(["order"]).permit("tenant", 4).weighted_permit("total", 64, 2);
    mixed.lock().await.unwrap().release().await.unwrap();
    server.forget_stats().await;
    let leases = mixed.lock().await.unwrap();
    assert_eq!(server.script_calls().await, 1);
    leases.release().await.unwrap();
    assert_eq!(server.stats("publish").await.0, 0);
}

/// The key of a name holds a foreign value.
#[tokio::test]
async fn a_foreign_key_is_reported() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let locks = light_client(&server).await;
    // One of them looks like a record that is free.
    let alike = format!("{:0<64}", "0F");
    for (put, value, is_busy) in [("SET", "x", true), ("SET", &alike, true), ("RPUSH", "x", false)]
    {
        redis::cmd("DEL").arg("leasehold:lock:{b}").exec_async(&mut redis).await.unwrap();
        let mut put = redis::cmd(put);
        put.arg("leasehold:lock:{b}").arg(value).exec_async(&mut redis).await.unwrap();
        for refused in [locks.all(NAMES).try_lock().await, locks.all(["b", "c"]).try_lock().await] {
            match refused {
                Err(LockError::Busy { key, .. }) => assert!(is_busy && key.name() == "b"),
                Err(LockError::WrongKind { key, .. }) => assert!(!is_busy && key.name() == "b"),
                other => panic!("{other:?}"),
            }
        }
        redis::cmd("DEL").arg("leasehold:lock:{b}").exec_async(&mut redis).await.unwrap();
        until("the first lock is free", async || locks.mutex("a").try_lock().await.is_ok()).await;
        locks.all(NAMES).wait(Wait::Forever).lock().await.unwrap().release().await.unwrap();
        are_free(&locks).await;
    }
}

/// The sets of many tasks share calls, and each has its own answer.
#[tokio::test]
async fn sets_that_are_sent_together_are_answered_one_by_one() {
    let server = Server::start();
    let (store, client) = (redis_store(&server.url()).await, Requests::of(ClientId::random()));
    let permit = |name: &str, limit| client.next(name, Kind::Semaphore { limit, weight: 1 }, TTL);
    let mutex = |name: &str| client.next(name, Kind::Mutex, TTL);
    let mixed = (0..12).map(|nth| {
        let (own, set) = (format!("own:{nth}"), permit("all", 5));
        (vec![set, mutex(&own)], vec![client.take("r", Rate::per_hour(4), 1)])
    });
    let mutexes = (0..12).map(|nth| {
        (vec![mutex(&format!("a:{}", nth % 3)), mutex(&format!("b:{nth}"))], Vec::new())
    });
    let takes = (0..12).map(|nth| {
        let name = format!("r:{}", nth % 2);
        (Vec::new(), vec![client.take(&name, Rate::per_hour(4), 1)])
    });
    let sets: Vec<_> = mixed.chain(mutexes).chain(takes).collect();
    server.forget_stats().await;
    let answers = sent_together(&server, async {
        let ask = |(locks, takes): &(Vec<_>, Vec<_>)| store.acquire_all(locks, takes).unwrap();
        join_all(sets.iter().map(ask).collect::<Vec<_>>()).await
    });
    let answers: Vec<_> = answers.await.into_iter().map(Result::unwrap).collect();
    let calls = server.script_calls().await;
    assert!(calls <= 6, "36 sets in {calls} calls");
    let [mixed, mutexes, takes] = [0, 12, 24].map(|at| &answers[at..at + 12]);
    assert!(mixed[..4].iter().all(|it| matches!(it, Ok(got) if got.len() == 3)), "{mixed:?}");
    let is_used_up = |it: &All| matches!(it, Err(NotAll::UsedUp(0, _)));
    assert!(mixed[4..].iter().all(is_used_up), "{mixed:?}");
    assert!(mutexes[..3].iter().all(|it| matches!(it, Ok(got) if got.len() == 2)));
    assert!(mutexes[3..].iter().all(|it| *it == Err(NotAll::Busy(0))), "{mutexes:?}");
    assert_eq!(takes.iter().filter(|answer| answer.is_ok()).count(), 8, "{takes:?}");
    for (set, answer) in sets.iter().zip(&answers) {
        for request in &set.0 {
            let renewal = store.renew(request).await.unwrap();
            assert_eq!(renewal == Renewal::Renewed, answer.is_ok(), "{request:?}");
        }
    }
}

/// A foreign value in one set says nothing of those that share its call.
#[tokio::test]
async fn a_set_that_fails_does_not_fail_those_in_its_call() {
    let server = Server::start();
    let store = redis_store(&server.url()).await;
    let mut redis = server.redis().await;
    let mut put = redis::cmd("RPUSH");
    put.arg("leasehold:holders:{bad}").arg("x").exec_async(&mut redis).await.unwrap();
    put = redis::cmd("SET");
    let record = format!("SH{}{}0{}", "-".repeat(34), "0".repeat(16), "-".repeat(34));
    put.arg("leasehold:lock:{bad}").arg(record).exec_async(&mut redis).await.unwrap();
    let permit = |name: &str| request(name, Kind::Semaphore { limit: 2, weight: 1 }, TTL);
    let sets = ["a", "bad", "c"].map(|name| [permit(name), permit("other:1")]);
    let answers = sent_together(&server, async {
        join_all(sets.iter().map(|set| store.acquire_all(set, &[]).unwrap()).collect::<Vec<_>>())
            .await
    });
    let are_ok: Vec<_> = answers.await.iter().map(|it| matches!(it, Ok(Ok(_)))).collect();
    assert_eq!(are_ok, [true, false, true]);
}

/// The key of a name holds a foreign value, or its holders do.
#[tokio::test]
async fn foreign_keys_are_left_alone() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let store = redis_store(&server.url()).await;
    let permit = Kind::Semaphore { limit: 2, weight: 1 };
    for (put, key) in [("SET", "lock:{c}"), ("RPUSH", "lock:{c}"), ("RPUSH", "holders:{c}")] {
        let key = format!("leasehold:{key}");
        redis::cmd(put).arg(&key).arg("x").exec_async(&mut redis).await.unwrap();
        // Without the record, nobody looks at a foreign value beside it.
        let set = ["a", "b", "c"]
            .map(|name| request(name, if name == "b" { Kind::Mutex } else { permit }, TTL));
        let answer = store.acquire_all(&set, &[]).unwrap().await.unwrap();
        assert!(
            matches!(answer, Err(NotAll::Unknown | NotAll::Busy(2))),
            "{put} {key}: {answer:?}"
        );
        for request in &set[..2] {
            let renewal = store.renew(request).await.unwrap();
            assert!(matches!(renewal, Renewal::NotHeld(_)), "{put} {key}: {renewal:?}");
        }
        redis::cmd("DEL").arg(&key).exec_async(&mut redis).await.unwrap();
    }
}

/// A missing right fails the script in the middle.
#[tokio::test]
async fn a_script_that_fails_half_way_holds_nothing() {
    for missing in ["zadd", "pexpire", "pttl", "set", "zincrby", "time", "zcount"] {
        let server = Server::start();
        let mut redis = server.redis().await;
        let mut acl = redis::cmd("ACL");
        acl.arg(&["SETUSER", "u", "on", ">p", "~*", "&*", "+@all", &format!("-{missing}")]);
        acl.exec_async(&mut redis).await.unwrap();
        let url = format!("redis://u:p@127.0.0.1:{}/", server.port());
        let (store, whole) = (redis_store(&url).await, redis_store(&server.url()).await);
        // The last one fails if only weights need the right.
        let of = |name, weight| request(name, Kind::Semaphore { limit: 8, weight }, TTL);
        let before = of("d", 1);
        let _ = whole.acquire(&before, None).await.unwrap();
        let set = [request("a", Kind::Mutex, TTL), of("b", 1), of("c", 1), of("d", 2)];
        let rate = || [take("r", Rate::per_hour(1), 1)];
        let answer = store.acquire_all(&set, &rate()).unwrap().await;
        assert!(answer.is_err(), "without {missing}: {answer:?}");
        for request in &set {
            let renewal = whole.renew(request).await.unwrap();
            assert!(matches!(renewal, Renewal::NotHeld(_)), "without {missing}: {request:?}");
        }
        assert_eq!(whole.renew(&before).await.unwrap(), Renewal::Renewed, "{missing}");
        let set = [request("a", Kind::Mutex, TTL), of("b", 8), of("c", 8), of("d", 7)];
        let answer = whole.acquire_all(&set, &rate()).unwrap().await.unwrap();
        assert!(answer.is_ok(), "without {missing}: {answer:?}");
    }
}
