//! Runs worlds: `simulate [SEEDS] [SECONDS]`, or `simulate --seed N [SECONDS]` with all events.
//!
//! Each world is a process of its own, whose random numbers of the system are always the same. So
//! nothing of a world follows from those before it.

use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use leasehold_simulation::world;
use leasehold_tests::shim;

/// Tells a process that it is a world; and whether it prints its events.
const WORLD: &str = "LEASEHOLD_WORLD";

fn main() -> ExitCode {
    let mut words: Vec<_> = std::env::args().skip(1).collect();
    let is_one = words.first().is_some_and(|word| word == "--seed");
    if is_one {
        words.remove(0);
    }
    let number = |at: usize, otherwise| match words.get(at).map(|word| word.parse()) {
        None => otherwise,
        Some(Ok(number)) => number,
        Some(Err(_)) => usage(),
    };
    let seconds = number(1, 60);
    if let Ok(told) = std::env::var(WORLD) {
        return one(number(0, 1), seconds, told == "told");
    }
    if is_one {
        return if child(number(0, 1), seconds, "told").is_none() {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        };
    }
    many(number(0, 20), seconds)
}

/// The world itself. Its last line is its grants and its hash.
fn one(seed: u64, seconds: u64, is_told: bool) -> ExitCode {
    let report = world::run(seed, seconds, is_told);
    for violation in &report.violations {
        println!("VIOLATION {violation}");
    }
    println!("seed {seed}: {} grants, events {:016x}", report.grants, report.hash);
    if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn many(seeds: u64, seconds: u64) -> ExitCode {
    let (begun, mut grants, mut bad) = (Instant::now(), 0, Vec::new());
    for seed in 1..=seeds {
        match child(seed, seconds, "quiet") {
            Some(count) => grants += count,
            None => bad.push(seed),
        }
    }
    let took = begun.elapsed().as_secs_f64();
    println!("{seeds} worlds of {seconds} s in {took:.1} s: {grants} grants; bad seeds: {bad:?}");
    if bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the world of a seed in a process of its own, and prints what it prints. Returns its grants,
/// or nothing if something was wrong.
fn child(seed: u64, seconds: u64, how: &str) -> Option<u64> {
    let program = std::env::current_exe().expect("it runs");
    let mut command = Command::new(program);
    shim::let_repeat(&mut command);
    command.args(["--seed", &seed.to_string(), &seconds.to_string()]).env(WORLD, how);
    let output = command.stderr(Stdio::inherit()).output().expect("it can be started");
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    let (_, last) = text.trim_end().rsplit_once("seed ")?;
    let grants = last.split(' ').nth(1)?.parse().ok()?;
    output.status.success().then_some(grants)
}

fn usage() -> u64 {
    eprintln!("simulate [SEEDS] [SECONDS], or simulate --seed N [SECONDS]");
    std::process::exit(2)
}
