//! Plants each mistake, and looks for the first seed that finds it.

use std::process::ExitCode;

use leasehold_simulation::world::{CLIENT_MISTAKES, MISTAKES, Only};

use crate::arguments::{Arguments, Planted};
use crate::children::{first_bad, quiet};

/// One of them, how many seeds are tried, how many times as long each lasts, and where.
type Row = (&'static str, u64, u64, Only, Planted);

pub(crate) fn find_all(names: &str, arguments: &Arguments) -> ExitCode {
    let in_scripts =
        MISTAKES.iter().map(|it| (it.name, it.within, 1, it.only, Planted::Mistake(it)));
    let in_client = CLIENT_MISTAKES
        .iter()
        .map(|it| (it.name(), it.within, it.times, it.only, Planted::InClient(it)));
    // A place's name stands for all of its mistakes.
    let is_meant = |place, row: &Row| match names {
        "scripts" | "client" => names == place,
        names => row.0.contains(names),
    };
    let is_well = [
        find("scripts", in_scripts.filter(|row| is_meant("scripts", row)), arguments),
        find("client", in_client.filter(|row| is_meant("client", row)), arguments),
    ];
    if is_well == [true; 2] { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns true if each that is looked for is found.
fn find(place: &str, mistakes: impl Iterator<Item = Row>, arguments: &Arguments) -> bool {
    let (mut found, mut not_looked_for, mut missed) = (0, 0, Vec::new());
    for (name, within, times, only, planted) in mistakes {
        if within == 0 {
            println!("{name:<42} not looked for here");
            not_looked_for += 1;
            continue;
        }
        let seconds = arguments.seconds * times;
        let planted =
            Arguments { planted: Some(planted), seconds, ..arguments.clone() }.in_worlds(only);
        let without = Arguments { planted: None, ..planted.clone() };
        match first_bad(within, &planted) {
            Some((seed, _)) if !quiet(seed, &without).is_well => {
                println!("{name:<42} seed {seed:>3} fails WITHOUT IT, too");
                missed.push(name);
            }
            Some((seed, why)) => {
                println!("{name:<42} seed {seed:>3}: {why}");
                found += 1;
            }
            None => {
                println!("{name:<42} NOT FOUND within {within} seeds");
                missed.push(name);
            }
        }
    }
    println!(
        "mistakes in the {place}: {found} found, {not_looked_for} not looked for, missed: {missed:?}"
    );
    missed.is_empty()
}
