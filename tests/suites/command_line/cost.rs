//! A list of many locks costs little memory, and as JSON it begins at once.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold_tests::server::Server;
use leasehold_tests::waiting::work_for;

use super::with;

/// How many names there are, and how many of them are held. `./tests/run long` uses those of a
/// great service.
fn load() -> (u64, u64) {
    if std::env::var_os("LONG").is_some() { (100_000, 10_000) } else { (5_000, 500) }
}

/// The other names were held within the last minute: the server still knows them.
async fn hold(server: &Server, all: u64, held: u64) -> Vec<leasehold::Lease> {
    let locks = leasehold::Locks::connect(&server.url()).await.expect("a server");
    let mut leases = Vec::new();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..all {
        let locks = locks.clone();
        tasks.spawn(async move {
            let lock = locks.mutex(format!("order:{number}")).ttl(Duration::from_secs(600));
            let lease = lock.lock().await.expect("nobody else has it");
            if number % (all / held) == 0 {
                return Some(lease);
            }
            lease.release().await.expect("it is held");
            None
        });
        if tasks.len() > 500
            && let Some(Ok(lease)) = tasks.join_next().await
        {
            leases.extend(lease);
        }
    }
    while let Some(lease) = tasks.join_next().await {
        leases.extend(lease.expect("no panic"));
    }
    leases
}

/// The most memory that a process has had, in kibibytes.
#[cfg(target_os = "linux")]
fn peak(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// The processor time of a process that has ended, and that nobody has waited for.
#[cfg(target_os = "linux")]
fn processor_time(process: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Its name may have spaces.
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let [user, system]: [u64; 2] = [fields.get(11)?.parse().ok()?, fields.get(12)?.parse().ok()?];
    // Linux counts in hundredths of a second, for programs.
    Some(Duration::from_millis((user + system) * 10))
}

/// Prints what a list costs, and returns the memory in kibibytes and the number of lines.
#[cfg(target_os = "linux")]
fn cost_of(server: &Server, arguments: &[&str]) -> (u64, usize) {
    let mut child = with(server, arguments).stdout(Stdio::piped()).spawn().expect("the tool");
    let process = child.id();
    let (mut memory, mut lines) = (0, 0);
    for line in BufReader::new(child.stdout.take().expect("it is piped")).lines() {
        line.expect("UTF-8");
        lines += 1;
        memory = peak(process).unwrap_or(memory);
    }
    let state = || std::fs::read_to_string(format!("/proc/{process}/stat")).expect("nobody waits");
    while !state().contains(") Z ") {
        std::thread::yield_now();
    }
    let time = processor_time(process).expect("it has ended");
    assert!(child.wait().expect("it ends").success());
    println!("{arguments:?}: {lines} lines, {memory} KiB, {time:?} of processor time");
    (memory, lines)
}

/// The first row comes while the list goes on, and the memory does not grow with it.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_long_list_begins_at_once() {
    let (all, held) = load();
    let server = Server::start();
    let leases = hold(&server, all, held).await;
    assert_eq!(leases.len() as u64, held);
    let mut redis = server.redis().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = is_over.clone();
    let pings = tokio::spawn(async move {
        let mut slowest = Duration::ZERO;
        while !ends.load(Ordering::Relaxed) {
            let begun = Instant::now();
            redis::cmd("PING").exec_async(&mut redis).await.expect("a pong");
            slowest = slowest.max(begun.elapsed());
            work_for(Duration::from_millis(1)).await;
        }
        slowest
    });
    let begun = Instant::now();
    let mut child =
        with(&server, &["ls", "--json"]).stdout(Stdio::piped()).spawn().expect("the tool");
    let process = child.id();
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    lines.next().expect("a row").expect("UTF-8");
    let (first, at_first) = (begun.elapsed(), peak(process).expect("it goes on"));
    let (mut rows, mut at_last) = (1, at_first);
    for line in lines {
        line.expect("UTF-8");
        rows += 1;
        if rows % 100 == 0 {
            at_last = peak(process).unwrap_or(at_last);
        }
    }
    let last = begun.elapsed();
    assert!(child.wait().expect("it ends").success());
    is_over.store(true, Ordering::Relaxed);
    let slowest = pings.await.expect("pongs");
    println!(
        "{all} names, {held} held: the first row after {first:?}, the last after {last:?}; memory \
         {at_first} KiB at the first row, {at_last} KiB at the last; the slowest PING beside it took {slowest:?}"
    );
    assert!(rows >= held, "{rows}");
    // A record of each lock would take ten times as much.
    assert!(at_last < at_first + 4_096, "{at_first} KiB, then {at_last} KiB");
    for arguments in [["ls"].as_slice(), &["ls", "--waiting"], &["ls", "--sort", "name"]] {
        let (memory, _lines) = cost_of(&server, arguments);
        // The table has the first 1,000 rows. A debug build is larger than what people install.
        assert!(memory < at_first + 8_192, "{arguments:?}: {memory} KiB, and {at_first} KiB");
    }
}
