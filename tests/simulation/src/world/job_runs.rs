//! The runs of jobs, as their processes know them, and the ticks that have had no success in time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::network::Micros;

/// A run of a job.
#[derive(Clone, Debug)]
pub(super) struct JobRun {
    pub(super) process: String,
    id: String,
    /// By the server's clock, since 1970.
    granted: Micros,
    pub(super) begun: Micros,
    ended: Option<Micros>,
    has_succeeded: bool,
}

impl JobRun {
    pub(super) fn begins(process: &str, id: String, granted: SystemTime, begun: Micros) -> Self {
        let granted = granted.duration_since(UNIX_EPOCH).unwrap_or_default();
        let process = process.to_owned();
        Self { process, id, granted: micros(granted), begun, ended: None, has_succeeded: false }
    }
}

pub(super) fn micros(time: Duration) -> Micros {
    Micros::try_from(time.as_micros()).expect("it is no longer than a world")
}

/// All runs, in their order.
#[derive(Debug, Default)]
pub(super) struct JobRuns(Vec<JobRun>);

impl JobRuns {
    pub(super) fn add(&mut self, run: JobRun) {
        self.0.push(run);
    }

    fn of(&mut self, id: &str) -> Option<&mut JobRun> {
        self.0.iter_mut().rev().find(|run| run.id == id)
    }

    /// A run returns, and is a success or not.
    pub(super) fn says(&mut self, id: &str, has_succeeded: bool) {
        if let Some(run) = self.of(id) {
            run.has_succeeded = has_succeeded;
        }
    }

    /// A run is over. That of a process that dies never is.
    pub(super) fn ends(&mut self, id: &str, at: Micros) {
        if let Some(run) = self.of(id) {
            run.ended = Some(at);
        }
    }

    /// How many a process has begun.
    pub(super) fn begun_by(&self, process: &str) -> usize {
        self.0.iter().filter(|run| run.process == process).count()
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// True if a process is in the middle of a run.
    pub(super) fn is_running(&self, process: &str) -> bool {
        self.0.iter().any(|run| run.process == process && run.ended.is_none())
    }

    /// The first run that has begun in this time.
    pub(super) fn first(&self, from: Micros, to: Micros) -> Option<&JobRun> {
        self.0.iter().find(|run| (from..=to).contains(&run.begun))
    }

    /// The ticks of a period; of each that has had no success within the bound, what is wrong, in words. For all
    /// this time, processes were there that could run them. A tick that is over before has no bound, and is left
    /// out.
    pub(super) fn ticks(
        &self,
        period: Duration,
        (from, to): (Micros, Micros),
        bound: Duration,
    ) -> Vec<Option<String>> {
        let Some(first) = self.first(from, to) else {
            return vec![Some(format!("no job has run within {} s", (to - from) / 1_000_000))];
        };
        let (period, bound) = (micros(period), micros(bound));
        // By how much the server's clock differs; an answer travels for some milliseconds.
        let ahead = first.granted.saturating_sub(first.begun);
        let (from, to) = (from + ahead, to + ahead);
        let mut ticks = Vec::new();
        let mut tick = from / period * period;
        while tick < to {
            let until = tick.max(from) + bound;
            let counts = |run: &&JobRun| {
                let in_time = run.ended.is_some_and(|at| at + ahead <= until);
                run.has_succeeded && in_time && (tick..tick + period).contains(&run.granted)
            };
            if until <= to.min(tick + period) {
                let is_missed = !self.0.iter().any(|run| counts(&run));
                ticks.push(is_missed.then(|| {
                    format!(
                        "a job of {} s has no success {} ms after its tick began",
                        period / 1_000_000,
                        (until - tick) / 1_000
                    )
                }));
            }
            tick += period;
        }
        ticks
    }
}
