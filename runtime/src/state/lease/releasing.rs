//! Releases on their way. A future may be dropped before its answer is here, so the next release may find
//! that nobody holds the lock. That is no loss.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::LocalLease;
use crate::core::error::{LossReason, Outcome};
use crate::store::{Ask, Ended, Kind, Reply, StoreError};

/// A command that may release a lease, and has not been answered.
#[must_use = "a release whose answer nobody notes counts as one that may have taken effect"]
pub(crate) struct UnansweredRelease<'a> {
    local: &'a LocalLease,
    /// No command before it may have released the lease.
    is_first: bool,
}

impl LocalLease {
    /// Sends its release. If it was held to its end, the rest of `hold_at_least` stays. The store
    /// may forget the request then, if nothing of it can arrive late.
    ///
    /// The answer is [`Ended::Released`] also where an earlier release without an answer did it.
    pub(crate) fn send_release(
        &self,
        was_held: bool,
    ) -> impl Future<Output = Result<Ended, StoreError>> {
        let sent = self.begin_to_send_release();
        let answer = self.release_command(was_held);
        async move { sent.answered(answer.await) }
    }

    fn release_command(&self, was_held: bool) -> Reply<Ended> {
        let (store, request) = (&self.context.store, &self.request);
        let keep = if was_held { self.keep().max(self.pause_left()) } else { Duration::ZERO };
        let may_forget = was_held && keep.is_zero() && request.kind == Kind::Mutex;
        if may_forget && self.is_all_answered {
            return store.release_and_forget(request);
        }
        store.release(request, keep)
    }

    fn pause_left(&self) -> Duration {
        let left = |until: &Instant| until.saturating_duration_since(self.context.store.now());
        self.pause_until.get().map_or(Duration::ZERO, left)
    }

    /// Says that a command is sent from now on that may release it.
    pub(crate) fn begin_to_send_release(&self) -> UnansweredRelease<'_> {
        let is_first = !self.may_be_released.swap(true, Ordering::AcqRel);
        UnansweredRelease { local: self, is_first }
    }

    /// Returns true if the store is not known to have taken it away.
    fn may_be_stored(&self) -> bool {
        self.loss_so_far().is_none_or(LossReason::is_stored)
    }
}

impl UnansweredRelease<'_> {
    /// Notes the answer, and says what it means.
    pub(crate) fn answered(self, answer: Result<Ended, StoreError>) -> Result<Ended, StoreError> {
        match answer.inspect_err(|error| self.failed(error))? {
            // One before this has released it.
            Ended::NotHeld(_) if !self.is_first && self.local.may_be_stored() => {
                Ok(Ended::Released)
            }
            answer => Ok(answer),
        }
    }

    /// Notes that the command has failed.
    pub(crate) fn failed(&self, error: &StoreError) {
        if error.outcome == Outcome::Unknown {
            // Another that has not run may have taken this back meanwhile.
            self.local.may_be_released.store(true, Ordering::Release);
        } else {
            self.not_sent();
        }
    }

    /// Notes that the command was not sent.
    pub(crate) fn not_sent(&self) {
        if self.is_first {
            self.local.may_be_released.store(false, Ordering::Release);
        }
    }

    /// Returns true if no command before it may have released the lease.
    pub(crate) fn is_first(&self) -> bool {
        self.is_first
    }
}
