//! Runs worlds; `simulate --help` says how.

mod arguments;
mod children;
mod copy;
mod known;
mod limits;
mod lines;
mod mistakes;
mod shrink;

use std::process::ExitCode;

use leasehold_simulation::trace::Printed;
use leasehold_simulation::traffic::{Unusual, judged};
use leasehold_simulation::world;

use self::arguments::{Arguments, Mode, Planted};

// A world allocates more than it computes; this takes a tenth off its time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Tells a process that it is a world.
const WORLD: &str = "LEASEHOLD_WORLD";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match &arguments.mode {
        Mode::One(seed) if std::env::var_os(WORLD).is_some() => one(*seed, &arguments),
        Mode::One(seed) => {
            println!("worlds of version {}", known::version());
            children::told(*seed, &arguments)
        }
        Mode::Known => known::run_all(),
        Mode::Many { from, count } => children::many(*from, *count, &arguments),
        Mode::Shrink(seed) => shrink::shrink(*seed, &arguments),
        Mode::Mistakes(names) => mistakes::find_all(names, &arguments),
        Mode::Traffic(seeds) => traffic(*seeds, &arguments),
        Mode::Lines(files) => lines::leave_out_all(files, &arguments),
    }
}

/// Hostile commands of so many seeds, up to the first that an oracle complains of.
fn traffic(seeds: u64, arguments: &Arguments) -> ExitCode {
    let altered = arguments.planted.as_ref().and_then(Planted::altered);
    let altered = altered.as_ref().map(|(from, to)| (from.as_str(), to.as_str()));
    for seed in 0..seeds {
        let found = judged(seed, altered, Unusual { jumps: seed % 2 == 1 });
        if let Some(first) = found.first() {
            println!("VIOLATION {first}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Before how often each rule has judged something.
const JUDGED: &str = "judged: ";

/// The world itself. Its last line is what it did, and its hash.
fn one(seed: u64, arguments: &Arguments) -> ExitCode {
    limits::watch(arguments.seconds);
    let plan = arguments.plan(seed);
    if plan.printed != Printed::Nothing {
        println!("{plan:?}");
    }
    let report = world::run(&plan);
    for violation in &report.violations {
        println!("VIOLATION {violation}");
    }
    println!("{JUDGED}{}", report.judged);
    println!(
        "seed {seed}: {} requests, {} grants, events {:016x}",
        report.requests, report.grants, report.hash
    );
    if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
