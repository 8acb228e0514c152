//! A host and a server, each with a clock of its own.

use std::process::Command;
use std::time::{Duration, SystemTime};

use leasehold_tests::server::Server;
use leasehold_tests::skew::{Clock, micros};

use super::{Told, told};

/// A server and a host whose clocks the test sets.
pub(super) struct Clocked {
    pub(super) server: Server,
    host: Clock,
    /// By how many microseconds the server and the host are ahead of the real time.
    ahead: [i64; 2],
}

impl Clocked {
    pub(super) fn start() -> Self {
        Self { server: Server::start_skewed(), host: Clock::new(), ahead: [0; 2] }
    }

    /// Sets both clocks. They go on from there.
    pub(super) fn set(&mut self, server: Duration, host: Duration) {
        let now = micros(since_1970());
        let ahead = [server, host].map(|at| micros(at) - now);
        let by = ahead[0] - self.ahead[0];
        let time = Duration::from_micros(by.unsigned_abs());
        if by < 0 {
            self.server.jump_back(time);
        } else {
            self.server.jump(time);
        }
        self.host.jump(ahead[1] - self.ahead[1]);
        self.ahead = ahead;
    }

    /// Runs a command on the host to its end.
    pub(super) fn told(&self, command: &mut Command) -> Told {
        self.host.govern(command);
        told(command)
    }
}

/// The real time.
pub(super) fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970")
}
