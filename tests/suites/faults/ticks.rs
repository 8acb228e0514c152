//! A job of each tick on eight servers, some of which fail, panic, are killed or stopped.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use leasehold_tests::process::Process;
use leasehold_tests::server::{Server, signal};
use leasehold_tests::skew::{Clock, micros};

const PERIOD: u64 = 250;

/// A run that died or stood still keeps the lock for its TTL. These many ticks begin meanwhile.
const BLOCKED: u64 = 4;

/// How long the job runs; `./tests/run long` waits for 200 ticks.
fn ticks() -> u64 {
    if std::env::var_os("LONG").is_some() { 200 } else { 50 }
}

fn command(server: &Server, database: &Server) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
    command.args([&server.url(), "ticks", &database.url()]);
    command
}

/// How many runs of each tick ended so.
async fn runs(database: &Server, end: &str) -> BTreeMap<u64, u64> {
    let mut all = redis::cmd("HGETALL");
    all.arg(end).query_async(&mut database.redis().await).await.unwrap()
}

#[tokio::test]
async fn no_tick_has_two_successes_and_none_is_left_out() {
    let (server, database) = (Server::start(), Server::start());
    // One client's clock is an hour ahead. That is not stopped or killed.
    let clock = Clock::new();
    clock.jump(micros(Duration::from_secs(60 * 60)));
    let mut ahead = command(&server, &database);
    clock.govern(&mut ahead);
    let mut ahead = Process::start(&mut ahead);
    let start = || Process::start(&mut command(&server, &database));
    let mut others: Vec<_> = (0..7).map(|_| start()).collect();
    for process in others.iter_mut().chain([&mut ahead]) {
        assert_eq!(process.line().as_deref(), Some("ready"));
    }
    let (begun, mut killed) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_millis(PERIOD * ticks()) {
        let pause = Duration::from_millis(fastrand::u64(50..400));
        let who = fastrand::usize(..others.len());
        if fastrand::bool() {
            others[who].kill();
            others[who] = start();
            killed += 1;
            tokio::time::sleep(pause).await;
        } else {
            let pid = others[who].pid();
            signal("-STOP", &pid);
            tokio::time::sleep(pause * 2).await;
            signal("-CONT", &pid);
        }
    }
    drop((others, ahead));
    let (started, succeeded) =
        (runs(&database, "started").await, runs(&database, "succeeded").await);
    let no_longer_held: u64 = runs(&database, "lost").await.values().sum();
    println!(
        "{} ticks, {} successes, {killed} killed, {no_longer_held} lost",
        started.len(),
        succeeded.len()
    );
    assert!(succeeded.values().all(|&count| count == 1), "{succeeded:?}");
    let first = *started.first_key_value().expect("one has run").0;
    let last = *started.last_key_value().expect("one has run").0;
    assert!((last - first) / PERIOD > ticks() / 2, "they ran all the time");
    let mut unexplained = Vec::new();
    for tick in (first..last).step_by(usize::try_from(PERIOD).unwrap()) {
        assert_eq!(tick % PERIOD, 0);
        // A run that began in it or shortly before it did not succeed in time.
        let before = tick - BLOCKED * PERIOD..=tick;
        let failed = |tick: &u64, count: &u64| *count > succeeded.get(tick).copied().unwrap_or(0);
        let has_failed = started.range(before).any(|(tick, count)| failed(tick, count));
        if !succeeded.contains_key(&tick) && !has_failed {
            unexplained.push(tick);
        }
    }
    // A process that was killed or stopped between its grant and its note has left no note.
    assert!(unexplained.len() as u64 <= ticks() / 5, "{unexplained:?} {started:?} {succeeded:?}");
    let share = succeeded.len() as u64 * PERIOD * 100 / (last - first);
    assert!(share > 40, "only {share} % of the ticks have a success");
}

/// While the server's clock steps back and forth by a tick, none succeeds twice.
#[tokio::test]
async fn no_tick_succeeds_twice_when_the_servers_clock_steps() {
    let (server, database) = (Server::start_skewed(), Server::start());
    let mut workers: Vec<_> =
        (0..3).map(|_| Process::start(&mut command(&server, &database))).collect();
    for worker in &mut workers {
        assert_eq!(worker.line().as_deref(), Some("ready"));
    }
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(PERIOD)).await;
        server.jump_back(Duration::from_millis(PERIOD));
        tokio::time::sleep(Duration::from_millis(PERIOD)).await;
        server.jump(Duration::from_millis(PERIOD * 2));
    }
    drop(workers);
    let succeeded = runs(&database, "succeeded").await;
    assert!(succeeded.len() > 5, "{succeeded:?}");
    assert!(succeeded.values().all(|&count| count == 1), "{succeeded:?}");
}
