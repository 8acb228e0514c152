//! How long the server takes to answer, and its clock against that of this machine.

use std::time::Duration;

use super::info::Info;
use super::material::{ClockSample, Material};
use super::names;
use super::report::Report;

/// A round trip from which on there is a warning.
const SLOW: Duration = Duration::from_millis(50);

/// Clocks that differ by more than this are not kept by NTP.
const APART: i64 = 1_000_000;

/// A command that takes this long on average, in microseconds, holds up all locks.
const SLOW_COMMAND: u64 = 50_000;

/// So often must it have run: one call of an operator is no pattern, also not beside the harmless
/// one of a diagnosis.
const CALLS: u64 = 3;

pub(super) fn check(material: &Material, report: &mut Report) {
    round_trip(material, report);
    if let Some(sample) = material.clock {
        clock(sample, report);
    }
    if let Some(info) = material.info.got() {
        slow_commands(info, report);
    }
}

fn round_trip(material: &Material, report: &mut Report) {
    let mut times = material.round_trips.clone();
    times.sort();
    let (Some(median), Some(longest)) = (times.get(times.len() / 2), times.last()) else { return };
    let (median, longest, limit) = (*median, *longest, material.client.command_timeout);
    let shown = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
    let value = format!("{} (median), {} (longest)", shown(median), shown(longest));
    report.fact("round-trip", format!("{value}, of {}", times.len()));
    let found = format!("a round trip takes {value}");
    if median >= limit / 2 {
        let meaning = format!("A command fails after {limit:?}, so under load many fail.");
        let remedy = "Move the client near its server, or raise command_timeout and the TTLs.";
        report.problem(names::LATENCY, found, meaning, remedy);
    } else if median >= SLOW {
        let meaning = "An acquire and a release cost one each. A TTL must be many times longer.";
        let remedy = "Move the client near its server. If the two are near: `redis-cli --latency`, \
                      `SLOWLOG GET`";
        report.warning(names::LATENCY, found, meaning, remedy);
    }
}

fn clock(ClockSample { ahead, within }: ClockSample, report: &mut Report) {
    let direction = if ahead < 0 { "behind" } else { "ahead of" };
    let millis = ahead.unsigned_abs() / 1000;
    let precision = within.as_secs_f64() * 1000.0;
    let value = if millis == 0 {
        format!("in step with this machine's (± {precision:.1} ms)")
    } else {
        format!("{millis} ms {direction} this machine's (± {precision:.1} ms)")
    };
    report.fact("clock", &value);
    let precision = i64::try_from(within.as_micros()).unwrap_or(i64::MAX);
    if ahead.saturating_abs().saturating_sub(precision) > APART {
        report.warning(
            names::CLOCK,
            format!("its clock is {value}"),
            "Leases do not depend on it, unless it is set while they are held. The ticks of \
             once_per, and fencing tokens after a restart or a failover, are by the server's \
             clock. Either of the two clocks may be the wrong one.",
            "Run NTP on both machines: `TIME` is the server's clock.",
        );
    }
}

fn slow_commands(info: &Info, report: &mut Report) {
    let mean = |calls: u64, micros: u64| micros.checked_div(calls).unwrap_or(0);
    let slow = info.commands().filter(|(_, calls, _)| *calls >= CALLS);
    let mut slow: Vec<_> = slow
        .map(|(command, calls, micros)| (mean(calls, micros), command, calls))
        .filter(|(mean, ..)| *mean >= SLOW_COMMAND)
        .collect();
    slow.sort_unstable();
    let Some((mean, command, calls)) = slow.pop() else { return };
    let command = command.replace('|', " ").to_uppercase();
    let found = format!("{calls} calls of {command} took {} ms on average", mean / 1000);
    let others = if slow.is_empty() {
        String::new()
    } else {
        format!("; {} more commands are slow", slow.len())
    };
    report.warning(
        names::SLOW_COMMANDS,
        found + &others,
        "While such a command runs, the server answers nobody: commands of locks wait, and may \
         run into their time limits.",
        "Find out who sends it: `SLOWLOG GET`, `CLIENT LIST`. Then start the count again: `CONFIG \
         RESETSTAT`",
    );
}

#[cfg(test)]
mod tests {
    use super::super::judge;
    use super::super::material::tests::said;
    use super::*;
    use crate::store::Severity::{self, Problem, Warning};

    fn checks(material: &Material) -> Vec<(&'static str, Severity)> {
        judge(material).findings.iter().map(|it| (it.check, it.severity)).collect()
    }

    #[test]
    fn the_median_counts() {
        let of = |millis: [u64; 3]| {
            let round_trips = millis.map(Duration::from_millis).into();
            checks(&Material { round_trips, ..said("", &[]) })
        };
        assert_eq!(of([1, 49, 400]), []);
        assert_eq!(of([1, 50, 51]), [("latency", Warning)]);
        assert_eq!(of([249, 249, 300]), [("latency", Warning)]);
        assert_eq!(of([1, 250, 300]), [("latency", Problem)]);
    }

    #[test]
    fn clocks_may_differ_by_a_second_and_the_precision() {
        let of = |ahead, millis| {
            let within = Duration::from_millis(millis);
            checks(&Material { clock: Some(ClockSample { ahead, within }), ..said("", &[]) })
        };
        assert_eq!(of(1_000_000, 0), []);
        assert_eq!(of(-1_900_000, 1_000), []);
        assert_eq!(of(1_000_001, 0), [("clock", Warning)]);
        assert_eq!(of(i64::MIN, 9), [("clock", Warning)]);
    }

    #[test]
    fn commands_that_are_slow_again_and_again_are_found() {
        let stat =
            |calls, usec: u64| said(&format!("cmdstat_keys:calls={calls},usec={usec}\n"), &[]);
        assert_eq!(checks(&stat(2, 900_000)), []);
        assert_eq!(checks(&stat(3, 149_999)), []);
        assert_eq!(checks(&stat(3, 150_000)), [("slow-commands", Warning)]);
    }
}
