//! The guide's line for cron, on hosts whose clocks differ from the server's.

use std::time::{Duration, SystemTime};

use leasehold_tests::server::Server;
use leasehold_tests::skew::micros;

use super::{told, with};

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

/// A server with a clock that the test sets.
struct Clocked {
    server: Server,
    ahead: i64,
}

impl Clocked {
    /// Sets the server's clock. It goes on from there.
    fn set(&mut self, at: Duration) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let ahead = micros(at) - micros(now);
        let by = ahead - self.ahead;
        let time = Duration::from_micros(by.unsigned_abs());
        if by < 0 {
            self.server.jump_back(time);
        } else {
            self.server.jump(time);
        }
        self.ahead = ahead;
    }

    /// What a host's cron does at this time of the server: the exit code, and the period that the
    /// command was told.
    fn cron(&mut self, at: Duration) -> (i32, String) {
        self.set(at);
        let mut command = with(&self.server, &options());
        let told = told(command.args(["--", "sh", "-c", "echo $LEASEHOLD_TICK"]));
        assert_eq!(told.err, "", "{told:?}");
        (told.code, told.out.trim().to_owned())
    }
}

#[test]
fn no_run_is_lost_or_doubled_by_a_clock_that_differs() {
    let mut hosts = Clocked { server: Server::start_skewed(), ahead: 0 };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let mut hour = Duration::from_secs(now / 3600 * 3600) + HOUR;
    let (code, mut period) = hosts.cron(hour + SECOND);
    assert_eq!(code, 0);
    for is_ahead in [true, true, false, true, false, false] {
        hour += HOUR;
        let (code, next) = hosts.cron(if is_ahead { hour.abs_diff(SECOND) } else { hour + SECOND });
        assert_eq!(code, 0, "this hour has had no run");
        assert!(next > period && next.ends_with(":00:00.000Z"), "{next} after {period}");
        period = next;
        // Another host, whose clock is later.
        assert_eq!(hosts.cron(hour + SECOND * 2), (122, String::new()));
    }
}
