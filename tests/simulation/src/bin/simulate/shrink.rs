//! Makes a failing world smaller for as long as it fails.

use std::process::ExitCode;

use crate::arguments::Arguments;
use crate::children::quiet;

pub(crate) fn shrink(seed: u64, arguments: &Arguments) -> ExitCode {
    let mut smallest = arguments.clone();
    if quiet(seed, &smallest).is_well {
        println!("the world of seed {seed} is well");
        return ExitCode::SUCCESS;
    }
    let mut is_smaller = true;
    while is_smaller {
        is_smaller = false;
        for smaller in smaller(seed, &smallest) {
            if !quiet(seed, &smaller).is_well {
                smallest = smaller;
                is_smaller = true;
                println!("still fails: simulate {}", smallest.words(seed).join(" "));
                break;
            }
        }
    }
    let outcome = quiet(seed, &smallest);
    print!("{}", outcome.text);
    println!("the smallest: simulate {}", smallest.words(seed).join(" "));
    ExitCode::FAILURE
}

/// The worlds that are smaller by one step.
fn smaller(seed: u64, arguments: &Arguments) -> Vec<Arguments> {
    let plan = arguments.plan(seed);
    let mut all = Vec::new();
    for seconds in [arguments.seconds / 2, arguments.seconds.saturating_sub(1)] {
        if (1..arguments.seconds).contains(&seconds) {
            all.push(Arguments { seconds, ..arguments.clone() });
        }
    }
    for fault in plan.faults {
        let mut without = arguments.without.clone();
        without.insert(fault);
        all.push(Arguments { without, ..arguments.clone() });
    }
    if plan.processes > 1 {
        all.push(Arguments { processes: Some(plan.processes - 1), ..arguments.clone() });
    }
    if plan.tasks > 1 {
        all.push(Arguments { tasks: Some(plan.tasks - 1), ..arguments.clone() });
    }
    all
}
