//! The systems that the project grew from. `tests/seeds.md` has the table. Each marked row has its
//! tests, by name. Rows that are cases of the contract are in `seeds/contract.rs`.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use leasehold::{LeaseState, LockError, Locks, LossReason, Released, Wait};
use leasehold_tests::backend::light_client;
use leasehold_tests::cluster::Cluster;
use leasehold_tests::masters::Masters;
use leasehold_tests::polls::is_pending;
use leasehold_tests::process::{Process, example};
use leasehold_tests::server::Server;
#[cfg(target_os = "linux")]
use leasehold_tests::skew::Clock;
use leasehold_tests::waiting::{until, until_outlived, until_some};
use tokio::time::timeout;

use crate::attribute::reentrant;
use crate::docs::named_tests::{NamedTests, is_name};
use crate::lifetimes::max_hold;
use crate::quorum::failures as quorum;

/// A row that is marked must have every test it names.
#[test]
fn marked_rows_have_their_tests() {
    let tests = NamedTests::list();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds.md");
    let page = std::fs::read_to_string(page).expect("tests/seeds.md is there");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .map(|row| row.split(" | ").collect())
        .filter(|row: &Vec<_>| row[0].parse::<u32>().is_ok())
        .collect();
    assert_eq!(rows.len(), 24, "one row for each system");

    let mut marked = 0;
    for row in rows {
        let [number, mark, .., shown_by] = row[..] else { panic!("{row:?}: too few columns") };
        assert!(["✓", "–"].contains(&mark), "row {number}: {mark:?} is no mark");
        if mark == "✓" {
            marked += 1;
            assert_has_tests(number, shown_by, &tests);
        }
    }
    assert!(marked > 0);
}

fn assert_has_tests(number: &str, shown_by: &str, tests: &NamedTests) {
    let names: Vec<_> = shown_by.split('`').filter(|name| is_name(name)).collect();
    let refused: Vec<_> = shown_by.split('`').filter(|name| name.starts_with("macros/")).collect();
    assert!(!names.is_empty() || !refused.is_empty(), "row {number} names no test");
    for file in refused {
        assert_does_not_compile(number, file);
    }
    for name in names {
        assert!(tests.has(name), "row {number} is marked, and there is no test `{name}`");
    }
}

/// A program that must not compile is a file beside rustc's output, in the folder that
/// `macros/tests/ui.rs` goes through.
fn assert_does_not_compile(number: &str, file: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    assert!(file.starts_with("macros/tests/ui/"), "row {number}: nobody compiles `{file}`");
    let said = std::fs::read_to_string(root.join(file).with_extension("stderr"));
    let said = said.unwrap_or_else(|_| panic!("row {number} is marked, and there is no `{file}`"));
    assert!(root.join(file).is_file() && said.starts_with("error"), "row {number}: {file}: {said}");
}

async fn two(url: &str) -> [Locks; 2] {
    [Locks::connect(url).await.unwrap(), Locks::connect(url).await.unwrap()]
}

#[tokio::test]
async fn key_without_expiry_is_repaired() {
    /// The key lasts until both have looked at it, on a busy machine, too.
    const TTL: Duration = Duration::from_millis(1500);
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut redis = server.redis().await;
    // Another library's client died between SETNX and EXPIRE.
    let lock = "leasehold:lock:{a}";
    let somebody = "0b6a71b2-e6f7-4ad3-8a1e-2f6d3a7f0b11";
    redis::cmd("SETNX").arg(lock).arg(somebody).exec_async(&mut redis).await.unwrap();

    for acquired in [
        locks.mutex("a").ttl(TTL).try_lock().await,
        locks.semaphore("a", 3).ttl(TTL).try_acquire().await,
    ] {
        let Err(LockError::Busy { retry_after, .. }) = acquired else { panic!("{acquired:?}") };
        assert!(retry_after <= TTL, "{retry_after:?}");
    }
    let value: String = redis::cmd("GET").arg(lock).query_async(&mut redis).await.unwrap();
    assert_eq!(value, somebody, "it is given an expiry, and is otherwise left alone");
    let lease = locks.mutex("a").wait(Duration::from_secs(5)).lock().await.unwrap();
    lease.release().await.unwrap();
}

#[tokio::test]
async fn script_flush_is_survived() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut redis = server.redis().await;
    let storm = tokio::spawn(async move {
        let mut flushes = 0;
        loop {
            redis::cmd("SCRIPT").arg("FLUSH").exec_async(&mut redis).await.unwrap();
            flushes += 1;
            if flushes % 100 == 0 {
                tokio::task::yield_now().await;
            }
        }
    });
    for n in 0..500 {
        let lease = locks.mutex(format!("a:{n}")).lock().await.unwrap();
        let permit = locks.semaphore(format!("s:{n}"), 2).acquire().await.unwrap();
        lease.release().await.unwrap();
        permit.release().await.unwrap();
    }
    assert!(!storm.is_finished());
    storm.abort();
    let forgotten: String = {
        let mut redis = server.redis().await;
        redis::cmd("INFO").arg("commandstats").query_async(&mut redis).await.unwrap()
    };
    assert!(forgotten.contains("cmdstat_eval:"), "the storm made the server forget: {forgotten}");
}

#[test]
fn one_of_n_draws() {
    // The days of the draws begin at midnight, UTC.
    let day = || {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a date");
        since.as_secs() / (24 * 60 * 60)
    };
    let (server, first) = (Server::start(), day());
    let mut drawn = 0;
    for round in ["at once", "a little late"] {
        let processes: Vec<_> = (0..8)
            .map(|_| {
                Process::start(example("scheduled_job").arg("now").env("REDIS_URL", server.url()))
            })
            .collect();
        for mut process in processes {
            let line = process.line().expect("it says what it did");
            match &*line {
                "skipped: another process draws, or has drawn today" => {}
                line if line.starts_with("drawn: ") => drawn += 1,
                line => panic!("{line}"),
            }
            assert!(process.is_success());
        }
        let is_next_day = drawn == 2 && day() > first;
        assert!(drawn == 1 || is_next_day, "{drawn} were drawn: started {round}");
    }
}

/// Another holds the lock for the whole wait, which is 10 s by default.
#[tokio::test(start_paused = true)]
async fn simple_lock_waits_until_its_time_out() {
    let (holder, faults) = Locks::in_memory_with_faults();
    let locks = Locks::over(faults.store().clone());
    let held = holder.mutex("a").lock().await.unwrap();
    let begun = tokio::time::Instant::now();
    match locks.mutex("a").lock().await {
        Err(LockError::TimedOut { waited, .. }) => assert_eq!(waited, Duration::from_secs(10)),
        other => panic!("{other:?}"),
    }
    assert_eq!(begun.elapsed(), Duration::from_secs(10));
    assert!(held.is_held());
    held.release().await.unwrap();
    locks.mutex("a").lock().await.unwrap().release().await.unwrap();
}

/// The first holder has lost the lock and does not know. Its release leaves the next holder's lock
/// alone, and reports the loss.
#[tokio::test]
async fn release_never_takes_anothers_lock() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let [first, second] = two(&server.url()).await;
    let lost = first.mutex("a").lock().await.unwrap();
    // As if its lease had ended.
    redis::cmd("DEL").arg("leasehold:lock:{a}").exec_async(&mut redis).await.unwrap();
    let held = second.mutex("a").lock().await.unwrap();
    let record = async |mut redis: redis::aio::MultiplexedConnection| -> Vec<u8> {
        redis::cmd("GET").arg("leasehold:lock:{a}").query_async(&mut redis).await.unwrap()
    };
    let before = record(redis.clone()).await;
    match lost.release().await {
        Err(LockError::Lost { reason, .. }) => assert_eq!(reason, LossReason::Taken),
        other => panic!("{other:?}"),
    }
    assert_eq!(record(redis).await, before);
    assert!(first.mutex("a").try_lock().await.is_err());
    held.release().await.unwrap();
}

/// A try is one command, and so is a wait of zero.
#[tokio::test]
async fn try_lock_answers_at_once() {
    let server = Server::start();
    let (holder, locks) = (light_client(&server).await, light_client(&server).await);
    let held = holder.mutex("a").lock().await.unwrap();
    server.forget_stats().await;
    let refused = locks.mutex("a").try_lock().await;
    assert!(matches!(refused, Err(LockError::Busy { .. })), "{refused:?}");
    assert_eq!(server.script_calls().await, 1);
    held.release().await.unwrap();
    locks.mutex("a").try_lock().await.unwrap().release().await.unwrap();
}

/// A waiter sends a command to queue, and one every two seconds as a heartbeat. The release ends the
/// wait at once.
#[tokio::test]
async fn waiting_costs_no_polling() {
    let server = Server::start();
    let (holder, locks) = (light_client(&server).await, light_client(&server).await);
    let held = holder.mutex("a").ttl(Duration::from_secs(60)).lock().await.unwrap();
    server.forget_stats().await;
    let mutex = locks.mutex("a").wait(Duration::from_secs(60));
    let waiting = tokio::spawn(async move {
        let lease = mutex.lock().await.unwrap();
        (lease, std::time::Instant::now())
    });
    let begun = std::time::Instant::now();
    until("it has sent three commands", async || server.script_calls().await >= 3).await;
    let asked = (server.script_calls().await, begun.elapsed());
    assert!(asked.0 == 3 && asked.1 > Duration::from_secs(3), "{asked:?}");
    held.release().await.unwrap();
    let released = std::time::Instant::now();
    let (lease, granted) = waiting.await.unwrap();
    let late = granted.saturating_duration_since(released);
    assert!(late < Duration::from_secs(1), "it was woken by the release: {late:?}");
    lease.release().await.unwrap();
}

/// Twenty wait. A release sends one message to one of them, and the others send nothing.
#[tokio::test]
async fn release_wakes_exactly_one() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let holder = light_client(&server).await;
    let held = holder.mutex("a").ttl(Duration::from_secs(60)).lock().await.unwrap();
    let (granted, mut grants) = tokio::sync::mpsc::unbounded_channel();
    for n in 1_u64..=20 {
        let (locks, granted) = (light_client(&server).await, granted.clone());
        tokio::spawn(async move {
            let mutex = locks.mutex("a").wait(Wait::Forever).ttl(Duration::from_secs(60));
            let _ = granted.send(mutex.lock().await.unwrap());
        });
        let is_queued = async || {
            let mut count = redis::cmd("ZCARD");
            count.arg("leasehold:queue:{a}").query_async(&mut redis).await == Ok(n)
        };
        until("it is queued", is_queued).await;
    }
    let begun = std::time::Instant::now();
    server.forget_stats().await;
    held.release().await.unwrap();
    let lease = grants.recv().await.unwrap();
    // The second call is the waiter's confirmation.
    until("it is confirmed", async || server.script_calls().await >= 2).await;
    assert_eq!(server.stats("publish").await.0, 1);
    let calls = u128::from(server.script_calls().await);
    // Each of the other 19 asks every 2 seconds to show that it is alive. On a busy machine some
    // of these asks fall into the time between the release and the count.
    let heartbeats = 19 * begun.elapsed().as_millis() / 2000 + 1;
    assert!(calls <= 2 + heartbeats, "{calls} calls for a release and a confirmation");
    assert!(is_pending(&mut Box::pin(grants.recv())).await);
    lease.release().await.unwrap();
    grants.recv().await.unwrap().release().await.unwrap();
}

/// Many processes, and never more inside than the limit.
#[test]
fn semaphore_has_no_race() {
    let server = Server::start();
    let most = permits_of_workers(&server, |_, _| {});
    assert_eq!(most, 3, "the limit is reached, and not passed");
}

/// Runs eight processes under a semaphore of three. Returns the greatest number inside.
fn permits_of_workers(server: &Server, change: impl Fn(usize, &mut Command)) -> u32 {
    let workers: Vec<_> = (0..8)
        .map(|n| {
            let mut worker = Command::new(env!("CARGO_BIN_EXE_worker"));
            worker.args([&server.url(), "permits", "s", "3", "100"]);
            change(n, &mut worker);
            Process::start(&mut worker)
        })
        .collect();
    let most = workers.into_iter().map(|mut worker| {
        let most = worker.line().expect("it ends well").parse::<u32>().unwrap();
        assert!(worker.is_success());
        most
    });
    most.max().unwrap_or_default()
}

/// A program whose own clock is off by this many hours.
#[cfg(target_os = "linux")]
fn off_by(hours: i64, command: &mut Command) -> Clock {
    let clock = Clock::new();
    clock.jump(hours * 3_600_000_000);
    clock.govern(command);
    clock
}

/// Two clients whose clocks are hours apart take turns at a number, which each reads and then
/// writes.
#[cfg(target_os = "linux")]
#[test]
fn client_clocks_do_not_matter() {
    let server = Server::start();
    let mut clocks = Vec::new();
    let workers = [-5, 7].map(|hours| {
        let mut worker = Command::new(env!("CARGO_BIN_EXE_worker"));
        clocks.push(off_by(hours, worker.args([&server.url(), "count", "a", "200"])));
        Process::start(&mut worker)
    });
    for mut worker in workers {
        assert_eq!(worker.line().as_deref(), Some("ready"));
        assert!(worker.is_success());
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let number: u32 = runtime.block_on(async {
        redis::cmd("GET").arg("number").query_async(&mut server.redis().await).await.unwrap()
    });
    assert_eq!(number, 400);
}

/// A fast clock steals no permit, and no permit is stolen from a slow clock.
#[cfg(target_os = "linux")]
#[test]
fn semaphore_is_immune_to_clock_skew() {
    let server = Server::start();
    let clocks = std::cell::RefCell::new(Vec::new());
    let most = permits_of_workers(&server, |n, worker| {
        let hours = [-24, 0, 1, 24][n % 4];
        clocks.borrow_mut().push(off_by(hours, worker));
    });
    assert_eq!(most, 3);
}

#[tokio::test]
async fn is_held_by() {
    let server = Server::start();
    let locks = Locks::builder().service("billing").connect(&server.url()).await.unwrap();
    let elsewhere = Locks::connect(&server.url()).await.unwrap();
    assert!(!elsewhere.is_held_by("a", "worker-7").await.unwrap());
    let lease = locks.mutex("a").owner("worker-7").lock().await.unwrap();
    assert!(elsewhere.is_held_by("a", "worker-7").await.unwrap());
    assert!(!elsewhere.is_held_by("a", "worker-8").await.unwrap());
    // The client writes its record in the background.
    let known = async || {
        let holder = elsewhere.inspect("a").await.unwrap().holders.pop().expect("it is held");
        Some((holder.client?, holder.fence))
    };
    let (client, fence) = until_some("the client is known", known).await;
    assert_eq!((&*client.service, client.process), ("billing", std::process::id()));
    assert_eq!(fence, Some(lease.fence().unwrap()));
    lease.release().await.unwrap();
    assert!(!elsewhere.is_held_by("a", "worker-7").await.unwrap());
    assert!(elsewhere.is_held_by("a", "").await.is_err());
}

/// The task takes longer than the TTL, in a process of its own. Another waits for the lock all the time,
/// and gets it when the task is done, not before.
#[tokio::test]
async fn renewal_keeps_a_long_task_covered() {
    const TTL: Duration = Duration::from_secs(3);
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let lease = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    let mut waits = Command::new(env!("CARGO_BIN_EXE_worker"));
    let mut waits = Process::start(waits.args([&server.url(), "wait", "a"]));
    let task = lease.run(async {
        until_outlived(&lease, TTL).await;
        locks.inspect("a").await.unwrap()
    });
    let seen = task.await.expect("it ran to its end, under the lease");
    assert_eq!(seen.holders[0].fence, Some(lease.fence().unwrap()), "the lock is the task's");
    assert_eq!(seen.waiting, 1);
    assert_eq!(lease.release().await.unwrap(), Released::Free);
    assert_eq!(waits.line().as_deref(), Some("ready"));
    assert!(waits.is_success());
}

/// The lease is renewed until then, and not longer. Its holder is told why, and another gets the
/// lock at once, although the TTL would have gone on.
#[test]
fn max_hold_ends_renewal_and_tells() {
    max_hold::others_are_granted_at_max_hold_while_the_guard_lives();
}

/// One permit of three is lost. Its holder learns so from the permit. The others are not affected.
#[tokio::test]
async fn lost_permit_is_told() {
    let server = Server::start();
    let mut redis = server.redis().await;
    let locks = Locks::connect(&server.url()).await.unwrap();
    let semaphore = locks.semaphore("s", 3).ttl(Duration::from_secs(3));
    let lost = semaphore.acquire().await.unwrap();
    // Removes the permit as if it had ended: it is the only one so far.
    let holders = "leasehold:holders:{s}";
    let members: Vec<String> =
        redis::cmd("ZRANGE").arg(&[holders, "0", "-1"]).query_async(&mut redis).await.unwrap();
    let kept = [semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap()];
    redis::cmd("ZREM").arg(holders).arg(members).exec_async(&mut redis).await.unwrap();
    let ran: Result<(), _> = lost.run(std::future::pending()).await;
    assert!(matches!(ran, Err(LockError::Lost { .. })), "{ran:?}");
    let reason = lost.lost().await;
    assert_eq!(lost.state(), LeaseState::Lost(reason));
    // The lost permit did not come back, and the others are still held.
    let next = semaphore.try_acquire().await.unwrap();
    assert!(semaphore.try_acquire().await.is_err());
    let released = lost.release().await;
    assert!(matches!(released, Err(LockError::Lost { .. })), "{released:?}");
    for permit in kept.into_iter().chain([next]) {
        assert_eq!(permit.state(), LeaseState::Held);
        assert_eq!(permit.release().await.unwrap(), Released::Free);
    }
}

/// A task that never ends holds the lock for its `max_hold`, and is then dropped. Its token is
/// older than the next holder's.
#[tokio::test]
async fn a_stuck_task_loses_its_lock_and_is_stopped() {
    let server = Server::start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mutex = locks.mutex("a").ttl(Duration::from_secs(3)).max_hold(Duration::from_secs(1));
    let lease = mutex.lock().await.unwrap();
    let fence = lease.fence().unwrap();
    let alive = std::sync::Arc::new(());
    let stuck = {
        let alive = alive.clone();
        async move {
            std::future::pending::<()>().await;
            drop(alive);
        }
    };
    match timeout(Duration::from_secs(20), lease.run(stuck)).await.expect("it is stopped") {
        Err(LockError::Lost { reason, .. }) => assert_eq!(reason, LossReason::MaxHold),
        ran => panic!("{ran:?}"),
    }
    assert_eq!(std::sync::Arc::strong_count(&alive), 1, "it is stopped, and gone");
    assert!(matches!(lease.fence(), Err(LockError::Lost { .. })));
    let next = locks.mutex("a").lock().await.unwrap();
    assert!(next.fence().unwrap() > fence, "the resource tells the two apart");
    next.release().await.unwrap();
}

/// Row 15: five masters, and two of them are dead or frozen.
#[tokio::test]
async fn redlock_works_with_two_of_five_down() {
    let masters = Masters::start(5);
    let (one, other) = (quorum::connect(&masters).await, quorum::connect(&masters).await);
    for is_dead in [false, true] {
        let mut frozen = Vec::new();
        for place in [1, 3] {
            if is_dead {
                masters.kill(place).await;
            } else {
                frozen.push(masters.freeze(place).await);
            }
        }
        let lease = one.mutex("order:42").lock().await.unwrap();
        let refused = other.mutex("order:42").try_lock().await;
        assert!(matches!(refused, Err(LockError::Busy { .. })), "{refused:?}");
        let fence = lease.fence().unwrap();
        lease.renew().await.unwrap();
        lease.release().await.unwrap();
        let next = other.mutex("order:42").lock().await.unwrap();
        assert!(next.fence().unwrap() > fence);
        next.release().await.unwrap();
    }
}

/// Row 15: five masters, and three of them are dead or frozen.
#[tokio::test]
async fn redlock_refuses_with_three_of_five_down_and_leaves_nothing() {
    let mut masters = Masters::start(5);
    let locks = quorum::connect(&masters).await;
    let lease = locks.mutex("order:42").ttl(Duration::from_secs(1)).lock().await.unwrap();
    let down = [0, 2, 4];
    for place in down {
        masters.kill(place).await;
    }
    let refused = locks.mutex("order:43").try_lock().await;
    assert!(matches!(refused, Err(LockError::Quorum { .. })), "{refused:?}");
    assert_eq!(lease.lost().await, LossReason::Expired);
    for place in [1, 3] {
        masters.nodes()[place].until_all_is_free().await;
    }
    for place in down {
        masters.restart_empty(place).await;
    }
    let lease = locks.mutex("order:43").lock().await.unwrap();
    lease.release().await.unwrap();
}

/// Row 22: on a cluster, all keys of a lock are on one node. Readers and writers have TTLs of their
/// own, and only the holder of a lease ends it.
#[tokio::test]
async fn rw_lock_in_one_slot() {
    let cluster = Cluster::start().await;
    let [one, other] = two(&cluster.url()).await;
    let lock = |locks: &Locks| {
        let lock = locks.rw_lock("catalogue").read_ttl(Duration::from_secs(20));
        lock.write_ttl(Duration::from_secs(5))
    };
    let (reader, second) = (lock(&one).read().await.unwrap(), lock(&other).read().await.unwrap());
    assert!(reader.remaining() > Duration::from_secs(10));
    let waiting = tokio::spawn({
        let lock = lock(&other);
        async move { lock.write().await }
    });
    // A lock with holders and a queue has the most keys.
    let keys = async || {
        let mut places = Vec::new();
        for (place, node) in cluster.nodes().iter().enumerate() {
            let mut redis = node.redis().await;
            let keys: Vec<String> =
                redis::cmd("KEYS").arg("*{catalogue}").query_async(&mut redis).await.unwrap();
            places.extend(keys.iter().map(|_| place));
        }
        (places.len() == 4).then_some(places)
    };
    let places = until_some("record, holders and queue are there", keys).await;
    assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
    reader.release().await.unwrap();
    assert!(second.is_held() && !waiting.is_finished(), "a reader ends its own lease alone");
    second.release().await.unwrap();
    let writer = waiting.await.unwrap().unwrap();
    assert!(writer.remaining() <= Duration::from_secs(5));
    writer.release().await.unwrap();
}

/// A call by the outer call's task, and by a task that has its scope, sends nothing: neither when it
/// begins nor when it ends. All others wait.
#[test]
fn reentry_in_scope_sends_nothing() {
    reentrant::nested_calls_send_nothing_and_have_the_outer_token();
    reentrant::a_carried_scope_counts_and_a_bare_task_waits();
    reentrant::other_locks_and_other_holders_are_waited_for();
}
