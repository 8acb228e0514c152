//! Whether this machine's clock fits the server's, which decides about ticks.
//!
//! Cron goes by this machine's clock. If that is ahead, a call that is meant for a tick comes in the
//! one before, which another machine may have done: it waits for its tick, or is skipped.

use std::time::{Duration, SystemTime};

use leasehold::{Lease, LockError};

use super::super::args::{Run, Waiting};
use super::super::text::short;

/// Less is not worth a word: clocks differ by some milliseconds even with NTP.
const LEAST: Duration = Duration::from_secs(1);

/// What a call and its answer say about both clocks.
#[derive(Debug)]
struct Times {
    /// When the call began and was answered, by this machine's clock. The server decided in between.
    call: SystemTime,
    answer: SystemTime,
    /// When the server decided, by its own clock.
    server: SystemTime,
    /// When the next tick begins on the server, if the call was skipped.
    next: Option<SystemTime>,
}

/// A warning if the clocks differ by more than the call bears. The call began at this time.
pub(super) fn warning(
    run: &Run,
    call: SystemTime,
    acquired: &Result<Lease, LockError>,
) -> Option<String> {
    if run.once_per.is_none() && run.schedule.is_none() {
        return None;
    }
    let (server, next) = match acquired {
        Ok(lease) => (lease.tick()?.granted, None),
        Err(LockError::Done { until, retry_after, .. }) => {
            (until.checked_sub(*retry_after)?, Some(*until))
        }
        Err(_) => return None,
    };
    Times { call, answer: SystemTime::now(), server, next }.judge(run.wait)
}

impl Times {
    fn judge(&self, wait: Waiting) -> Option<String> {
        let Waiting::For(wait) = wait else {
            return None; // It waits for each tick that has not begun.
        };
        let tolerated = wait.max(LEAST);
        // By as much at least, however long the answer took.
        let ahead = self.call.duration_since(self.server).unwrap_or_default();
        let behind = self.server.duration_since(self.answer).unwrap_or_default();
        // By this machine's clock, the call came in the next tick.
        let missed = self.next.filter(|next| self.call >= *next);
        if let Some(left) = missed.and_then(|next| next.duration_since(self.server).ok()) {
            return Some(format!(
                "this machine's clock is {} ahead of the server's: on the server, the tick of this \
                 call begins in {}, and the call was skipped; run NTP on both machines, or let \
                 `--wait` be longer than the difference",
                short(ahead),
                short(left),
            ));
        }
        if ahead > tolerated {
            return Some(format!(
                "this machine's clock is {} ahead of the server's, which is more than `--wait` \
                 bears: a call at the beginning of a tick comes too early, and may be skipped; run \
                 NTP on both machines, or let `--wait` be longer than the difference",
                short(ahead),
            ));
        }
        (behind > tolerated).then(|| {
            format!(
                "this machine's clock is {} behind the server's: calls come that much late, and \
                 none is lost; run NTP on both machines",
                short(behind),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// What is said about a call at this time, and an answer at that time of the server, a moment
    /// later; times are in milliseconds. It was skipped if `next` is there.
    fn said(wait: u64, call: u64, server: u64, next: Option<u64>) -> String {
        let at = |time| SystemTime::UNIX_EPOCH + millis(time);
        let times =
            Times { call: at(call), answer: at(call + 5), server: at(server), next: next.map(at) };
        times.judge(Waiting::For(millis(wait))).unwrap_or_default()
    }

    #[test]
    fn a_skipped_call_of_a_tick_to_come_is_told() {
        let text = said(0, 60_000, 59_800, Some(60_000));
        assert!(text.contains(" is 0.2s ahead") && text.contains("begins in 0.2s"), "{text}");
        // It waited, but not for long enough.
        let text = said(5_000, 60_000, 40_000, Some(60_000));
        assert!(text.contains(" is 20s ahead") && text.contains("begins in 20s"), "{text}");
        // Another has done the tick that this call is for.
        assert_eq!(said(0, 60_000, 60_000, Some(120_000)), "");
        assert_eq!(said(0, 59_999, 59_800, Some(60_000)), "");
    }

    #[test]
    fn what_the_wait_bears_is_not_told() {
        for (wait, bears) in [(0, 1_000), (500, 1_000), (3_000, 3_000)] {
            let at = 600_000;
            for next in [None, Some(1_200_000)] {
                assert_eq!(said(wait, at + bears, at, next), "");
                assert!(said(wait, at + bears + 1, at, next).contains("ahead"), "{wait}");
                assert_eq!(said(wait, at, at + bears + 5, next), "");
                assert!(said(wait, at, at + bears + 6, next).contains("behind"), "{wait}");
            }
        }
    }

    #[test]
    fn a_call_that_waits_forever_bears_all() {
        let start = SystemTime::UNIX_EPOCH;
        let times =
            Times { call: start + millis(90_000), answer: start, server: start, next: None };
        assert_eq!(times.judge(Waiting::Forever), None);
    }
}
