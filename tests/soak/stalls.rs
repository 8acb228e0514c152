//! Notices that a process had no processor time. What is late then is no violation.

use std::thread;
use std::time::Duration;

use leasehold_history::Nanos;
use leasehold_tests::waiting::block_for;

use crate::clock::{nanos, now};

/// How long each look takes, and how much longer it may take.
const LOOK: Duration = Duration::from_millis(20);
const LATE: Duration = Duration::from_millis(200);

/// Calls `note` with the begin and the end of each stall, until the process ends.
pub(crate) fn watch(note: impl Fn(Nanos, Nanos) + Send + 'static) {
    thread::spawn(move || {
        let mut from = now();
        loop {
            block_for(LOOK);
            let to = now();
            if to - from > nanos(LOOK + LATE) {
                note(from, to);
            }
            from = to;
        }
    });
}
