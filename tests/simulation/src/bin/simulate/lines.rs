//! Leaves out each line of each script, and looks for a seed that notices it.

use std::collections::BTreeMap;
use std::fmt;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use leasehold_simulation::world::{Deployment, ScriptLine};

use crate::arguments::{Arguments, Mode, Planted};
use crate::children::quiet;

/// So many worlds are tried without a line, after so many seeds of hostile commands.
const WORLDS: u64 = 10;
const TRAFFIC: u64 = 40;

/// What quorums and clusters alone run is in few of these worlds. So each has as many of its own.
const OF_THEIR_OWN: u64 = 6;

/// Why no world notices that a line is missing, by its file and text.
const EXPLAINED: &str = include_str!("../../../lines.md");

/// What happens without a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    NoProgram,
    ByTraffic,
    FoundBy(u64),
    Survives,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProgram => f.write_str("no program without it"),
            Self::ByTraffic => f.write_str("by hostile commands"),
            Self::FoundBy(seed) => write!(f, "seed {seed}"),
            Self::Survives => f.write_str("no seed"),
        }
    }
}

pub(crate) fn leave_out_all(files: &str, arguments: &Arguments) -> ExitCode {
    let begun = Instant::now();
    let lines = ScriptLine::all(files);
    let fates = fates(&lines, arguments);
    let mut counts = BTreeMap::new();
    let (mut survivors, mut unexplained) = (0, 0);
    for (line, fate) in lines.iter().zip(&fates) {
        *counts.entry(*fate).or_insert(0) += 1;
        let ScriptLine { file, text, .. } = line;
        let is_explained = EXPLAINED.contains(&format!("- `{file}: {text}`: "));
        match fate {
            Fate::Survives if is_explained => survivors += 1,
            Fate::Survives => {
                println!("{line}: {text}");
                survivors += 1;
                unexplained += 1;
            }
            _ if is_explained => println!("{line}, found by now ({fate}): {text}"),
            _ => {}
        }
    }
    for (fate, count) in counts {
        println!("{count:>5} lines: {fate}");
    }
    let took = begun.elapsed().as_secs();
    println!(
        "{} lines left out one by one, in {took} s: {survivors} survivors, {unexplained} of them not explained",
        lines.len()
    );
    if unexplained == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Tries all lines, as many at a time as there are processors.
fn fates(lines: &[ScriptLine], arguments: &Arguments) -> Vec<Fate> {
    let at_a_time = std::thread::available_parallelism().map_or(1, usize::from);
    let next = Mutex::new(lines.iter().enumerate());
    let fates = Mutex::new(vec![Fate::Survives; lines.len()]);
    std::thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                loop {
                    let Some((nth, line)) = next.lock().expect("nobody panics").next() else {
                        return;
                    };
                    let fate = fate(line, arguments);
                    fates.lock().expect("nobody panics")[nth] = fate;
                }
            });
        }
    });
    fates.into_inner().expect("nobody panics")
}

fn fate(line: &ScriptLine, arguments: &Arguments) -> Fate {
    if !line.compiles() {
        return Fate::NoProgram;
    }
    let planted = Some(Planted::Without(line.clone()));
    let arguments = Arguments { planted, ..arguments.clone() };
    let traffic = Arguments { mode: Mode::Traffic(TRAFFIC), ..arguments.clone() };
    if !quiet(0, &traffic).is_well {
        return Fate::ByTraffic;
    }
    let on = |deployment| Arguments { deployment: Some(deployment), ..arguments.clone() };
    let own = [Deployment::Quorum(3), Deployment::Cluster].map(on);
    let worlds = (1..=WORLDS).map(|seed| (seed, &arguments));
    let own = own.iter().flat_map(|of_own| (1..=OF_THEIR_OWN).map(move |seed| (seed, of_own)));
    let found = worlds.chain(own).find(|(seed, arguments)| !quiet(*seed, arguments).is_well);
    found.map_or(Fate::Survives, |(seed, _)| Fate::FoundBy(seed))
}
