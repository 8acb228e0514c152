//! One run of a job, and what its end means.

use std::fmt::Display;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant, SystemTime};

use futures_util::FutureExt;

use super::next::{FailurePause, MARGIN, until_tick_ends};
use super::{Job, SoFar};
use crate::core::error::{LockError, LossReason, Quiet};
use crate::engine::lease::{Lease, LeaseHandle};
use crate::state::telemetry::job::{Run, UnderWay, ran};
use crate::system;

impl Job {
    /// Runs the work under a lease of the present tick that was asked for at `begun`. Returns how long to
    /// wait before the next question.
    pub(super) async fn run_once<W, E>(
        &self,
        (lease, begun): (Lease, Instant),
        work: &mut impl FnMut(LeaseHandle) -> W,
        so_far: &mut SoFar,
    ) -> Result<Duration, LockError>
    where
        W: Future<Output = Result<(), E>>,
        E: Display,
    {
        let (lock, handle) = (lease.key().log_label(), lease.handle());
        let _under_way = UnderWay::begin(lock);
        // The first call of `work` may panic, too.
        let working = AssertUnwindSafe(async { work(handle).await }).catch_unwind();
        let (run, problem) = match lease.run(Box::pin(working)).await {
            Ok(Ok(Ok(()))) => {
                let left = self.tick_left(&lease, begun);
                let lease_tick = lease.tick();
                match lease.complete().await {
                    Ok(()) => {
                        so_far.failures = FailurePause::of(self.retry);
                        ran(lock, Run::Succeeded);
                        self.note_success(so_far, SystemTime::UNIX_EPOCH + system::wall_clock());
                        return Ok(until_tick_ends(left, self.spread()));
                    }
                    // The keeper goes on, or another process has the tick.
                    Err(error) => {
                        if matches!(error, LockError::Lost { reason: LossReason::Replaced, .. }) {
                            so_far.replaced = lease_tick;
                        }
                        ran(lock, Run::NotRecorded);
                        let error = Quiet(&error);
                        tracing::warn!(lock, %error, "a job has succeeded, and it is not known whether that counts as done");
                        return Ok(so_far.failures.next().min(left));
                    }
                }
            }
            Ok(Ok(Err(error))) => (Run::Failed, error.to_string()),
            Ok(Err(_)) => (Run::Panicked, "it panicked".to_owned()),
            // Its tick is over, and the next one is asked for at once.
            Err(LockError::Lost { reason: LossReason::Replaced, .. }) => {
                ran(lock, Run::Replaced);
                so_far.replaced = lease.tick();
                tracing::warn!(lock, "a run of a job was stopped at the end of its tick");
                return Ok(until_tick_ends(Duration::ZERO, self.spread()));
            }
            Err(LockError::Lost { reason: LossReason::ShutDown, .. }) => {
                ran(lock, Run::Lost);
                return Err(LockError::ShutDown);
            }
            Err(error @ LockError::Lost { .. }) => (Run::Lost, Quiet(&error).to_string()),
            Err(error) => return Err(error),
        };
        // The next tick is not held up.
        let pause = so_far.failures.next().min(self.tick_left(&lease, begun) + MARGIN);
        ran(lock, run);
        tracing::warn!(
            lock,
            error = problem,
            ?pause,
            "a job failed; it is run again after a pause"
        );
        if !matches!(run, Run::Lost) {
            let _ = lease.release_and_keep(pause).await;
        }
        Ok(pause)
    }
}
