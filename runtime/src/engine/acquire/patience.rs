//! How long the acquisition of a set goes on, and its pauses.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::schedule::AskSchedule;
use crate::client::not_granted::NotGranted;
use crate::core::error::LockError;
use crate::core::key::LockKey;
use crate::core::options::Options;
use crate::engine::shared::Shared;
use crate::state::telemetry::{MeasuredAttempt, Subject};
use crate::store::{RequestSpec, TakeSpec};

/// A lock or a rate that an acquisition is about.
#[derive(Clone, Copy)]
pub(super) struct Of<'a> {
    kind: Subject,
    pub(super) key: &'a LockKey,
}

impl<'a> From<&'a RequestSpec> for Of<'a> {
    fn from(spec: &'a RequestSpec) -> Self {
        Self { kind: spec.kind.into(), key: &spec.key }
    }
}

impl<'a> From<&'a TakeSpec> for Of<'a> {
    fn from(spec: &'a TakeSpec) -> Self {
        Self { kind: Subject::Rate, key: &spec.key }
    }
}

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
    pub(super) async fn pause(&mut self, refusal: NotGranted, of: Of<'_>) -> Result<(), LockError> {
        let Some(pause) = self.schedule.next(self.shared.client.store.now(), &refusal, true) else {
            let error = self.schedule.error(refusal, of.key.clone());
            return self.give_up(of, error);
        };
        // A try needs no timer.
        if pause.is_zero() { Ok(()) } else { self.sleep(pause, of).await }
    }

    /// Sleeps, unless the client is shut down first.
    pub(super) async fn sleep(&self, time: Duration, of: Of<'_>) -> Result<(), LockError> {
        let slept = async {
            tokio::select! {
                biased;
                () = sleep(time) => Ok(()),
                () = self.shared.client.keeper.shutdown.begun() => Err(LockError::ShutDown),
            }
        };
        let slept = UnderWay(Some(of)).until(slept).await;
        slept.or_else(|error| self.give_up(of, error))
    }

    /// Counts an attempt that failed because of this lock or rate.
    pub(super) fn give_up<T>(&self, of: Of<'_>, error: LockError) -> Result<T, LockError> {
        let refused = Err(error);
        MeasuredAttempt::new(of.kind, of.key).end(|| self.waited(), &refused);
        refused
    }

    /// Counts an attempt that was granted.
    pub(super) fn count<'s>(&self, all: impl IntoIterator<Item: Into<Of<'s>>>) {
        let waited = self.waited();
        for of in all {
            let of = of.into();
            MeasuredAttempt::new(of.kind, of.key).end(|| waited, &Ok(()));
        }
    }

    pub(super) fn waited(&self) -> Duration {
        self.shared.client.elapsed(self.begun)
    }
}

/// A part of an acquisition. If it is dropped before its end, that counts as cancelled.
pub(super) struct UnderWay<'a>(pub(super) Option<Of<'a>>);

impl UnderWay<'_> {
    pub(super) async fn until<T>(mut self, ended: impl Future<Output = T>) -> T {
        let ended = ended.await;
        self.0 = None;
        ended
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(of) = self.0 {
            drop(MeasuredAttempt::new(of.kind, of.key));
        }
    }
}
