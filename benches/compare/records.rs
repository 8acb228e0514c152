//! When each section began and ended, and what follows from it.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use crate::stats::{Spread, Times, real};

/// One stay under a lock, by the clock that all processes share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) process: usize,
    pub(crate) task: usize,
    /// Before it asked.
    pub(crate) asked: Duration,
    /// After it was let in.
    pub(crate) start: Duration,
    /// Before it began to leave.
    pub(crate) end: Duration,
}

/// The stays of all processes, by their start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records(Vec<Record>);

impl Records {
    pub(crate) fn new(mut records: Vec<Record>) -> Self {
        records.sort_unstable_by_key(|record| record.start);
        Self(records)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The greatest number that were inside at the same time.
    pub(crate) fn most_at_once(&self) -> usize {
        // A stay of no time counts as a nanosecond, or it would end before it begins.
        let least = Duration::from_nanos(1);
        let end = |record: &Record| record.end.max(record.start + least);
        let mut ends: Vec<_> = self.0.iter().map(end).collect();
        ends.sort_unstable();
        let (mut most, mut gone) = (0, 0);
        for (come, record) in self.0.iter().enumerate() {
            // A holder that leaves in the same nanosecond has left.
            while ends[gone] <= record.start && gone < come {
                gone += 1;
            }
            most = most.max(come + 1 - gone);
        }
        most
    }

    /// The stays that began in this time.
    pub(crate) fn within(&self, time: &Range<Duration>) -> Self {
        Self(self.0.iter().filter(|record| time.contains(&record.start)).copied().collect())
    }

    /// From asking to being let in.
    pub(crate) fn waits(&self) -> Times {
        self.0.iter().map(|record| record.start.saturating_sub(record.asked)).collect()
    }

    /// The mean time of a stay.
    pub(crate) fn mean_hold(&self) -> Duration {
        let sum: Duration =
            self.0.iter().map(|record| record.end.saturating_sub(record.start)).sum();
        sum.div_f64(real(self.len()).max(1.0))
    }

    /// The times from a release to the next grant, if that is in another process.
    pub(crate) fn hand_overs(&self) -> Times {
        let pairs = self.0.windows(2).filter(|pair| pair[0].process != pair[1].process);
        // A holder that came in before the other left did not get the lock from it.
        pairs.filter_map(|pair| pair[1].start.checked_sub(pair[0].end)).collect()
    }

    /// The greatest number of grants of one of `of` tasks, over the smallest. Infinite if a task
    /// had none.
    pub(crate) fn unfairness(&self, of: usize) -> f64 {
        let mut counts = HashMap::<_, usize>::new();
        for record in &self.0 {
            *counts.entry((record.process, record.task)).or_default() += 1;
        }
        if counts.len() < of {
            return f64::INFINITY;
        }
        let counts = Spread::of(counts.into_values().map(real));
        counts.most / counts.least
    }
}
