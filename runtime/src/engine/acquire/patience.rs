//! How long the acquisition of a set goes on, and its pauses.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::schedule::AskSchedule;
use crate::client::not_granted::NotGranted;
use crate::core::error::LockError;
use crate::core::options::Options;
use crate::engine::shared::Shared;
use crate::state::telemetry::MeasuredAttempt;
use crate::store::RequestSpec;

/// The caller's options, and when the acquisition began.
pub(super) struct Patience<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) options: Options,
    pub(super) schedule: AskSchedule,
    begun: Instant,
}

impl<'a> Patience<'a> {
    pub(super) fn new(shared: &'a Arc<Shared>, options: Options) -> Self {
        let begun = shared.client.store.now();
        Self { shared, options, schedule: AskSchedule::new(begun, options.wait), begun }
    }

    /// Pauses before the next attempt, if there is time left.
    pub(super) async fn pause(
        &mut self,
        refusal: NotGranted,
        spec: &RequestSpec,
    ) -> Result<(), LockError> {
        let Some(pause) = self.schedule.next(self.shared.client.store.now(), &refusal, true) else {
            let error = self.schedule.error(refusal, spec.key.clone());
            return self.give_up(spec, error);
        };
        // A try needs no timer.
        if !pause.is_zero() {
            tokio::select! {
                () = sleep(pause) => {}
                () = self.shared.client.keeper.shutdown.begun() => return Err(LockError::ShutDown),
            }
        }
        Ok(())
    }

    /// Counts an attempt that failed because of this lock or rate.
    pub(super) fn give_up<T>(&self, spec: &RequestSpec, error: LockError) -> Result<T, LockError> {
        let refused = Err(error);
        MeasuredAttempt::new(spec.kind, &spec.key).end(|| self.waited(), &refused);
        refused
    }

    /// Counts an attempt that was granted.
    pub(super) fn count(&self, specs: &[RequestSpec]) {
        let waited = self.waited();
        for spec in specs {
            MeasuredAttempt::new(spec.kind, &spec.key).end(|| waited, &Ok(()));
        }
    }

    pub(super) fn waited(&self) -> Duration {
        self.shared.client.elapsed(self.begun)
    }
}
