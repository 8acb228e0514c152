//! The guide's line for cron, on hosts whose clocks differ from the server's.

use std::time::Duration;

use super::clocked::{Clocked, since_1970};
use super::with;

const GUIDE: &str = include_str!("../../../docs/guide/command-line.md");
const HOUR: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);

/// The options in the guide's line.
fn options() -> Vec<&'static str> {
    let line = GUIDE.lines().find_map(|line| line.strip_prefix("0 * * * * leasehold ")).unwrap();
    let (options, command) = line.split_once(" -- ").expect("a command");
    assert!(options.contains("--once-per 1h") && command == "/usr/local/bin/report", "{line}");
    options.split(' ').collect()
}

/// What a host's cron does at this time of the server, when the host's own clock says the full
/// hour: the exit code, and the period that the command was told.
fn cron(hosts: &mut Clocked, at: Duration, hour: Duration) -> (i32, String) {
    hosts.set(at, hour);
    let mut command = with(&hosts.server, &options());
    let told = hosts.told(command.args(["--", "sh", "-c", "echo $LEASEHOLD_TICK"]));
    assert_eq!(told.err, "", "{told:?}");
    (told.code, told.out.trim().to_owned())
}

#[test]
fn no_run_is_lost_or_doubled_by_a_clock_that_differs() {
    let mut hosts = Clocked::start();
    let mut hour = Duration::from_secs(since_1970().as_secs() / 3600 * 3600) + HOUR;
    let (code, mut period) = cron(&mut hosts, hour + SECOND, hour);
    assert_eq!(code, 0);
    for is_ahead in [true, true, false, true, false, false] {
        hour += HOUR;
        let at = if is_ahead { hour.abs_diff(SECOND) } else { hour + SECOND };
        let (code, next) = cron(&mut hosts, at, hour);
        assert_eq!(code, 0, "this hour has had no run");
        assert!(next > period && next.ends_with(":00:00.000Z"), "{next} after {period}");
        period = next;
        // Another host, whose clock is later.
        assert_eq!(cron(&mut hosts, hour + SECOND * 2, hour), (122, String::new()));
    }
}
