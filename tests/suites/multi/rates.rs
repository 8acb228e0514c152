//! Rates beside locks: all or none, and nothing is held while a rate is waited for.

use std::time::Duration;

use leasehold::{Fault, LockError, Locks, Rate, Wait};
use leasehold_tests::polls::drop_after;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// The delay of a slow answer.
const LATE: Duration = Duration::from_millis(1);

/// One each second.
const SLOW: Rate = Rate::per_second(1);

/// So slow that time gives nothing back in a test.
const HOURLY: Rate = Rate::per_hour(4);

async fn until_waits(locks: &Locks) {
    while locks.inspect("order").await.unwrap().waiting == 0 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_that_waits_for_a_rate_holds_nothing() {
    let locks = Locks::in_memory();
    let set = locks.all(["order"]).permit("total", 1).rate("r", SLOW).wait(10 * SECOND);
    locks.rate("r", SLOW).acquire().await.unwrap();
    let begun = Instant::now();
    let waits = tokio::spawn(async move { set.lock().await });
    for _ in 0..9 {
        sleep(SECOND / 10).await;
        locks.mutex("order").try_lock().await.unwrap().release().await.unwrap();
        locks.semaphore("total", 1).try_acquire().await.unwrap().release().await.unwrap();
    }
    let leases = waits.await.unwrap().unwrap();
    assert_eq!((leases.len(), leases.rates().len()), (2, 1));
    assert!(begun.elapsed() <= SECOND + SECOND / 10, "{:?}", begun.elapsed());
    assert!(locks.mutex("order").try_lock().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_set_that_waits_for_a_lock_takes_nothing() {
    let locks = Locks::in_memory();
    let held = locks.mutex("order").lock().await.unwrap();
    let set = || locks.all(["order"]).rate("r", HOURLY);
    assert!(set().try_lock().await.unwrap_err().is_held_by_another());
    let waiting = set().wait(SECOND);
    assert!(waiting.lock().await.unwrap_err().is_held_by_another());
    let left = locks.rate("r", HOURLY).try_acquire().await.unwrap().remaining();
    assert_eq!(left, 3);
    let waits = tokio::spawn({
        let set = set().wait(Wait::Forever);
        async move { set.lock().await }
    });
    until_waits(&locks).await;
    assert_eq!(locks.rate("r", HOURLY).try_acquire().await.unwrap().remaining(), 2);
    held.release().await.unwrap();
    assert_eq!(waits.await.unwrap().unwrap().rates()[0].remaining(), 1);
}

/// The rate is used up when its locks have come, so it begins anew, and gets both in the end.
#[tokio::test(start_paused = true)]
async fn a_rate_that_is_used_up_behind_a_lock_is_waited_for_without_it() {
    let locks = Locks::in_memory();
    let held = locks.mutex("order").lock().await.unwrap();
    let set = locks.all(["order"]).rate("r", SLOW).wait(10 * SECOND);
    let waits = tokio::spawn(async move { set.lock().await });
    until_waits(&locks).await;
    locks.rate("r", SLOW).acquire().await.unwrap();
    held.release().await.unwrap();
    sleep(SECOND / 2).await;
    locks.mutex("order").try_lock().await.expect("it is free").release().await.unwrap();
    assert_eq!(waits.await.unwrap().unwrap().len(), 1);
}

/// Each waits for the rate that the other has just used up, again and again.
#[tokio::test(start_paused = true)]
async fn those_who_want_two_rates_do_not_block_each_other() {
    let locks = Locks::in_memory();
    let (fast, slow) = (Rate::per_second(10).burst(1), Rate::per_second(5).burst(1));
    let begun = Instant::now();
    let tasks: Vec<_> = (0..12)
        .map(|nth| {
            let both = locks.together().rate("a", fast).rate("b", slow).wait(Wait::Forever);
            let one = locks.rate(["a", "b"][nth % 2], [fast, slow][nth % 2]).wait(Wait::Forever);
            tokio::spawn(async move {
                if nth % 3 == 0 {
                    drop(one.acquire().await.unwrap());
                } else {
                    drop(both.lock().await.unwrap());
                }
            })
        })
        .collect();
    for task in tasks {
        timeout(10 * SECOND, task).await.expect("all are served").unwrap();
    }
    // Ten have taken from the slower one, of which the first waits for nothing.
    assert!(begun.elapsed() >= 9 * SECOND / 5, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_ends_with_its_client() {
    let locks = Locks::in_memory();
    locks.rate("r", SLOW).acquire_many(1).await.unwrap();
    let limit = locks.rate("r", Rate::per_hour(1)).wait(Wait::Forever);
    let waits: Vec<_> = (0..2)
        .map(|_| {
            let limit = limit.clone();
            tokio::spawn(async move { limit.acquire().await })
        })
        .collect();
    yield_now().await;
    let _ = locks.shutdown().await;
    for call in waits {
        assert!(matches!(call.await.unwrap(), Err(LockError::ShutDown)));
    }
}

/// Drops the call after its k-th poll, for every k, with each fault of its first command. It is for a
/// set, or for the rate alone.
#[tokio::test(start_paused = true)]
async fn dropping_a_call_at_any_point_leaves_nothing() {
    let delay = Fault::Delay(LATE);
    for first in [delay, Fault::LoseReplyAfter(LATE), Fault::LoseCommand, Fault::Unreachable] {
        for (is_alone, polls) in
            [true, false].into_iter().flat_map(|it| (1..9).map(move |n| (it, n)))
        {
            let (locks, faults) = Locks::in_memory_with_faults();
            let other = Locks::over(faults.store().clone());
            faults.next(first);
            faults.always(delay);
            let set = locks.all(["order"]).rate("r", HOURLY).wait(Wait::Forever);
            let alone = locks.rate("r", HOURLY).wait(Wait::Forever);
            let call = async move {
                if is_alone {
                    alone.acquire().await.map(drop).unwrap();
                } else {
                    set.lock().await.map(drop).unwrap();
                }
            };
            let is_done = drop_after(polls, call).await.is_some();
            faults.heal();
            // Cancels of what may arrive late come later.
            sleep(20 * SECOND).await;
            drop(other.mutex("order").try_lock().await.expect("it is free"));
            let all = 4 - u32::from(is_done);
            let left = other.rate("r", HOURLY).try_acquire_many(all).await;
            assert_eq!(left.map(|left| left.remaining()).ok(), Some(0), "{first:?}, {polls}");
            assert!(is_done || polls < 8, "{first:?}: it is not done after {polls} polls");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_takes_once() {
    for fault in [Fault::LoseReply, Fault::LoseCommand, Fault::Unreachable] {
        let (locks, faults) = Locks::in_memory_with_faults();
        faults.next(fault);
        let status = locks.rate("r", HOURLY).try_acquire().await.unwrap();
        assert_eq!(status.remaining(), 3, "{fault:?}");
        faults.next(fault);
        let set = locks.all(["order"]).rate("r", HOURLY).try_lock().await.unwrap();
        assert_eq!(set.rates()[0].remaining(), 2, "{fault:?}");
    }
}

#[tokio::test]
async fn a_name_is_given_to_one_rate_alone() {
    let locks = Locks::in_memory();
    let twice = locks.together().rate("r", SLOW).rate("r", HOURLY).try_lock().await.unwrap_err();
    assert!(twice.to_string().contains("named for two rates; give each a name"), "{twice}");
    let same = locks.together().rate("r", SLOW).rate("r", SLOW).try_lock().await.unwrap_err();
    assert!(same.to_string().contains("with the weight of both"), "{same}");
    let beside = locks.all(["r"]).rate("r", SLOW).try_lock().await.unwrap();
    assert_eq!((beside.len(), beside.rates().len()), (1, 1));
}

#[cfg(feature = "servers")]
mod on_servers {
    use leasehold::RateStatus;
    use leasehold_tests::cluster::Cluster;
    use leasehold_tests::server::Server;
    use leasehold_tests::waiting::until;

    use super::*;

    /// They take no command together: what was taken of one is given back if another is used up.
    #[tokio::test]
    async fn rates_of_several_slots_are_all_taken_or_none() {
        let cluster = Cluster::start().await;
        let locks = Locks::connect(&cluster.url()).await.unwrap();
        let names = ["a", "b", "c", "d"];
        let set = || names.iter().fold(locks.all(["order"]), |set, name| set.rate(*name, HOURLY));
        let leases = set().try_lock().await.unwrap();
        let left: Vec<_> = leases.rates().iter().map(RateStatus::remaining).collect();
        assert_eq!(left, [3; 4]);
        leases.release().await.unwrap();
        locks.rate("d", HOURLY).try_acquire_many(3).await.unwrap();
        let error = set().try_lock().await.unwrap_err();
        assert!(
            matches!(&error, LockError::RateLimited { key, .. } if key.name() == "d"),
            "{error}"
        );
        drop(locks.mutex("order").try_lock().await.expect("it is free"));
        for name in ["a", "b", "c"] {
            let rate = locks.rate(name, HOURLY);
            until("it is given back", async || rate.try_acquire_many(3).await.is_ok()).await;
        }
    }

    /// What something else has put there stays.
    #[tokio::test]
    async fn a_key_of_another_type_is_an_error() {
        let server = Server::start();
        let locks = Locks::connect(&server.url()).await.unwrap();
        let mut redis = server.redis().await;
        let mut set = redis::cmd("SET");
        let () = set.arg("leasehold:rate:{r}").arg("mine").query_async(&mut redis).await.unwrap();
        for error in [
            locks.rate("r", SLOW).try_acquire().await.unwrap_err(),
            locks.all(["order"]).rate("r", SLOW).try_lock().await.unwrap_err(),
        ] {
            assert!(matches!(error, LockError::WrongKind { .. }), "{error}");
        }
        drop(locks.mutex("order").try_lock().await.expect("it is free"));
        let mut get = redis::cmd("GET");
        let kept: String = get.arg("leasehold:rate:{r}").query_async(&mut redis).await.unwrap();
        assert_eq!(kept, "mine");
    }

    /// All keys have an expiry, and nothing is left when time has given back all.
    #[tokio::test]
    async fn nothing_is_left() {
        let server = Server::start();
        let locks = Locks::connect(&server.url()).await.unwrap();
        let rate = Rate::per_second(50);
        locks.all(["order"]).rate("r", rate).lock().await.unwrap().release().await.unwrap();
        locks.rate("r", rate).acquire_many(50).await.unwrap();
        let mut redis = server.redis().await;
        let mut ttl = redis::cmd("PTTL");
        let left: i64 = ttl.arg("leasehold:rate:{r}").query_async(&mut redis).await.unwrap();
        assert!((9_000..=11_100).contains(&left), "{left}");
    }
}
