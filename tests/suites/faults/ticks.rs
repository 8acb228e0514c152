//! A job of each tick on eight servers, some of which fail, panic, are killed or stopped.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use leasehold_tests::process::Process;
use leasehold_tests::server::{Server, signal};
use leasehold_tests::skew::{Clock, micros};
use leasehold_tests::waiting::{until, work_for};

const PERIOD: Duration = Duration::from_millis(250);

/// How long the job runs; `./tests/run long` waits for 200 ticks.
fn ticks() -> u32 {
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

/// Waits until four more ticks have a success, and checks that no tick has two. How many ticks have
/// none depends on how fast the machine is, so nothing is said of that.
async fn until_more_succeed(database: &Server) {
    let before = runs(database, "succeeded").await.len();
    until("four more ticks have a success", async || {
        let succeeded = runs(database, "succeeded").await;
        assert!(succeeded.values().all(|&count| count == 1), "{succeeded:?}");
        succeeded.len() >= before + 4
    })
    .await;
}

#[tokio::test]
async fn no_tick_has_two_successes_and_ticks_go_on() {
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
    let begun = Instant::now();
    while begun.elapsed() < PERIOD * ticks() {
        let pause = Duration::from_millis(fastrand::u64(50..400));
        let who = fastrand::usize(..others.len());
        if fastrand::bool() {
            others[who].kill();
            others[who] = start();
            work_for(pause).await;
        } else {
            let pid = others[who].pid();
            signal("-STOP", &pid);
            work_for(pause * 2).await;
            signal("-CONT", &pid);
        }
    }
    until_more_succeed(&database).await;
    drop((others, ahead));
    let failed = runs(&database, "failed").await;
    assert!(!failed.is_empty(), "no run has failed");
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
        work_for(PERIOD).await;
        server.jump_back(PERIOD);
        work_for(PERIOD).await;
        server.jump(PERIOD * 2);
    }
    until_more_succeed(&database).await;
    drop(workers);
}
