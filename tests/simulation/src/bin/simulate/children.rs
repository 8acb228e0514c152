//! Worlds as processes.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::ops::Range;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

use leasehold_history::Judged;
use leasehold_simulation::repeat::let_repeat;
use leasehold_simulation::world::{Deployment, rule_named, rules_that_judged_nothing};

use crate::arguments::{Arguments, Planted};
use crate::copy::{self, PLANTED};
use crate::limits;
use crate::{JUDGED, WORLD};

/// What clap ends a process with.
const WRONG_ARGUMENTS: i32 = 2;

/// In a world of so many seconds, each rule may have something to judge.
const LONG: u64 = 60;

/// What a world said.
pub(crate) struct Outcome {
    pub(crate) text: String,
    pub(crate) is_well: bool,
}

fn start(seed: u64, arguments: &Arguments) -> Child {
    let in_client = match arguments.planted {
        Some(Planted::InClient(mistake)) => Some(mistake),
        _ => None,
    };
    let program = match in_client {
        Some(_) => copy::program(),
        None => std::env::current_exe().expect("it runs"),
    };
    let mut command = Command::new(program);
    command.envs(in_client.map(|mistake| (PLANTED, mistake.name())));
    let_repeat(&mut command);
    command.args(arguments.words(seed)).env(WORLD, "");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be started")
}

fn end(child: Child) -> Outcome {
    let output = child.wait_with_output().expect("it was started");
    assert_ne!(output.status.code(), Some(WRONG_ARGUMENTS), "a world does not know its arguments");
    // A world that has panicked says the reason there.
    let said = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
    let text = String::from_utf8_lossy(said).into_owned();
    Outcome { text, is_well: output.status.success() }
}

/// Runs one world without its events.
pub(crate) fn quiet(seed: u64, arguments: &Arguments) -> Outcome {
    end(start(seed, &Arguments { is_quiet: true, ..arguments.clone() }))
}

/// Runs one world with its events.
pub(crate) fn told(seed: u64, arguments: &Arguments) -> ExitCode {
    let outcome = end(start(seed, arguments));
    // A reader may have seen enough of it.
    let _ = std::io::stdout().write_all(outcome.text.as_bytes());
    if outcome.is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the worlds of these seeds, as many at a time as there are processors. Ends when a world
/// makes `go_on` return false.
fn run_all(seeds: Range<u64>, arguments: &Arguments, mut go_on: impl FnMut(u64, &Outcome) -> bool) {
    let arguments = Arguments { is_quiet: true, ..arguments.clone() };
    let at_a_time = std::thread::available_parallelism().map_or(1, usize::from);
    let (mut seeds, mut running) = (seeds, VecDeque::new());
    loop {
        while running.len() < at_a_time
            && let Some(seed) = seeds.next()
        {
            running.push_back((seed, start(seed, &arguments)));
        }
        let Some((seed, child)) = running.pop_front() else { return };
        if !go_on(seed, &end(child)) {
            for (_, mut child) in running {
                let _ = child.kill();
                let _ = child.wait();
            }
            return;
        }
    }
}

/// The first seed up to this one whose world fails, and the first thing that is wrong there.
pub(crate) fn first_bad(most: u64, arguments: &Arguments) -> Option<(u64, String)> {
    let mut first = None;
    run_all(1..most + 1, arguments, |seed, outcome| {
        if !outcome.is_well {
            // A panic begins with an empty line.
            let why = outcome.text.lines().find(|line| !line.is_empty());
            let why = why.unwrap_or("it ended by itself");
            first = Some((seed, why.chars().take(120).collect()));
        }
        outcome.is_well
    });
    first
}

/// Runs the worlds of many seeds.
pub(crate) fn many(from: u64, count: u64, arguments: &Arguments) -> ExitCode {
    let begun = Instant::now();
    let (mut requests, mut grants, mut bad) = (0, 0, Vec::new());
    let mut judged = BTreeMap::<_, (u64, Judged)>::new();
    run_all(from..from + count, arguments, |seed, outcome| {
        let numbers = numbers(&outcome.text);
        requests += numbers.0;
        grants += numbers.1;
        let deployment = arguments.plan(seed).deployment;
        let known = judged.entry(deployment.name()).or_default();
        known.0 += arguments.seconds;
        add_judged(&mut known.1, &outcome.text);
        if !outcome.is_well {
            print!("{}", outcome.text);
            println!("  again: simulate {}", arguments.words(seed).join(" "));
            bad.push(seed);
        }
        true
    });
    let took = begun.elapsed().as_secs_f64();
    let seconds = arguments.seconds;
    println!(
        "{count} worlds of {seconds} s in {took:.1} s: {requests} requests, {grants} grants, bad seeds: \
         {bad:?}"
    );
    if let Some(busy) = limits::processor_time(limits::Of::Children).filter(|busy| *busy > 0.0) {
        let rate = f64::from(grants) / busy;
        println!("{busy:.0} s of processor time: {rate:.0} grants a second of it");
    }
    // In a short world, limits do not stand for long, nor does anybody wait for long.
    let is_judged = arguments.is_usual() && seconds >= LONG;
    let is_seen = !is_judged || all_judge(&judged);
    if bad.is_empty() && is_seen { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints what the rules have judged, by deployment. Returns false if one has judged nothing that should have.
fn all_judge(judged: &BTreeMap<&str, (u64, Judged)>) -> bool {
    let mut all_judge = true;
    for (name, (seconds, judged)) in judged {
        println!("{JUDGED}{judged}, in {seconds} s on {name}");
        let deployment = Deployment::named(name).expect("it has a name");
        let idle = rules_that_judged_nothing(deployment, *seconds, judged);
        if !idle.is_empty() {
            println!("RULES THAT HAVE JUDGED NOTHING: {}", idle.join(", "));
            all_judge = false;
        }
    }
    all_judge
}

/// Adds what the rules of a world have judged, as it says.
fn add_judged(judged: &mut Judged, text: &str) {
    let said = text.lines().find_map(|line| line.strip_prefix(JUDGED)).unwrap_or_default();
    for (rule, count) in said.split(", ").filter_map(|it| it.rsplit_once(' ')) {
        let rule = rule_named(rule).unwrap_or_else(|| panic!("{rule} is not in the list of rules"));
        judged.add(rule, count.parse().expect("a number"));
    }
}

/// The requests and grants of a world's last line.
fn numbers(text: &str) -> (u32, u32) {
    let number = |word: &str| {
        let last = text.lines().last()?;
        last.split(word).next()?.trim().rsplit(' ').next()?.parse().ok()
    };
    (number(" requests").unwrap_or(0), number(" grants").unwrap_or(0))
}
