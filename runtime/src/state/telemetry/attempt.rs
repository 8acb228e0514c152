//! What is told of an acquisition.

use std::time::{Duration, Instant};

use tracing::Span;
use tracing::field::Empty;

#[cfg(feature = "metrics")]
use super::label::of_lock;
use super::label::{SPANS, Subject, kind_name};
#[cfg(feature = "metrics")]
use super::lasting::LastingWait;
use crate::core::error::LockError;
use crate::core::key::LockKey;

/// How long a wait in this process goes on before it is shown.
pub(crate) const SHOWN_AFTER: Duration =
    if cfg!(feature = "metrics") { Duration::from_secs(1) } else { Duration::MAX };

/// An acquisition under way. One that is dropped without a result was cancelled.
pub(crate) struct MeasuredAttempt {
    span: Span,
    #[cfg(feature = "metrics")]
    counted_as: (Subject, Option<&'static str>),
    #[cfg(feature = "metrics")]
    wait: LastingWait,
    has_ended: bool,
}

impl MeasuredAttempt {
    pub(crate) fn new(of: impl Into<Subject>, key: &LockKey) -> Self {
        let (kind, label) = (of.into(), key.label());
        #[cfg(feature = "metrics")]
        of_lock!(gauge, "leasehold_waiting", kind, label).increment(1);
        let span = tracing::debug_span!(
            target: SPANS,
            "leasehold.acquire",
            kind = kind_name(kind),
            lock = key.log_label(),
            outcome = Empty,
            error.r#type = Empty,
        );
        Self {
            span,
            #[cfg(feature = "metrics")]
            counted_as: (kind, label),
            #[cfg(feature = "metrics")]
            wait: LastingWait::default(),
            has_ended: false,
        }
    }

    /// Its span, for the future that acquires.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Counts its result.
    pub(crate) fn end<T>(
        mut self,
        waited: impl FnOnce() -> Duration,
        result: &Result<T, LockError>,
    ) {
        let outcome = match result {
            Ok(_) => {
                #[cfg(feature = "metrics")]
                {
                    let (kind, label) = self.counted_as;
                    of_lock!(histogram, "leasehold_wait_seconds", kind, label).record(waited());
                }
                tracing::debug!(target: SPANS, parent: &self.span, "granted");
                "acquired"
            }
            Err(LockError::Busy { .. } | LockError::TimedOut { .. }) => "held",
            Err(LockError::Done { .. }) => "done",
            Err(LockError::Closed { .. }) => "closed",
            Err(LockError::RateLimited { .. }) => "rate_limited",
            Err(_) => "failed",
        };
        self.note(outcome);
    }

    fn note(&mut self, outcome: &'static str) {
        self.has_ended = true;
        self.waits_no_more();
        self.span.record("outcome", outcome);
        // OpenTelemetry's word for it. That others hold a lock is no error.
        if outcome == "failed" {
            self.span.record("error.type", outcome);
        }
        #[cfg(feature = "metrics")]
        {
            let (kind, label) = self.counted_as;
            of_lock!(gauge, "leasehold_waiting", kind, label).decrement(1);
            of_lock!(
                counter, "leasehold_acquisitions_total", kind, label, "outcome" => outcome
            )
            .increment(1);
        }
    }
}

#[cfg_attr(not(feature = "metrics"), expect(clippy::unused_self, reason = "nothing is shown then"))]
impl MeasuredAttempt {
    /// Notes when its caller began to wait. Without this, its wait is never shown.
    pub(crate) fn may_wait(&mut self, begun: Instant) {
        #[cfg(feature = "metrics")]
        {
            self.wait.begun = Some(begun);
        }
    }

    /// Shows its wait from now on, until it ends.
    pub(crate) fn waits(&mut self, now: impl FnOnce() -> Instant) {
        #[cfg(feature = "metrics")]
        self.wait.show(self.counted_as, now);
    }

    /// Shows its wait no more.
    pub(crate) fn waits_no_more(&mut self) {
        #[cfg(feature = "metrics")]
        self.wait.hide(self.counted_as);
    }
}

impl Drop for MeasuredAttempt {
    fn drop(&mut self) {
        if !self.has_ended {
            self.note("cancelled");
        }
    }
}

/// Notes in the span of the acquisition that it waits for others.
pub(crate) fn queued() {
    tracing::debug!(target: SPANS, "queued");
}
