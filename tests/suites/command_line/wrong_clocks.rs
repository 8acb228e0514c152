//! A host whose clock differs from the server's, and what `run` says of it.

use std::time::Duration;

use super::clocked::{Clocked, since_1970};
use super::{Told, with};

const HOUR: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);

/// A full hour of yesterday or today.
fn hour() -> Duration {
    Duration::from_secs(since_1970().as_secs() / 3600 * 3600)
}

/// Calls `true` under a lock on the host.
fn run(clocked: &Clocked, options: &str) -> Told {
    let options: Vec<_> = options.split(' ').collect();
    clocked.told(with(&clocked.server, &["run"]).args(options).args(["--", "true"]))
}

/// The only line on stderr.
fn only(told: &Told, code: i32) -> &str {
    assert_eq!(told.code, code, "{told:?}");
    let lines: Vec<_> = told.err.lines().collect();
    let [line] = lines[..] else { panic!("{told:?}") };
    line
}

/// Takes the difference out of a text. It is 30 seconds, less what the call took and the rest of a
/// second.
fn without_difference(line: &str) -> String {
    let (begin, rest) = line.split_once("clock is ").expect("a difference");
    let (seconds, rest) = rest.split_once("s ").expect("seconds");
    assert!((10..=30).contains(&seconds.parse::<u32>().expect("a number")), "{line}");
    format!("{begin}clock is {rest}")
}

/// The previous tick is done, and the wait does not reach the one that the call is for. No other
/// call comes in that hour, so even a quiet one says it.
#[test]
fn a_call_that_comes_too_early_says_why_it_was_skipped() {
    let (mut clocked, hour) = (Clocked::start(), hour());
    clocked.set(hour, hour);
    let told = run(&clocked, "report --once-per 1h");
    assert_eq!((told.code, &*told.err), (0, ""));

    clocked.set((hour + HOUR).abs_diff(SECOND * 30), hour + HOUR);
    let told = run(&clocked, "report --once-per 1h --wait 5s --quiet");
    let line = without_difference(only(&told, 122));
    let begin = "leasehold: this machine's clock is ahead of the server's: on the server, the tick of \
                 this call begins in ";
    assert!(line.starts_with(begin) && line.contains("`--wait`"), "{line}");
    let schedule = ["--json", "run", "report", "--quiet", "--schedule", "hourly in UTC"];
    let told = clocked.told(with(&clocked.server, &schedule).args(["--", "true"]));
    let line = without_difference(only(&told, 122));
    assert!(line.starts_with(r#"{"warning":"this machine's clock is ahead"#), "{line}");
    // Another host has done that tick meanwhile.
    clocked.set(hour + HOUR, hour + HOUR);
    assert_eq!(run(&clocked, "report --once-per 1h").code, 0);
    let told = run(&clocked, "report --once-per 1h --quiet");
    assert_eq!((told.code, &*told.err), (122, ""));
}

#[test]
fn a_call_that_runs_says_that_the_clock_is_wrong() {
    let (mut clocked, hour) = (Clocked::start(), hour());
    clocked.set(hour, hour + SECOND * 30);
    let ahead = run(&clocked, "report --once-per 1h");
    let line = without_difference(only(&ahead, 0));
    assert!(line.contains("clock is ahead of the server's, which is more than"), "{line}");
    clocked.set(hour + HOUR, (hour + HOUR).abs_diff(SECOND * 30));
    let behind = run(&clocked, "report --once-per 1h --wait 5s");
    let line = without_difference(only(&behind, 0));
    assert!(line.contains("clock is behind the server's: calls come that much late"), "{line}");
    // Work that is done says it, too.
    let again = run(&clocked, "report --once-per 1h --quiet");
    assert!(only(&again, 122).contains("behind"), "{again:?}");
}

/// Its wait is longer than the difference; or its lock has no ticks.
#[test]
fn a_clock_that_does_no_harm_is_no_news() {
    let (mut clocked, hour) = (Clocked::start(), hour());
    for (name, host) in [("ahead", hour + SECOND * 30), ("behind", hour.abs_diff(SECOND * 30))] {
        clocked.set(hour, host);
        let options = ["--once-per 1h --wait 1m", "--once-per 1h --wait forever", "--once 1h", ""];
        for (at, options) in options.iter().enumerate() {
            let told = run(&clocked, format!("{name}-{at} {options}").trim_end());
            assert_eq!((told.code, &*told.err), (0, ""), "{name}: {options}");
        }
    }
}
