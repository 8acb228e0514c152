//! Plants each mistake, and looks for the first seed that finds it.

use std::process::ExitCode;

use leasehold_simulation::world::MISTAKES;

use crate::arguments::Arguments;
use crate::children::first_bad;

pub(crate) fn find_all(arguments: &Arguments) -> ExitCode {
    let mut missed = Vec::new();
    for mistake in MISTAKES {
        let planted = Arguments { mistake: Some(mistake), ..arguments.clone() };
        if mistake.within == 0 {
            println!("{:<36} not looked for here", mistake.name);
            continue;
        }
        if let Some((seed, why)) = first_bad(mistake.within, &planted) {
            println!("{:<36} seed {seed:>3}: {why}", mistake.name);
        } else {
            println!("{:<36} NOT FOUND within {} seeds", mistake.name, mistake.within);
            missed.push(mistake.name);
        }
    }
    println!("{} mistakes, not found: {missed:?}", MISTAKES.len());
    if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
