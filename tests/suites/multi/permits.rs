//! Permits in a set: faults on the way, and what a set costs.

use std::time::Duration;

use leasehold::{Fault, LeaseSet, LockError, Locks, MultiLock, Wait};
use leasehold_tests::polls::{drop_after, is_pending};
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(9);

/// The delay of a slow answer.
const LATE: Duration = Duration::from_millis(1);

fn set(locks: &Locks) -> MultiLock {
    locks.all(["b"]).permit("a", 2).weighted_permit("c", 4, 3).ttl(TTL).wait(Wait::Forever)
}

fn take(locks: &Locks) -> impl Future<Output = LeaseSet> + Send + use<> {
    let set = set(locks);
    async move { set.lock().await.unwrap() }
}

/// Checks that nobody holds or waits for any of them.
async fn are_free(locks: &Locks) {
    let whole = locks.all(["b"]).weighted_permit("a", 2, 2).weighted_permit("c", 4, 4);
    whole.try_lock().await.unwrap().release().await.unwrap();
}

/// Drops the future after its k-th poll, for every k. One command takes all, with or without its
/// answer, or the call waits for one of them.
#[tokio::test(start_paused = true)]
async fn dropping_the_acquire_at_any_point_leaves_nothing() {
    let delay = Fault::Delay(LATE);
    for held in [None, Some(("a", 2)), Some(("c", 4))] {
        for first in [delay, Fault::LoseReplyAfter(LATE), Fault::LoseCommand, Fault::Unreachable] {
            for polls in 1.. {
                let (locks, faults) = Locks::in_memory_with_faults();
                let holder = Locks::over(faults.store().clone());
                let held = match held {
                    Some((name, all)) => {
                        Some(holder.semaphore(name, all).acquire_many(all).await.unwrap())
                    }
                    None => None,
                };
                let release = tokio::spawn(async move {
                    sleep(LATE * 20).await;
                    if let Some(held) = held {
                        held.release().await.unwrap();
                    }
                });
                faults.next(first);
                faults.always(delay);
                let taken = drop_after(polls, take(&locks)).await;
                let is_done = taken.is_some();
                if let Some(leases) = taken {
                    assert!(leases.is_held());
                    leases.release().await.unwrap();
                }
                release.await.unwrap();
                sleep(Duration::from_secs(1)).await;
                faults.heal();
                are_free(&holder).await;
                sleep(TTL * 2).await;
                faults.store().log();
                sleep(TTL * 2).await;
                assert_eq!(faults.store().log(), [""; 0], "nothing is renewed after {polls} polls");
                if is_done {
                    assert!(polls > 1, "the plan never suspends");
                    break;
                }
            }
        }
    }
}

/// The client sends the command again with the same ids, and these have the permits.
#[tokio::test(start_paused = true)]
async fn a_request_with_a_lost_reply_is_repeated() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let holder = Locks::over(faults.store().clone());
    faults.next(Fault::LoseReply);
    let leases = set(&locks).try_lock().await.unwrap();
    assert_eq!(faults.store().log(), ["acquire_all", "acquire_all"]);
    assert_eq!(holder.inspect("a").await.unwrap().holders.len(), 1);
    assert_eq!(holder.inspect("c").await.unwrap().holders.len(), 1);
    sleep(TTL * 2).await;
    assert!(leases.is_held(), "they are renewed");
    assert!(!faults.store().log().contains(&"cancel"), "they are held");
    leases.release().await.unwrap();
    are_free(&holder).await;
}

/// A waiter of this process that has not asked the store yet is in no queue there.
#[tokio::test]
async fn waiters_of_the_process_are_not_overtaken() {
    let locks = Locks::in_memory();
    let held = locks.semaphore("c", 4).acquire_many(4).await.unwrap();
    let waiting = || {
        let semaphore = locks.semaphore("c", 4).wait(Wait::Forever);
        Box::pin(async move { semaphore.acquire_many(4).await.unwrap() })
    };
    let [mut first, mut second, mut third] = [(); 3].map(|()| waiting());
    for waiting in [&mut first, &mut second, &mut third] {
        assert!(is_pending(waiting).await);
    }
    held.release().await.unwrap();
    first.await.release().await.unwrap();
    match set(&locks).try_lock().await {
        Err(LockError::Busy { key, .. }) => assert_eq!(key.name(), "c"),
        other => panic!("{other:?}"),
    }
    let set = set(&locks);
    let mut all = Box::pin(set.lock());
    assert!(is_pending(&mut all).await);
    second.await.release().await.unwrap();
    assert!(is_pending(&mut all).await, "the third was there before");
    third.await.release().await.unwrap();
    all.await.unwrap().release().await.unwrap();
    are_free(&locks).await;
}

#[cfg(feature = "servers")]
mod on_servers {
    use futures_util::future::join_all;
    use leasehold::Rate;
    use leasehold::store::{All, Ask, ClientId, Kind, NotAll, Renewal};
    use leasehold_tests::backend::light_client;
    use leasehold_tests::requests::{
        Requests, redis_store, request, sent_together, take as take_of,
    };
    use leasehold_tests::server::Server;

    use super::*;

    #[tokio::test]
    async fn two_limits_and_a_mutex_cost_one_command() {
        let server = Server::start();
        let locks = light_client(&server).await;
        let all = locks.all(["order"]).permit("tenant", 4).weighted_permit("total", 64, 2);
        // Loads the scripts into the server.
        all.lock().await.unwrap().release().await.unwrap();
        server.forget_stats().await;
        let leases = all.lock().await.unwrap();
        assert_eq!(server.script_calls().await, 1);
        leases.release().await.unwrap();
        assert_eq!(server.stats("publish").await.0, 0);
    }

    /// The sets of many tasks share calls, and each has its own answer.
    #[tokio::test]
    async fn sets_that_are_sent_together_are_answered_one_by_one() {
        let server = Server::start();
        let (store, client) = (redis_store(&server.url()).await, Requests::of(ClientId::random()));
        let permit =
            |name: &str, limit| client.next(name, Kind::Semaphore { limit, weight: 1 }, TTL);
        let mutex = |name: &str| client.next(name, Kind::Mutex, TTL);
        let mixed = (0..12).map(|nth| {
            let (own, set) = (format!("own:{nth}"), permit("all", 5));
            (vec![set, mutex(&own)], vec![client.take("r", Rate::per_hour(4), 1)])
        });
        let mutexes = (0..12).map(|nth| {
            (vec![mutex(&format!("a:{}", nth % 3)), mutex(&format!("b:{nth}"))], Vec::new())
        });
        let sets: Vec<_> = mixed.chain(mutexes).collect();
        server.forget_stats().await;
        let answers = sent_together(&server, async {
            let ask = |(locks, takes): &(Vec<_>, Vec<_>)| store.acquire_all(locks, takes).unwrap();
            join_all(sets.iter().map(ask).collect::<Vec<_>>()).await
        });
        let answers: Vec<_> = answers.await.into_iter().map(Result::unwrap).collect();
        let calls = server.script_calls().await;
        assert!(calls <= 4, "24 sets in {calls} calls");
        let (mixed, mutexes) = answers.split_at(12);
        assert!(mixed[..4].iter().all(|it| matches!(it, Ok(got) if got.len() == 3)), "{mixed:?}");
        let is_used_up = |it: &All| matches!(it, Err(NotAll::UsedUp(0, _)));
        assert!(mixed[4..].iter().all(is_used_up), "{mixed:?}");
        assert!(mutexes[..3].iter().all(|it| matches!(it, Ok(got) if got.len() == 2)));
        assert!(mutexes[3..].iter().all(|it| *it == Err(NotAll::Busy(0))), "{mutexes:?}");
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
            join_all(
                sets.iter().map(|set| store.acquire_all(set, &[]).unwrap()).collect::<Vec<_>>(),
            )
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
            let rate = || [take_of("r", Rate::per_hour(1), 1)];
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
}
