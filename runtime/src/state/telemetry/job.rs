//! What is told of jobs.

use std::time::{Duration, SystemTime};

#[cfg(feature = "metrics")]
use crate::system;

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

/// A run that is under way, until it is dropped.
pub(crate) struct UnderWay {
    #[cfg(feature = "metrics")]
    lock: &'static str,
}

impl UnderWay {
    /// A run that begins now, by this machine's clock.
    pub(crate) fn begin(lock: &'static str) -> Self {
        #[cfg(feature = "metrics")]
        {
            running_since(lock, system::wall_clock());
            Self { lock }
        }
        #[cfg(not(feature = "metrics"))]
        {
            let _ = lock;
            Self {}
        }
    }
}

#[cfg(feature = "metrics")]
impl Drop for UnderWay {
    fn drop(&mut self) {
        running_since(self.lock, Duration::ZERO);
    }
}

#[cfg(feature = "metrics")]
fn running_since(lock: &'static str, time: Duration) {
    metrics::gauge!("leasehold_job_running_since_seconds", "lock" => lock).set(time.as_secs_f64());
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
