//! A lease as its holder knows it: its phase, its deadlines and its loss. The guard, its
//! handles and the keeper share it.

mod context;
mod counted;
mod deadlines;
mod grant;
mod loss;
mod phase;
mod releasing;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tracing::span::Id;

pub(crate) use self::context::LeaseContext;
use self::deadlines::Deadlines;
#[cfg(feature = "redis")]
pub(crate) use self::deadlines::LONGEST_SLEEP;
pub(crate) use self::grant::{Grant, GrantTimes, Slot};
use self::phase::Phase;
use super::telemetry;
use crate::core::error::LossReason;
use crate::core::fence::Fence;
use crate::core::options::Options;
use crate::store::{Request, Success, TickTimes};

/// One lease, as its holder knows it.
#[derive(Debug)]
pub(crate) struct LocalLease {
    pub(crate) request: Request,
    pub(crate) fence: Option<Fence>,
    /// The tick, of work that is to succeed once in each.
    pub(crate) tick: Option<TickTimes>,
    /// How many ticks of a calendar have passed without a success. Others are counted by their period.
    #[cfg(feature = "calendar")]
    pub(crate) missed: OnceLock<u64>,
    /// Until when nobody gets the mutex after its release, because its work has failed.
    pub(crate) pause_until: OnceLock<Instant>,
    context: Arc<LeaseContext>,
    deadlines: Deadlines,
    /// The last renewal failed, or got no answer.
    is_suspect: AtomicBool,
    /// Shutdown no longer waits for this lease.
    is_counted_out: AtomicBool,
    /// The store may forget its request when it is released: see [`GrantTimes`].
    is_all_answered: bool,
    /// A command was sent that may have released it, so the next one may find nothing.
    may_be_released: AtomicBool,
    /// A newer acquisition may end it at any time.
    is_replaceable: bool,
    phase: Phase,
    #[cfg(feature = "metrics")]
    lasting: telemetry::LastingHold,
    changed: Notify,
    /// Its entry in the keeper's timetable, if it has one.
    pub(crate) slot: std::sync::Mutex<Option<Slot>>,
    /// The span in which it is held.
    pub(crate) hold: OnceLock<Id>,
}

impl LocalLease {
    /// The lease of a grant that this client has just received.
    pub(crate) fn new(context: &Arc<LeaseContext>, grant: Grant, options: &Options) -> Self {
        let Grant { request, fence, times, tick, place: _ } = grant;
        context.shutdown.lease_begins();
        telemetry::began(&request);
        let is_replaceable = options.replace && tick.is_none();
        let deadlines = Deadlines::new(times, request.ttl, options, || context.store.now());
        Self {
            request,
            fence,
            tick,
            #[cfg(feature = "calendar")]
            missed: OnceLock::new(),
            pause_until: OnceLock::new(),
            context: context.clone(),
            deadlines,
            is_suspect: AtomicBool::new(false),
            is_counted_out: AtomicBool::new(false),
            // Commands that mark it may arrive late.
            is_all_answered: times.is_all_answered && !is_replaceable,
            is_replaceable,
            may_be_released: AtomicBool::new(false),
            phase: Phase::default(),
            #[cfg(feature = "metrics")]
            lasting: telemetry::LastingHold::default(),
            changed: Notify::new(),
            slot: std::sync::Mutex::default(),
            hold: OnceLock::new(),
        }
    }

    /// When the keeper handles it for the first time.
    pub(crate) fn first_due(&self, times: GrantTimes) -> Instant {
        self.deadlines.first_due(times)
    }

    /// When the keeper handles it next, to renew or to end it, if its last command was sent at
    /// `sent`.
    pub(crate) fn next_due(&self, sent: Instant) -> Instant {
        self.deadlines.next_due(sent)
    }

    /// When the store last had it, at the latest as far as its deadline shows.
    #[cfg(feature = "redis")]
    pub(crate) fn confirmed(&self) -> Option<Instant> {
        self.deadlines.confirmed()
    }

    /// Returns true if the store only offered it, and no renewal has confirmed it yet.
    pub(crate) fn is_offer(&self) -> bool {
        self.deadlines.is_offer()
    }

    pub(crate) fn is_renewed(&self) -> bool {
        self.deadlines.is_renewed
    }

    /// Returns true if the keeper renews it when it is due. An offer is renewed once, to confirm
    /// it, even if the lease is not renewed after that, or if no renewal extends it.
    pub(crate) fn needs_renewal(&self) -> bool {
        self.is_offer() || self.is_renewed() && !self.is_final()
    }

    /// Returns true if no renewal can extend it any further.
    pub(crate) fn is_final(&self) -> bool {
        self.deadlines.is_final()
    }

    /// What a completion says of its work.
    pub(crate) fn success(&self) -> Success {
        Success { tick: self.tick, token: self.fence.map(Fence::get) }
    }

    /// The next renewal: when it is sent (now), and a request for the TTL or for the rest of
    /// `max_hold`. `None` if that rest is too short for a command.
    pub(crate) fn renewal(&self) -> Option<(Instant, Request)> {
        let now = self.context.store.now();
        let ttl = self.deadlines.next_ttl(now)?;
        Some((now, Request { ttl, ..self.request.clone() }))
    }

    /// When to release a lease that was held for its `max_hold`; `None` for any other lease.
    ///
    /// It is due at the end of `max_hold`, so that work has as long to stop as after any loss. A
    /// lock with `hold_at_least` left stays held anyway, so its release is sent earlier, at the
    /// deadline.
    pub(crate) fn release_due(&self) -> Option<Instant> {
        let end =
            if self.keep().is_zero() { self.deadlines.max_hold_until()? } else { self.deadline() };
        (self.loss() == Some(LossReason::MaxHold)).then_some(end)
    }

    /// How long the lock stays held after its release.
    pub(crate) fn keep(&self) -> Duration {
        // Most leases have no `hold_at_least`: they skip the clock.
        let is_kept = self.deadlines.is_kept();
        if is_kept { self.deadlines.keep(self.context.store.now()) } else { Duration::ZERO }
    }

    /// The options that are left for a process that adopts the lease.
    pub(crate) fn remaining_options(&self) -> Options {
        self.deadlines.remaining_options(self.context.store.now())
    }

    /// When the first ask was sent that got no answer, if there was one.
    pub(crate) fn unanswered_since(&self) -> Option<Instant> {
        self.deadlines.unanswered_since
    }

    /// Returns true if more fencing tokens may be reserved for its request.
    pub(crate) fn may_be_refilled(&self) -> bool {
        self.deadlines.may_be_refilled
    }

    /// The times for the next holder in this process, once this holder has ended the lease.
    /// `None` if the lease is to be released instead.
    pub(crate) fn times_to_hand_over(&self, now: Instant) -> Option<GrantTimes> {
        let is_sure =
            !self.is_suspect() && !self.is_replaceable && !self.context.shutdown.has_begun();
        self.deadlines.times_to_hand_over(now).filter(|_| is_sure)
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadlines.deadline()
    }

    pub(crate) fn remaining(&self) -> Duration {
        if self.is_held() {
            self.deadline().saturating_duration_since(self.context.store.now())
        } else {
            Duration::ZERO
        }
    }

    /// Returns true while it is held, by the local clock alone. Once the deadline was seen to
    /// have passed, no answer brings the lease back.
    pub(crate) fn is_held(&self) -> bool {
        self.phase.is_held() && self.is_held_at(self.context.store.now())
    }

    /// The same, for a caller that has just read the store's clock.
    pub(crate) fn is_held_at(&self, now: Instant) -> bool {
        if !self.phase.is_held() {
            return false;
        }
        if let Some(reason) = self.deadlines.end(now) {
            self.lose(reason);
        } else if self.context.shutdown.is_over() {
            self.lose(LossReason::ShutDown);
        }
        self.phase.is_held()
    }

    /// Returns true if a newer run is to take its place, and its holder has not released it yet: the store
    /// keeps it until then, or until its TTL is over after a shutdown.
    pub(crate) fn is_stopping(&self) -> bool {
        self.phase.lost() == Some(LossReason::Replaced) && !self.context.shutdown.is_over()
    }

    /// Returns true if it is to be renewed: its holder has it, or has not released it yet.
    pub(crate) fn is_held_or_stopping(&self) -> bool {
        self.is_held() || self.is_stopping()
    }

    /// Returns true if a newer acquisition may end it at any time.
    pub(crate) fn is_replaceable(&self) -> bool {
        self.is_replaceable
    }

    /// Returns true if the last renewal failed: the lease may already be lost on the store.
    pub(crate) fn is_suspect(&self) -> bool {
        self.is_suspect.load(Ordering::Acquire)
    }

    /// Returns true if its holder has begun to release it.
    pub(crate) fn has_ended(&self) -> bool {
        self.phase.has_ended()
    }

    /// How it was lost, if it was. The reason is final.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        self.is_held();
        if let Some(reason) = self.phase.not_held()
            && (self.context.store.now() >= self.deadline() || self.context.shutdown.is_over())
        {
            self.lose(reason);
        }
        self.phase.lost()
    }

    /// How it was lost, as far as is known by now.
    pub(crate) fn loss_so_far(&self) -> Option<LossReason> {
        self.is_held();
        self.phase.loss_so_far()
    }

    /// Extends the deadline: a renewal that was sent at `sent` has set this TTL.
    pub(crate) fn extend(&self, sent: Instant, ttl: Duration) {
        self.is_suspect.store(false, Ordering::Release);
        if self.is_held_or_stopping() {
            self.deadlines.extend(sent, ttl);
        }
    }

    /// Notes that a renewal failed, or got no answer.
    pub(crate) fn mark_suspect(&self) {
        self.is_suspect.store(true, Ordering::Release);
    }

    /// Tells shutdown, once, that the store has no such lease any more. `by_release` says
    /// whether a release ended it. False if it was told before.
    pub(crate) fn count_out(&self, by_release: bool) -> bool {
        let is_first = !self.is_counted_out.swap(true, Ordering::AcqRel);
        if is_first {
            self.context.shutdown.lease_ends(by_release);
        }
        is_first
    }

    /// Returns true if the store has no such lease any more.
    pub(crate) fn is_counted_out(&self) -> bool {
        self.is_counted_out.load(Ordering::Acquire)
    }

    /// Ends the lease because the store says that it is not held. The final reason may follow
    /// until the deadline. False if it was not held before.
    pub(crate) fn mark_not_held(&self, reason: LossReason) -> bool {
        let was_held = self.phase.mark_not_held(reason);
        if was_held {
            self.changed.notify_waiters();
        }
        if was_held || self.phase.lost().is_some() {
            self.count_out(false);
        }
        was_held
    }

    pub(crate) fn lose(&self, reason: LossReason) {
        if self.phase.lose(reason) {
            debug_assert!(self.phase.lost() == Some(reason), "it ends in two ways");
            self.changed.notify_waiters();
            // A shutdown waits until a release has ended it.
            if !reason.is_stored() {
                self.count_out(false);
            }
            self.count_end(Some(self.held(self.context.store.now())));
            telemetry::lost(&self.request, reason, self.hold.get());
        }
    }

    /// Begins its release: it is neither held nor lost from now on. False if it was lost
    /// before.
    pub(crate) fn begin_release(&self, now: Instant) -> bool {
        let has_begun = self.is_held_at(now) && self.phase.begin_release();
        if has_begun {
            self.changed.notify_waiters();
            self.count_end(Some(self.held(now)));
        }
        has_begun
    }
}

#[cfg(test)]
mod tests;
