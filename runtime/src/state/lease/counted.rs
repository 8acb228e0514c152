//! What the metrics are told of a lease.

use std::time::{Duration, Instant};

use super::LocalLease;
use crate::core::error::LossReason;
use crate::state::telemetry;

/// How long a hold goes on before the keeper shows it.
#[cfg(feature = "metrics")]
const LASTS: Duration = Duration::from_secs(1);

/// A lease that the keeper handles later than this for the first time is shown at once.
#[cfg(feature = "metrics")]
const HANDLED_LATE: Duration = Duration::from_secs(30);

impl LocalLease {
    pub(super) fn held(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.deadlines.start)
    }

    /// Counts that its hold has ended: by a release, or with a loss. Without a time, nobody has had it.
    pub(super) fn count_end(&self, held: Option<Duration>) {
        #[cfg(feature = "metrics")]
        self.lasting.end(&self.request);
        telemetry::ended(&self.request, held);
    }

    /// Ends it if it was over before its caller could get it: it counts as neither held nor lost.
    pub(crate) fn was_over(&self, now: Instant) -> bool {
        let end = self.deadlines.end(now).filter(|reason| self.phase.lose(*reason));
        if end.is_some_and(|reason| !reason.is_stored()) {
            self.count_out(false);
        }
        end.inspect(|_| self.count_end(None)).is_some()
    }

    /// Counts and logs a loss that the store told its release: its holder had it to the end, as far as
    /// was known here.
    pub(crate) fn tell_late_loss(&self, reason: LossReason) {
        telemetry::lost(&self.request, reason, self.hold.get());
    }

    /// Shows at once a hold that the keeper would see late: of a long TTL, or without renewals.
    #[cfg(feature = "metrics")]
    pub(crate) fn show_if_handled_late(&self) {
        let start = self.deadlines.start;
        if self.deadlines.next_due(start).saturating_duration_since(start) > HANDLED_LATE {
            self.lasting.show(&self.request, Duration::ZERO);
        }
    }

    /// Shows a hold that has lasted for a while. The keeper says so when it handles it.
    #[cfg(feature = "metrics")]
    pub(crate) fn show_if_it_lasts(&self) {
        if self.lasting.is_new() {
            let held = self.held(self.context.store.now());
            if held >= LASTS {
                self.lasting.show(&self.request, held);
            }
        }
    }

    /// Counts a renewal that was sent at `sent`. It is late if its answer came in the last third
    /// of the TTL. An offer never has so much left: its confirmation is not late.
    pub(crate) fn count_renewal(&self, sent: Instant, outcome: &'static str) {
        let now = self.context.store.now();
        let left = self.deadline().saturating_duration_since(now);
        let may_be_late = self.is_renewed() && !self.is_final() && !self.is_offer();
        let is_late = may_be_late && left < self.request.ttl / 3;
        telemetry::renewal(&self.request, outcome, now.saturating_duration_since(sent), is_late);
    }
}
