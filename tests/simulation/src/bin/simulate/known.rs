//! The worlds in which something was found once.

use std::process::ExitCode;

use leasehold_simulation::world::Deployment;

use crate::arguments::{Arguments, Mode};
use crate::children::quiet;

const SEEDS: &str = include_str!("../../../seeds.txt");

/// For how many seconds a world runs whose seed means another one by now.
const OTHERS: u64 = 10;

/// A line of the file: a world, and the version in which it failed.
struct Known<'a> {
    seed: u64,
    world: Arguments,
    version: &'a str,
}

fn parse(line: &str) -> Option<Known<'_>> {
    let mut words = line.split('#').next()?.split_whitespace();
    let (seed, seconds, version) = (words.next()?, words.next()?, words.next()?);
    let world = Arguments::of_seed(seed, seconds, words);
    Some(Known { seed: seed.parse().expect("a seed is a number"), world, version })
}

/// What a seed means: another version of the worlds, of the client or of a crate may make another
/// world of it. It is the end of the hash of a short world with faults.
pub(crate) fn version() -> String {
    let seed = 36;
    let single = Some(Deployment::Single);
    let short = Arguments { deployment: single, ..Arguments::new(Mode::One(seed), 3) };
    let text = quiet(seed, &short).text;
    let hash = text.trim_end().rsplit(' ').next().unwrap_or_default();
    hash[..hash.len().min(8)].to_owned()
}

pub(crate) fn run_all() -> ExitCode {
    let version = version();
    let (mut count, mut others, mut bad) = (0, 0, Vec::new());
    for Known { seed, mut world, version: then } in SEEDS.lines().filter_map(parse) {
        if then != version {
            // Another world than that one: it is worth no more than any.
            world.seconds = world.seconds.min(OTHERS);
        }
        let outcome = quiet(seed, &world);
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
