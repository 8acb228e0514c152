//! Plants each mistake, and looks for the first seed that finds it.

use std::process::ExitCode;

use leasehold_simulation::world::{CLIENT_MISTAKES, Deployment, MISTAKES};

use crate::arguments::{Arguments, Planted};
use crate::children::first_bad;

pub(crate) fn find_all(arguments: &Arguments) -> ExitCode {
    let in_scripts = MISTAKES.iter().map(|it| (it.name, it.within, it.on, Planted::Mistake(it)));
    let in_client =
        CLIENT_MISTAKES.iter().map(|it| (it.name(), it.within, it.on, Planted::InClient(it)));
    let is_well = [find("scripts", in_scripts, arguments), find("client", in_client, arguments)];
    if is_well == [true; 2] { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns true if each that is looked for is found.
fn find(
    place: &str,
    mistakes: impl Iterator<Item = (&'static str, u64, Option<Deployment>, Planted)>,
    arguments: &Arguments,
) -> bool {
    let (mut found, mut not_looked_for, mut missed) = (0, 0, Vec::new());
    for (name, within, on, planted) in mistakes {
        if within == 0 {
            println!("{name:<42} not looked for here");
            not_looked_for += 1;
            continue;
        }
        let deployment = on.or(arguments.deployment);
        let planted = Arguments { planted: Some(planted), deployment, ..arguments.clone() };
        if let Some((seed, why)) = first_bad(within, &planted) {
            println!("{name:<42} seed {seed:>3}: {why}");
            found += 1;
        } else {
            println!("{name:<42} NOT FOUND within {within} seeds");
            missed.push(name);
        }
    }
    println!(
        "mistakes in the {place}: {found} found, {not_looked_for} not looked for, missed: {missed:?}"
    );
    missed.is_empty()
}
