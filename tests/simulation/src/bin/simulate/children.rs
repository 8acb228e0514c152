//! Worlds as processes.

use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

use leasehold_simulation::repeat::let_repeat;

use crate::WORLD;
use crate::arguments::Arguments;

/// What a world said.
pub(crate) struct Outcome {
    pub(crate) text: String,
    pub(crate) is_well: bool,
}

fn start(seed: u64, arguments: &Arguments) -> Child {
    let program = std::env::current_exe().expect("it runs");
    let mut command = Command::new(program);
    let_repeat(&mut command);
    command.args(arguments.words(seed)).env(WORLD, "");
    command.stdout(Stdio::piped()).spawn().expect("it can be started")
}

fn end(child: Child) -> Outcome {
    let output = child.wait_with_output().expect("it was started");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Outcome { text, is_well: output.status.success() }
}

/// Runs one world without its events.
pub(crate) fn quiet(seed: u64, arguments: &Arguments) -> Outcome {
    end(start(seed, &Arguments { is_quiet: true, ..arguments.clone() }))
}

/// Runs one world with its events.
pub(crate) fn told(seed: u64, arguments: &Arguments) -> ExitCode {
    let outcome = end(start(seed, arguments));
    print!("{}", outcome.text);
    if outcome.is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the worlds of many seeds, as many at a time as there are processors.
pub(crate) fn many(from: u64, count: u64, arguments: &Arguments) -> ExitCode {
    let arguments = Arguments { is_quiet: true, ..arguments.clone() };
    let at_a_time = std::thread::available_parallelism().map_or(1, usize::from);
    let begun = Instant::now();
    let (mut requests, mut grants, mut bad) = (0, 0, Vec::new());
    let mut running = std::collections::VecDeque::new();
    let mut seeds = from..from + count;
    loop {
        while running.len() < at_a_time
            && let Some(seed) = seeds.next()
        {
            running.push_back((seed, start(seed, &arguments)));
        }
        let Some((seed, child)) = running.pop_front() else { break };
        let outcome = end(child);
        let numbers = numbers(&outcome.text);
        requests += numbers.0;
        grants += numbers.1;
        if !outcome.is_well {
            print!("{}", outcome.text);
            println!("  again: simulate --seed {seed} {}", arguments.seconds);
            bad.push(seed);
        }
    }
    let took = begun.elapsed().as_secs_f64();
    let seconds = arguments.seconds;
    println!(
        "{count} worlds of {seconds} s in {took:.1} s: {requests} requests, {grants} grants, bad seeds: \
         {bad:?}"
    );
    if bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The requests and grants of a world's last line.
fn numbers(text: &str) -> (u64, u64) {
    let number = |word: &str| {
        let last = text.lines().last()?;
        last.split(word).next()?.trim().rsplit(' ').next()?.parse().ok()
    };
    (number(" requests").unwrap_or(0), number(" grants").unwrap_or(0))
}
