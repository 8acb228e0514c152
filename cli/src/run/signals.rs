//! The signals that end a command, or mean something to it.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// The signals that `run` passes on to its command.
pub(super) const PASSED_ON: [Signal; 6] =
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// The signals that this process handles instead of dying of them.
#[derive(Debug)]
pub(super) struct Signals {
    all: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// Handles these signals. Those that this process ignores, it goes on to ignore, and so does
    /// the command: `nohup` says so with HUP.
    pub(super) fn handle(signals: &[Signal]) -> io::Result<Self> {
        let ignored = ignored();
        let mut all = Vec::new();
        for &each in signals {
            if ignored & (1 << (each.as_raw() - 1)) == 0 {
                all.push((each, signal(SignalKind::from_raw(each.as_raw()))?));
            }
        }
        Ok(Self { all })
    }

    /// The next signal.
    pub(super) async fn recv(&mut self) -> Signal {
        poll_fn(|cx| {
            for (each, stream) in &mut self.all {
                if stream.poll_recv(cx).is_ready() {
                    return Poll::Ready(*each);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// The signals that this process ignores, a bit for each; where the system does not say so, none.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
