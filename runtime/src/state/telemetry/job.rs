//! What is told of jobs.

use std::time::{Duration, SystemTime};

/// How a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    Succeeded,
    /// It has succeeded, and it is not known whether the store has recorded that.
    NotRecorded,
    Failed,
    Panicked,
    Lost,
    Replaced,
}

impl Run {
    #[cfg(feature = "metrics")]
    fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::NotRecorded => "not_recorded",
            Self::Failed => "failed",
            Self::Panicked => "panicked",
            Self::Lost => "lost",
            Self::Replaced => "replaced",
        }
    }
}

/// Counts a run.
pub(crate) fn ran(lock: &'static str, run: Run) {
    #[cfg(feature = "metrics")]
    metrics::counter!("leasehold_job_runs_total", "lock" => lock, "outcome" => run.name())
        .increment(1);
}

/// Notes when a job last succeeded, in whatever process, and how long its ticks last.
pub(crate) fn succeeded(lock: &'static str, at: SystemTime, tick: Duration) {
    #[cfg(feature = "metrics")]
    {
        let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        metrics::gauge!("leasehold_job_last_success_seconds", "lock" => lock)
            .set(since.as_secs_f64());
        metrics::gauge!("leasehold_job_tick_seconds", "lock" => lock).set(tick.as_secs_f64());
    }
}
