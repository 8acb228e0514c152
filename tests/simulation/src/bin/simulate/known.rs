//! The worlds in which something was found once.

use std::process::ExitCode;

use leasehold_simulation::world::Deployment;

use crate::arguments::{Arguments, Mode};
use crate::children::{Outcome, quiet};

const SEEDS: &str = include_str!("../../../seeds.txt");

/// A line of the file.
struct Known<'a> {
    seed: u64,
    seconds: u64,
    version: &'a str,
}

fn parse(line: &str) -> Option<Known<'_>> {
    let mut words = line.split('#').next()?.split_whitespace();
    let (seed, seconds) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(Known { seed, seconds, version: words.next()? })
}

fn world(seed: u64, seconds: u64, deployment: Option<Deployment>) -> Outcome {
    quiet(seed, &Arguments { deployment, ..Arguments::new(Mode::One(seed), seconds) })
}

/// What a seed means: another version of the worlds, of the client or of a crate may make another
/// world of it. It is the end of the hash of a short world with faults.
pub(crate) fn version() -> String {
    let text = world(36, 3, Some(Deployment::Single)).text;
    let hash = text.trim_end().rsplit(' ').next().unwrap_or_default();
    hash[..hash.len().min(8)].to_owned()
}

pub(crate) fn run_all() -> ExitCode {
    let version = version();
    let (mut count, mut others, mut bad) = (0, 0, Vec::new());
    for Known { seed, seconds, version: then } in SEEDS.lines().filter_map(parse) {
        let outcome = world(seed, seconds, None);
        count += 1;
        others += u32::from(then != version);
        if !outcome.is_well {
            print!("{}", outcome.text);
            bad.push(seed);
        }
    }
    println!(
        "{count} worlds in which something was found once; {others} of the seeds mean another world in \
         version {version}; bad seeds: {bad:?}"
    );
    if bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
