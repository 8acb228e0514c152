//! Bugs of other lock libraries that must not occur here. Each test is named after the bug that
//! users saw. Bugs that other suites cover are left out.

use std::sync::Arc;
use std::time::Duration;

use leasehold::store::memory::MemoryStore;
use leasehold::{Fault, KeyTemplate, LockError, LockKey, Locks, Released, Wait};
use leasehold_tests::members::{Fault as Member, Members};
use proptest::prelude::*;
use tokio::time::{sleep, timeout};

const TTL: Duration = Duration::from_secs(9);

const LONG: Duration = Duration::from_secs(60);

/// After one failed renewal, no later lock of the name was renewed.
#[tokio::test(start_paused = true)]
async fn a_failed_renewal_harms_no_later_lease_of_the_name() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let first = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    faults.always(Fault::LoseCommand);
    first.lost().await;
    drop(first);
    faults.heal();
    let second = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    sleep(TTL * 5).await;
    assert!(second.is_held());
}

/// The watchdog of an acquisition that was given up renewed for ever.
#[tokio::test(start_paused = true)]
async fn an_abandoned_acquire_is_not_renewed() {
    let (locks, faults) = Locks::in_memory_with_faults();
    faults.next(Fault::Delay(Duration::from_secs(1)));
    let given_up = tokio::time::timeout(Duration::from_millis(10), locks.mutex("a").lock()).await;
    assert!(given_up.is_err());
    sleep(TTL * 10).await;
    assert_eq!(faults.store().log(), ["acquire", "cancel"]);
}

/// The release of a lost lock was tried again for two seconds, and its caller waited.
#[tokio::test(start_paused = true)]
async fn releasing_a_lost_lease_does_not_block() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    faults.always(Fault::LoseCommand);
    lease.lost().await;
    let begun = tokio::time::Instant::now();
    let released = lease.release().await;
    assert!(matches!(released, Err(LockError::Lost { .. })), "{released:?}");
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

/// An acquire that was sent again after a time-out took the re-entrant branch: the count
/// was two, there was one unlock, and it was held for ever.
#[tokio::test(start_paused = true)]
async fn an_acquire_that_is_sent_again_is_no_re_entry() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let mine = locks.reentrant_mutex("a").owner("me");
    faults.next(Fault::LoseReply);
    faults.next(Fault::LoseReply);
    let lease = mine.lock().await.unwrap();
    assert_eq!(faults.store().log(), ["acquire"; 3]);
    assert_eq!(lease.release().await.unwrap(), Released::Free);
    let _other = locks.reentrant_mutex("a").owner("other").try_lock().await.unwrap();
}

/// A permit that was released twice was minted anew.
#[tokio::test(start_paused = true)]
async fn a_release_that_is_sent_again_mints_no_permit() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let semaphore = locks.semaphore("a", 2);
    let (first, second) = (semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap());
    faults.next(Fault::LoseReply);
    first.release().await.unwrap();
    assert_eq!(faults.store().log()[2..], ["release", "release"]);
    let third = semaphore.try_acquire().await.unwrap();
    assert!(semaphore.try_acquire().await.is_err());
    drop((second, third));
}

/// With an even number of servers and an even vote, a call never returned. Here such a number is
/// refused. An even vote among the answers ends the call.
#[tokio::test(start_paused = true)]
async fn an_even_vote_is_an_answer() {
    let members = Members::start(3, LONG, LONG);
    members.member(2).kill();
    let one = members.locks().mutex("a").try_lock().await.unwrap();
    members.member(1).kill();
    members.member(2).revive();
    // One server has the lock, one does not, and one does not answer.
    let answered = timeout(TTL, members.locks().mutex("a").try_lock()).await;
    let answer = answered.expect("it returns");
    assert!(matches!(answer, Err(LockError::Busy { .. })), "{answer:?}");
    drop(one);
}

/// A lock was returned 108 ms after it had expired: the validity was not looked at last.
#[tokio::test(start_paused = true)]
async fn a_quorums_lock_is_not_returned_when_it_has_expired() {
    let members = Members::start(3, TTL, TTL);
    for place in 0..3 {
        members.member(place).plan(Member::Slow(Duration::from_millis(150)));
    }
    let ttl = Duration::from_millis(100);
    let lease = members.locks().mutex("a").ttl(ttl).wait(TTL).lock().await.unwrap();
    assert!(lease.is_held(), "it asked again");
    assert!(lease.remaining() > Duration::from_millis(90));
}

/// Grants of a minority blocked the next try.
#[tokio::test(start_paused = true)]
async fn grants_of_a_minority_do_not_vote_against_the_next_try() {
    let members = Members::start(3, LONG, LONG);
    members.member(1).plan(Member::LoseCommand);
    members.member(2).plan(Member::LoseCommand);
    let locks = members.locks();
    let failed = locks.mutex("a").try_lock().await;
    assert!(matches!(failed, Err(LockError::Quorum { .. })), "{failed:?}");
    locks.mutex("a").try_lock().await.unwrap().release().await.unwrap();
}

/// One server was restarted, and the next renewal dropped a lock that still had its
/// majority.
#[tokio::test(start_paused = true)]
async fn a_server_that_was_restarted_takes_no_lock_with_it() {
    let members = Members::start(3, TTL, TTL);
    let lease = members.locks().mutex("a").ttl(TTL).lock().await.unwrap();
    for place in [0, 1, 2] {
        members.member(place).restart_empty();
        sleep(TTL).await;
        assert!(lease.is_held());
    }
    lease.release().await.unwrap();
}

/// The renewals of a reader that lived kept those that had died.
#[tokio::test(start_paused = true)]
async fn a_reader_is_not_prolonged_by_anothers_renewals() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let dead = locks.rw_lock("a").ttl(TTL).read().await.unwrap();
    faults.always(Fault::LoseCommand);
    dead.lost().await;
    faults.heal();
    let live = locks.rw_lock("a").ttl(TTL).read().await.unwrap();
    sleep(TTL * 5).await;
    assert!(live.is_held());
    assert_eq!(locks.inspect("a").await.unwrap().held, 1);
    live.release().await.unwrap();
    let _writer = locks.rw_lock("a").try_write().await.unwrap();
}

/// The owner was the thread: two tasks on one thread shared the lock, and a
/// task that had moved could not unlock.
#[tokio::test]
async fn two_tasks_on_one_thread_do_not_share_a_lock() {
    let locks = Locks::in_memory();
    let lease = locks.mutex("a").lock().await.unwrap();
    let refused = locks.mutex("a").try_lock().await;
    assert!(matches!(refused, Err(LockError::Busy { .. })));
    let elsewhere = std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(lease.release())
    });
    elsewhere.join().unwrap().unwrap();
}

/// One had A and waited for B, the other had B and waited for A.
#[tokio::test(start_paused = true)]
async fn multi_locks_in_opposite_order_do_not_deadlock() {
    let store = Arc::new(MemoryStore::default());
    let [holder, one, other] = [(); 3].map(|()| Locks::over(store.clone()));
    // Neither of the two can have both at once.
    let [a, b] = ["a", "b"].map(|name| holder.mutex(name));
    let (a, b) = (a.lock().await.unwrap(), b.lock().await.unwrap());
    let sets = [one.all(["a", "b"]), other.all(["b", "a"])].map(|set| {
        tokio::spawn(async move { set.wait(Wait::Forever).lock().await.unwrap().release().await })
    });
    sleep(Duration::from_secs(1)).await;
    a.release().await.unwrap();
    b.release().await.unwrap();
    for set in sets {
        let served = tokio::time::timeout(Duration::from_secs(60), set).await;
        served.expect("they do not wait for each other").unwrap().unwrap();
    }
}

/// The key was stored as a fencing counter for each name ever used.
#[tokio::test(start_paused = true)]
async fn tokens_grow_without_a_counter_for_each_name() {
    let locks = Locks::in_memory();
    let before = locks.mutex("a").lock().await.unwrap().fence().unwrap();
    sleep(Duration::from_secs(3600)).await;
    assert!(locks.mutex("a").lock().await.unwrap().fence().unwrap() > before);
}

/// A caller could not tell busy, timed out, unreachable and lost apart.
#[tokio::test(start_paused = true)]
async fn each_way_to_fail_is_an_error_of_its_own() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let lease = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    let busy = locks.mutex("a").try_lock().await.unwrap_err();
    let timed_out = locks.mutex("a").wait(TTL / 9).lock().await.unwrap_err();
    faults.always(Fault::Unreachable);
    let unreachable = locks.mutex("b").try_lock().await.unwrap_err();
    lease.lost().await;
    let lost = lease.release().await.unwrap_err();
    assert!(matches!(busy, LockError::Busy { .. }) && busy.is_held_by_another());
    assert!(matches!(timed_out, LockError::TimedOut { .. }) && timed_out.is_held_by_another());
    assert!(matches!(unreachable, LockError::Store { .. }) && !unreachable.is_held_by_another());
    assert!(matches!(lost, LockError::Lost { .. }) && !lost.is_held_by_another());
}

/// The part of a key that a cluster hashes, after its documentation.
fn hashed(key: &str) -> &str {
    let tag = key.find('{').and_then(|open| {
        let inside = &key[open + 1..];
        inside.find('}').map(|close| &inside[..close]).filter(|tag| !tag.is_empty())
    });
    tag.unwrap_or(key)
}

/// Text with many characters that have a meaning in keys, or are escaped.
fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(
        prop_oneof![
            3 => prop_oneof![Just('{'), Just('}'), Just('%'), Just(':'), Just('2'), Just('5')],
            1 => any::<char>(),
        ],
        0..8,
    )
    .prop_map(String::from_iter)
}

proptest! {
    /// Derived keys missed the prefix or the hash tag: CROSSSLOT.
    #[test]
    fn all_keys_of_a_lock_are_in_one_slot(name in text()) {
        if let Ok(key) = LockKey::new(&name) {
            let lock = key.in_store("p", "lock");
            prop_assert!(lock.starts_with("p:lock:") && hashed(&lock) != lock, "{}", lock);
            for role in ["holders", "queue", "waiters", "wake"] {
                let other = key.in_store("p", role);
                prop_assert!(other.starts_with(&format!("p:{role}:")), "{}", other);
                prop_assert_eq!(hashed(&lock), hashed(&other));
                // On a cluster, waiters get hints over another channel.
                let channel = format!("{other}:{{x}}");
                prop_assert_eq!(hashed(&lock), hashed(&channel));
            }
        }
    }

    /// Names that differ are different locks.
    #[test]
    fn different_names_never_make_the_same_key(one in text(), other in text()) {
        if let (Ok(first), Ok(second)) = (LockKey::new(&one), LockKey::new(&other)) {
            let is_same = first.in_store("p", "lock") == second.in_store("p", "lock");
            prop_assert_eq!(is_same, one == other);
            let roles = first.in_store("p", "lock") == second.in_store("p", "holders");
            prop_assert!(!roles, "one lock's record is never another's second key");
        }
    }

    /// `("a:b", "c")` and `("a", "b:c")` were the same lock.
    #[test]
    fn different_values_never_make_the_same_key(
        one in (text(), text()),
        other in (text(), text()),
    ) {
        let key = |(first, second): &(String, String)| {
            let template = KeyTemplate::new().text("x:").part("first", first);
            template.text(":").part("second", second).finish()
        };
        if let (Ok(first), Ok(second)) = (key(&one), key(&other)) {
            prop_assert_eq!(first.name() == second.name(), one == other);
            let is_same = first.in_store("p", "lock") == second.in_store("p", "lock");
            prop_assert_eq!(is_same, one == other);
            let name = first.name();
            prop_assert_eq!(name.matches(':').count(), 2, "a value adds no segment: {}", name);
            prop_assert!(!name.contains(['{', '}']), "a value adds no slot: {}", name);
        }
    }
}

#[cfg(feature = "servers")]
mod on_servers {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use futures_util::future::join_all;
    use leasehold::{LockError, Locks, Wait};
    use leasehold_tests::backend::light_client;
    use leasehold_tests::kinds::{EVERY_KIND, Guard};
    use leasehold_tests::polls::drop_after;
    use leasehold_tests::process::Process;
    use leasehold_tests::server::Server;
    use redis::aio::MultiplexedConnection;

    async fn ask<T: redis::FromRedisValue>(redis: &mut MultiplexedConnection, line: &str) -> T {
        let mut words = line.split(' ');
        let mut command = redis::cmd(words.next().expect("a command"));
        command.arg(words.collect::<Vec<_>>()).query_async(redis).await.expect("an answer")
    }

    async fn until_queued(redis: &mut MultiplexedConnection, name: &str) {
        while ask::<u32>(redis, &format!("ZCARD leasehold:queue:{{{name}}}")).await == 0 {
            tokio::task::yield_now().await;
        }
    }

    fn waits(locks: &Locks, name: &str) -> tokio::task::JoinHandle<()> {
        let mutex = locks.mutex(name).wait(Wait::Forever);
        tokio::spawn(async move { mutex.lock().await.unwrap().release().await.map(drop).unwrap() })
    }

    /// A subscription a lock, out of a bounded pool: "unable to acquire
    /// subscription lock".
    #[tokio::test]
    async fn waiting_for_many_locks_takes_one_subscription() {
        let server = Server::start();
        let mut redis = server.redis().await;
        let (holder, locks) = (light_client(&server).await, light_client(&server).await);
        let mut all = Vec::new();
        for n in 0..300 {
            let name = format!("lock:{n}");
            all.push((holder.mutex(&*name).lock().await.unwrap(), waits(&locks, &name)));
        }
        while ask::<Vec<String>>(&mut redis, "KEYS leasehold:queue:*").await.len() < 300 {
            tokio::task::yield_now().await;
        }
        let channels: Vec<String> = ask(&mut redis, "PUBSUB CHANNELS").await;
        assert_eq!(channels.len(), 2, "one a client: {channels:?}");
        for (held, waits) in all {
            held.release().await.unwrap();
            waits.await.unwrap();
        }
    }

    /// The message came before the subscription was active, and the waiter slept
    /// for the whole lease.
    #[tokio::test]
    async fn a_release_right_behind_the_first_ask_is_not_missed() {
        let server = Server::start();
        let mut redis = server.redis().await;
        let holder = light_client(&server).await;
        for _ in 0..50 {
            let held = holder.mutex("a").lock().await.unwrap();
            let waits = waits(&light_client(&server).await, "a");
            until_queued(&mut redis, "a").await;
            let begun = Instant::now();
            held.release().await.unwrap();
            waits.await.unwrap();
            assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        }
    }

    /// Messages to nobody saturated the network.
    #[tokio::test]
    async fn nothing_is_published_when_nobody_waits() {
        let server = Server::start();
        let locks = light_client(&server).await;
        server.forget_stats().await;
        for n in 0..20 {
            let lease = locks.mutex(format!("a:{n}")).lock().await.unwrap();
            assert!(locks.mutex(format!("a:{n}")).try_lock().await.is_err());
            lease.release().await.unwrap();
            locks.semaphore("s", 2).acquire().await.unwrap().release().await.unwrap();
        }
        assert_eq!(server.stats("publish").await.0 + server.stats("spublish").await.0, 0);
    }

    /// The lock's key was evicted, or one of its queue's, and nobody was told.
    #[tokio::test]
    async fn evicted_keys_do_not_stall_waiters() {
        let server = Server::start();
        let mut redis = server.redis().await;
        for role in ["lock", "queue", "waiters", "holders"] {
            let (holder, locks) = (light_client(&server).await, light_client(&server).await);
            let held = holder.mutex("a").lock().await.unwrap();
            let all = holder.semaphore("s", 2).acquire_many(2).await.unwrap();
            let mutex = waits(&locks, "a");
            let semaphore = locks.semaphore("s", 2).wait(Wait::Forever);
            let permit = tokio::spawn(async move {
                semaphore.acquire_many(2).await.unwrap().release().await.map(drop).unwrap();
            });
            until_queued(&mut redis, "a").await;
            until_queued(&mut redis, "s").await;
            for name in ["a", "s"] {
                ask::<u32>(&mut redis, &format!("DEL leasehold:{role}:{{{name}}}")).await;
            }
            let begun = Instant::now();
            let _ = held.release().await;
            let _ = all.release().await;
            mutex.await.unwrap();
            permit.await.unwrap();
            let took = begun.elapsed();
            assert!(took < Duration::from_secs(4), "without its {role} key: {took:?}");
        }
    }

    /// A permit was lost with each crash.
    #[tokio::test]
    async fn a_crash_costs_no_permit() {
        let server = Server::start();
        let locks = light_client(&server).await;
        let mut crashed: Vec<_> = (0..3)
            .map(|_| {
                let mut hold = Command::new(env!("CARGO_BIN_EXE_worker"));
                Process::start(hold.args([&server.url(), "permit", "s", "3", "1000"]))
            })
            .collect();
        for process in &mut crashed {
            assert_eq!(process.line().as_deref(), Some("ready"));
        }
        assert!(locks.semaphore("s", 3).try_acquire().await.is_err());
        for process in &mut crashed {
            process.kill();
        }
        let all = locks.semaphore("s", 3).wait(Duration::from_secs(4)).acquire_many(3).await;
        all.unwrap().release().await.unwrap();
    }

    /// The watchdog outlived its lock, or an acquisition that was interrupted.
    #[tokio::test]
    async fn an_ended_lease_is_not_renewed() {
        const TTL: Duration = Duration::from_millis(900);
        let server = Server::start();
        let locks = Locks::connect(&server.url()).await.unwrap();
        let elsewhere = light_client(&server).await;
        for kind in EVERY_KIND {
            let guard = async |what| kind.lock(&locks, &format!("{what}:{kind:?}"), TTL).await;
            guard("released").await.unwrap().release().await.unwrap();
            drop(guard("dropped").await.unwrap());
            let _ = drop_after(1, kind.lock(&locks, &format!("given up:{kind:?}"), TTL)).await;
            if let Guard::One(lease) = guard("detached").await.unwrap() {
                let adopted = elsewhere.adopt(lease.detach().unwrap()).await.unwrap();
                adopted.release().await.unwrap();
            }
        }
        server.until_all_is_free().await;
        server.forget_stats().await;
        tokio::time::sleep(TTL).await;
        assert_eq!(server.script_calls().await, 0);
    }

    /// `extend` brought back a lock that had expired; and `extend` and `unlock` of one
    /// reported success, since a reply was read as the wrong type.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn an_expired_lease_is_neither_revived_nor_reported_renewed_or_released() {
        const TTL: Duration = Duration::from_secs(30);
        let server = Server::start_skewed();
        server.stop_clock();
        let locks = Locks::connect(&server.url()).await.unwrap();
        let other = light_client(&server).await;
        let mut held = Vec::new();
        for kind in EVERY_KIND {
            let (renewed, released) = (format!("a:{kind:?}"), format!("b:{kind:?}"));
            let to_renew = kind.lock(&locks, &renewed, TTL).await.unwrap();
            let to_release = kind.lock(&locks, &released, TTL).await.unwrap();
            held.push((kind, to_renew, to_release));
        }
        // Only the server's clock moves. By their holders' clocks the leases have their whole TTL
        // left.
        server.jump(TTL + Duration::from_millis(1));
        for (kind, to_renew, to_release) in held {
            assert!(to_renew.is_held() && to_release.is_held(), "nobody has asked yet");
            for lease in to_renew.leases() {
                let renewed = lease.renew().await;
                assert!(matches!(renewed, Err(LockError::Lost { .. })), "{kind:?}: {renewed:?}");
            }
            assert!(!to_renew.is_held());
            let released = to_release.release().await;
            assert!(matches!(released, Err(LockError::Lost { .. })), "{kind:?}: {released:?}");
            for name in ["a", "b"] {
                let taken = kind.rival().try_lock(&other, &format!("{name}:{kind:?}"), TTL).await;
                assert!(taken.is_ok(), "{kind:?}: {taken:?}");
            }
        }
    }

    /// An acquire that timed out after its write left a lock that nobody had. Here the server does
    /// not answer until all acquires were given up. Then it runs their commands.
    #[tokio::test]
    async fn an_acquire_that_timed_out_leaves_no_lock() {
        let server = Server::start();
        let locks = Locks::connect(&server.url()).await.unwrap();
        let frozen = server.freeze().await;
        let tries = EVERY_KIND
            .map(|kind| kind.try_lock(&locks, &format!("a:{kind:?}"), Duration::from_secs(30)));
        for tried in join_all(tries).await {
            assert!(matches!(tried, Err(LockError::Store { .. })), "{tried:?}");
        }
        drop(frozen);
        // The server has read all earlier commands when it greets the next client. Their grants are
        // cancelled, and do not just expire.
        let other = light_client(&server).await;
        server.until_all_is_free().await;
        for kind in EVERY_KIND {
            let name = format!("a:{kind:?}");
            let taken = kind.rival().try_lock(&other, &name, Duration::from_secs(30)).await;
            assert!(taken.is_ok(), "{taken:?}");
        }
    }
}
