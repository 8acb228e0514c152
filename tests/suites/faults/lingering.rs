//! Leases that stay with their process, while messages are lost and clients end.

use std::time::Duration;

use leasehold::store::{Ask, Attempt, ClientId, Kind, QueuePosition, Waiting};
use leasehold::{Fault, Lease, LockError, Locks, Mutex, Released, Step, Wait};
use leasehold_tests::requests::Requests;
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(9);

/// Longer than anything here takes.
const LINGER: Duration = Duration::from_secs(600);

/// A waiter asks again at least this often.
const ASK: Duration = Duration::from_millis(2_100);

fn lingering(locks: &Locks) -> Mutex {
    locks.mutex("a").ttl(TTL).linger(LINGER).wait(Wait::Forever)
}

fn fence(lease: &Lease) -> u64 {
    lease.fence().expect("it is held").get()
}

async fn idle(locks: &Locks) -> u64 {
    let lease = lingering(locks).lock().await.unwrap();
    let fence = fence(&lease);
    assert_eq!(lease.release().await.unwrap(), Released::Lingers);
    fence
}

/// No message arrives. The process hears of the waiter when it renews the idle lease, after a third
/// of the TTL.
#[tokio::test(start_paused = true)]
async fn a_lost_recall_costs_a_third_of_the_ttl() {
    let (here, faults) = Locks::in_memory_with_faults();
    let elsewhere = Locks::over(faults.store().clone());
    let last = idle(&here).await;
    faults.store().hold_hints();
    let begun = Instant::now();
    let lease = elsewhere.mutex("a").wait(Wait::Forever).lock().await.unwrap();
    let took = begun.elapsed();
    assert!(took <= TTL / 3 + ASK, "{took:?}");
    assert!(fence(&lease) > last);
    // The recalls come late, and do no harm.
    faults.store().deliver_hints();
    lease.release().await.unwrap();
    idle(&here).await;
}

/// The wait is over before the first ask, as after a long wait inside the process.
#[tokio::test]
async fn a_wait_that_ends_with_a_recall_has_timed_out() {
    let (here, faults) = Locks::in_memory_with_faults();
    let elsewhere = Locks::over(faults.store().clone());
    idle(&here).await;
    faults.store().hold_hints();
    let late = elsewhere.mutex("a").wait(Duration::from_nanos(1)).lock().await;
    assert!(matches!(late, Err(LockError::TimedOut { .. })), "{late:?}");
}

/// The waiter's next ask repeats the recall.
#[tokio::test(start_paused = true)]
async fn a_recall_is_repeated_with_the_next_ask() {
    let (here, faults) = Locks::in_memory_with_faults();
    let elsewhere = Locks::over(faults.store().clone());
    idle(&here).await;
    faults.store().hold_hints();
    let waiter = elsewhere.mutex("a").wait(Wait::Forever);
    let waiter = tokio::spawn(async move { waiter.lock().await });
    sleep(Duration::from_millis(100)).await;
    faults.store().drop_hints();
    let begun = Instant::now();
    drop(waiter.await.unwrap().unwrap());
    assert!(begun.elapsed() <= ASK, "{:?}", begun.elapsed());
}

/// The first recall is lost, and so is the waiter that asked for it. The next one does not wait for
/// the holder's renewal.
#[tokio::test(start_paused = true)]
async fn a_dead_waiter_keeps_nobody_from_recalling() {
    let (here, faults) = Locks::in_memory_with_faults();
    let elsewhere = Locks::over(faults.store().clone());
    let mutex = here.mutex("a").ttl(LINGER).linger(LINGER);
    assert_eq!(mutex.lock().await.unwrap().release().await.unwrap(), Released::Lingers);
    faults.store().hold_hints();
    let (live, position) = (Duration::from_secs(1), QueuePosition::New { age: Duration::ZERO });
    let dead = Requests::of(ClientId::random()).next("a", Kind::Mutex, TTL);
    let queued = faults.store().acquire(&dead, Some(Waiting { live, position })).await.unwrap();
    assert!(matches!(queued, Attempt::Queued { .. }), "{queued:?}");
    faults.store().drop_hints();
    let begun = Instant::now();
    drop(elsewhere.mutex("a").wait(Wait::Forever).lock().await.unwrap());
    assert!(begun.elapsed() <= live + ASK, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn two_clients_that_alternate_do_not_recall_each_other_for_ever() {
    let (one, faults) = Locks::in_memory_with_faults();
    let two = Locks::over(faults.store().clone());
    let (mut lingered, mut last) = (0, 0);
    for round in 0..2_000 {
        let lease = lingering(if round % 2 == 0 { &one } else { &two }).lock().await.unwrap();
        assert!(fence(&lease) > last);
        last = fence(&lease);
        sleep(Duration::from_millis(1)).await;
        lingered += usize::from(lease.release().await.unwrap() == Released::Lingers);
    }
    // The pauses double, for each client.
    assert!(lingered <= 2 * 7, "{lingered} recalls in 2 s");
}

/// The answer to the linger is lost, or the command. The caller's lease has ended in any case, and
/// nothing is left.
#[tokio::test(start_paused = true)]
async fn a_linger_without_an_answer_becomes_a_release() {
    for fault in [Fault::LoseReply, Fault::LoseCommand, Fault::Unreachable] {
        let (here, faults) = Locks::in_memory_with_faults();
        let elsewhere = Locks::over(faults.store().clone());
        let lease = lingering(&here).lock().await.unwrap();
        faults.on(Step::Release).next(fault);
        assert_eq!(lease.release().await.unwrap(), Released::Free, "{fault:?}");
        let lease = elsewhere.mutex("a").try_lock().await.unwrap();
        lease.release().await.unwrap();
    }
}

/// The same for a lease that is dropped, and for a release that is dropped before its answer.
#[tokio::test(start_paused = true)]
async fn a_dropped_linger_leaves_nothing_held() {
    let faults = [
        Fault::LoseReply,
        Fault::LoseCommand,
        Fault::Unreachable,
        Fault::Delay(Duration::from_millis(300)),
        Fault::LoseReplyAfter(Duration::from_millis(300)),
    ];
    for fault in faults {
        for is_dropped in [true, false] {
            let (here, planned) = Locks::in_memory_with_faults();
            let elsewhere = Locks::over(planned.store().clone());
            let mutex = here.mutex("a").ttl(TTL).linger(Duration::from_secs(1));
            let lease = mutex.lock().await.unwrap();
            planned.on(Step::Release).next(fault);
            if is_dropped {
                drop(lease);
            } else {
                let mut release = Box::pin(lease.release());
                let _ = leasehold_tests::polls::drop_after(1, &mut release).await;
            }
            let begun = Instant::now();
            while elsewhere.inspect("a").await.unwrap().held > 0 {
                sleep(Duration::from_millis(10)).await;
                assert!(begun.elapsed() < Duration::from_secs(5), "{fault:?} {is_dropped}");
            }
        }
    }
}

/// A refill that fails ends the lingering of the lock, and no lease.
#[tokio::test(start_paused = true)]
async fn a_refill_that_fails_or_is_late_repeats_no_token() {
    for fault in [Fault::Unreachable, Fault::LoseReply, Fault::Delay(Duration::from_secs(2))] {
        let (here, faults) = Locks::in_memory_with_faults();
        let elsewhere = Locks::over(faults.store().clone());
        let (mut last, mut granted) = (idle(&here).await, 0);
        faults.on(Step::Renew).always(fault);
        for _ in 0..500 {
            let lease = lingering(&here).lock().await.unwrap();
            assert!(fence(&lease) > last, "{fault:?}: {} after {last}", fence(&lease));
            last = fence(&lease);
            lease.release().await.unwrap();
            granted += 1;
        }
        let lease = elsewhere.mutex("a").wait(Wait::Forever).lock().await.unwrap();
        assert!(fence(&lease) > last, "{fault:?} after {granted}");
    }
}

#[tokio::test(start_paused = true)]
async fn idle_leases_of_a_client_that_is_dropped_are_released() {
    let (here, faults) = Locks::in_memory_with_faults();
    let elsewhere = Locks::over(faults.store().clone());
    idle(&here).await;
    let permits = here.semaphore("s", 2).linger(LINGER);
    permits.acquire().await.unwrap().release().await.unwrap();
    drop(permits);
    drop(here);
    let begun = Instant::now();
    for name in ["a", "s"] {
        while elsewhere.inspect(name).await.unwrap().held > 0 {
            sleep(Duration::from_millis(10)).await;
            assert!(begun.elapsed() < Duration::from_secs(1), "{name} is left");
        }
    }
}

/// The store forgets the lock, and another client gets it. The process that had it idle may take it
/// up until it hears of that, with a token that is older than the other's.
#[tokio::test(start_paused = true)]
async fn a_lease_that_the_store_forgot_is_taken_up_with_an_older_token_and_lost() {
    let (here, faults) = Locks::in_memory_with_faults();
    let elsewhere = Locks::over(faults.store().clone());
    idle(&here).await;
    assert!(faults.expire("a"));
    let others = elsewhere.mutex("a").ttl(TTL).try_lock().await.unwrap();
    let stale = lingering(&here).lock().await.unwrap();
    assert!(fence(&stale) < fence(&others));
    let lost = stale.renew().await;
    assert!(matches!(lost, Err(LockError::Lost { .. })), "{lost:?}");
    drop(stale);
    sleep(Duration::from_millis(100)).await;
    others.renew().await.unwrap();
    let busy = lingering(&here).wait(Duration::ZERO).lock().await;
    assert!(busy.is_err(), "{busy:?}");
    others.release().await.unwrap();
}

/// After a release that is to free the lock, waiters of this process pass it on for one turn more.
/// Then others have it, though waiters of this process keep coming.
#[tokio::test(start_paused = true)]
async fn a_lock_that_was_to_be_freed_is_not_passed_on_for_ever() {
    for is_mutex in [true, false] {
        let (here, faults) = Locks::in_memory_with_faults();
        let elsewhere = Locks::over(faults.store().clone());
        let acquire = move |locks: &Locks| {
            let (mutex, permits) = (lingering(locks), locks.semaphore("s", 1));
            let permits = permits.ttl(TTL).linger(LINGER).wait(Wait::Forever);
            async move { if is_mutex { mutex.lock().await } else { permits.acquire().await } }
        };
        acquire(&here).await.unwrap().release().await.unwrap();
        let lease = acquire(&here).await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..3 {
            let here = here.clone();
            tasks.spawn(async move {
                loop {
                    let lease = acquire(&here).await.unwrap();
                    sleep(Duration::from_millis(1)).await;
                    lease.release().await.unwrap();
                }
            });
        }
        sleep(Duration::from_millis(1)).await;
        lease.release_now().await.unwrap();
        let begun = Instant::now();
        acquire(&elsewhere).await.unwrap().release().await.unwrap();
        let took = begun.elapsed();
        assert!(took < Duration::from_millis(100), "{took:?}, mutex: {is_mutex}");
        tasks.shutdown().await;
    }
}

/// What this client has taken by force, it does not take up.
#[tokio::test(start_paused = true)]
async fn an_idle_lease_ends_with_a_force_of_its_own_client_though_it_is_not_told() {
    let (locks, faults) = Locks::in_memory_with_faults();
    idle(&locks).await;
    let rw = locks.rw_lock("r").ttl(TTL).linger(LINGER);
    assert_eq!(rw.write().await.unwrap().release().await.unwrap(), Released::Lingers);
    let permits = locks.semaphore("s", 2).ttl(TTL).linger(LINGER);
    assert_eq!(permits.acquire().await.unwrap().release().await.unwrap(), Released::Lingers);
    faults.store().hold_hints();
    for name in ["a", "r", "s"] {
        let forced = locks.force_release(name).await.unwrap();
        assert!(matches!(forced, leasehold::Forced::Released { .. }), "{forced:?}");
    }
    lingering(&locks).lock().await.unwrap().renew().await.unwrap();
    rw.write().await.unwrap().renew().await.unwrap();
    permits.acquire().await.unwrap().renew().await.unwrap();
}

/// The server does not answer while a lease is idle.
#[tokio::test(start_paused = true)]
async fn an_unanswered_renewal_of_an_idle_lease_is_sent_once() {
    let (locks, faults) = Locks::in_memory_with_faults();
    idle(&locks).await;
    faults.on(Step::Renew).always(Fault::Hang);
    sleep(TTL).await;
    let sent = faults.store().log().iter().filter(|sent| **sent == "linger").count();
    assert!(sent <= 2, "{sent}");
}

/// The whole process stands still past the TTL, and the timers with it.
#[tokio::test(start_paused = true)]
async fn an_idle_lease_is_not_taken_up_after_its_deadline() {
    let (here, faults) = Locks::in_memory_with_faults();
    let elsewhere = Locks::over(faults.store().clone());
    for stands_still in [TTL / 2, TTL * 9 / 10, TTL, TTL * 3] {
        let last = idle(&here).await;
        tokio::time::advance(stands_still).await;
        let lease = lingering(&here).lock().await.unwrap();
        assert!(fence(&lease) > last);
        lease.renew().await.unwrap();
        lease.release_now().await.unwrap();
    }
    idle(&here).await;
    tokio::time::advance(TTL * 2).await;
    let others = elsewhere.mutex("a").try_lock().await.unwrap();
    let busy = lingering(&here).try_lock().await;
    assert!(matches!(busy, Err(LockError::Busy { .. })), "{busy:?}");
    others.release().await.unwrap();
}

#[cfg(feature = "servers")]
mod on_servers {
    use std::process::Command;

    use leasehold_tests::process::Process;
    use leasehold_tests::server::{Server, signal};
    use leasehold_tests::waiting::{OwnTime, until_some};

    use super::*;

    async fn connected(server: &Server) -> Locks {
        Locks::connect(&server.url()).await.unwrap()
    }

    /// Lets the lock linger. Nothing does before a connection for hints is open.
    async fn idle(mutex: &Mutex) -> u64 {
        until_some("a lease lingers", async || {
            let lease = mutex.lock().await.unwrap();
            let last = fence(&lease);
            (lease.release().await.unwrap() == Released::Lingers).then_some(last)
        })
        .await
    }

    fn worker(server: &Server, arguments: &[&str]) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
        Process::start(command.arg(server.url()).args(arguments))
    }

    fn number(line: Option<String>, begins: &str) -> u64 {
        let line = line.expect("a line");
        let number = line.strip_prefix(begins).unwrap_or_else(|| panic!("{line}"));
        number.trim().parse().expect("a number")
    }

    /// The process is stopped while its lease is idle, until another client has the lock. When it
    /// goes on, it does not take the lease up.
    #[tokio::test]
    async fn a_process_that_is_stopped_past_the_ttl_does_not_take_its_idle_lease_up() {
        let server = Server::start();
        let locks = connected(&server).await;
        let mut holder = worker(&server, &["linger", "a", "1500"]);
        let last = number(holder.line(), "ready");
        signal("-STOP", &holder.pid());
        let begun = OwnTime::begin();
        let lease = locks.mutex("a").wait(Wait::Forever).lock().await.unwrap();
        let took = begun.passed();
        assert!(took <= Duration::from_millis(1_500) + ASK, "{took:?}");
        assert!(fence(&lease) > last);
        holder.go_on();
        signal("-CONT", &holder.pid());
        assert_eq!(holder.rest(), ["busy"]);
        lease.renew().await.unwrap();
        lease.release().await.unwrap();
    }

    /// Hints are cut off while the lease is idle. The waiter elsewhere has it soon all the same.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_waiter_gets_an_idle_lease_whose_client_has_lost_its_hints() {
        let ttl = Duration::from_secs(6);
        for is_try in [false, true] {
            let server = Server::start();
            let (here, elsewhere) = (connected(&server).await, connected(&server).await);
            let last = idle(&here.mutex("a").ttl(ttl).linger(LINGER)).await;
            let mut kill = redis::cmd("CLIENT");
            kill.arg(&["KILL", "TYPE", "pubsub"]);
            kill.exec_async(&mut server.redis().await).await.unwrap();
            let begun = OwnTime::begin();
            let lease = if is_try {
                let mutex = elsewhere.mutex("a");
                until_some("it is free", async || mutex.try_lock().await.ok()).await
            } else {
                elsewhere.mutex("a").wait(Wait::Forever).lock().await.unwrap()
            };
            let took = begun.passed();
            println!("try {is_try}: after {took:?}");
            assert!(fence(&lease) > last);
            assert!(took <= ttl / 3 + ASK, "{is_try}: {took:?}");
        }
    }

    /// Somebody overwrites the record of a writer, whose lease is then to linger.
    #[tokio::test]
    async fn a_lease_that_lingers_leaves_a_foreign_string_alone() {
        let server = Server::start();
        let locks = connected(&server).await;
        let lock = locks.rw_lock("r").ttl(TTL).linger(LINGER);
        while lock.write().await.unwrap().release().await.unwrap() != Released::Lingers {}
        lock.write().await.unwrap().release_now().await.unwrap();
        // Its release asks the server whether it may stay.
        let lease = lock.write().await.unwrap();
        let mut redis = server.redis().await;
        let (key, foreign) = ("leasehold:lock:{r}", "0".repeat(100));
        redis::cmd("SET").arg(key).arg(&foreign).exec_async(&mut redis).await.unwrap();
        let _ = lease.release().await;
        drop(lock);
        locks.shutdown().await;
        let left: String = redis::cmd("GET").arg(key).query_async(&mut redis).await.unwrap();
        assert_eq!(left, foreign);
    }

    /// Its runtime ends while leases are idle, and the client stays in a static.
    #[test]
    fn idle_leases_end_with_their_runtime_or_soon_after() {
        let server = Server::start();
        let looking = tokio::runtime::Runtime::new().unwrap();
        for has_client in [false, true] {
            let users = tokio::runtime::Runtime::new().unwrap();
            let locks = users.block_on(async {
                let locks = connected(&server).await;
                idle(&locks.mutex("a").ttl(TTL).linger(TTL * 2)).await;
                locks
            });
            let kept = has_client.then_some(locks);
            drop(users);
            looking.block_on(async {
                let begun = OwnTime::begin();
                let others = connected(&server).await;
                others
                    .mutex("a")
                    .wait(Wait::Forever)
                    .lock()
                    .await
                    .unwrap()
                    .release()
                    .await
                    .unwrap();
                let took = begun.passed();
                assert!(took < Duration::from_secs(1), "{has_client}: free after {took:?}");
            });
            drop(kept);
        }
    }

    /// A process ends while many leases are idle. None of them is left.
    #[test]
    fn idle_leases_end_with_their_process() {
        let looking = tokio::runtime::Runtime::new().unwrap();
        for how in ["main", "static"] {
            let server = Server::start();
            let mut process = worker(&server, &["drop-lingering", "300", how]);
            let lingering = number(process.line(), "ready");
            assert!(lingering > 200, "{how}: {lingering}");
            assert!(process.is_success());
            let left = looking.block_on(async {
                let locks = connected(&server).await;
                let mut left = 0;
                for n in 0..300 {
                    left += locks.inspect(format!("lingers:{n}")).await.unwrap().held;
                }
                left
            });
            assert_eq!(left, 0, "{how}");
        }
    }
}
