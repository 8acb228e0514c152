//! What users' metrics and traces are told: metrics through the `metrics` facade, spans through
//! `tracing`.
//!
#![doc = include_str!("../metrics.md")]
//!
//! `kind` is `mutex`, `reentrant_mutex`, `semaphore`, `read`, `write` or `rate`. `lock` is the label that
//! the code gives a lock. No label has the name of a lock: there may be too many of them, and
//! they may be personal.
//!
//! Without the feature `metrics` the functions count nothing and read no clock.
#![cfg_attr(not(feature = "metrics"), allow(unused_variables, reason = "they do nothing then"))]

mod attempt;
mod hold;
pub(crate) mod job;
mod label;
#[cfg(feature = "metrics")]
mod lasting;
#[cfg(feature = "metrics")]
mod names;
#[cfg(feature = "metrics")]
mod since;

use std::time::Duration;

use tracing::span::Id;

pub(crate) use self::attempt::{MeasuredAttempt, SHOWN_AFTER, queued};
pub(crate) use self::hold::Hold;
pub(crate) use self::label::Subject;
#[cfg(feature = "metrics")]
use self::label::of_lock;
#[cfg(feature = "metrics")]
pub(crate) use self::lasting::LastingHold;
use crate::core::error::LossReason;
use crate::store::{Kind, Request};

/// Describes all metrics to the recorder that is installed, with their units.
pub(crate) fn describe() {
    #[cfg(feature = "metrics")]
    names::describe();
}

/// Counts a lease that begins.
pub(crate) fn began(request: &Request) {
    #[cfg(feature = "metrics")]
    {
        of_lock!(gauge, "leasehold_held", request.kind, request.key.label()).increment(1);
        if let Kind::Semaphore { weight, .. } = request.kind {
            of_lock!(gauge, "leasehold_permits_held", request.kind, request.key.label())
                .increment(weight);
        }
    }
}

/// Notes the limit of a semaphore that holds now.
pub(crate) fn limit(kind: Kind, label: Option<&'static str>) {
    #[cfg(feature = "metrics")]
    if let Kind::Semaphore { limit, .. } = kind {
        of_lock!(gauge, "leasehold_limit", kind, label).set(limit);
    }
}

/// Counts a lease that was released or lost, or that nobody has had.
pub(crate) fn ended(request: &Request, held: Option<Duration>) {
    #[cfg(feature = "metrics")]
    {
        let (kind, lock) = (request.kind, request.key.label());
        of_lock!(gauge, "leasehold_held", kind, lock).decrement(1);
        if let Kind::Semaphore { weight, .. } = kind {
            of_lock!(gauge, "leasehold_permits_held", kind, lock).decrement(weight);
        }
        if let Some(held) = held {
            of_lock!(histogram, "leasehold_hold_seconds", kind, lock).record(held);
        }
    }
}

/// Counts and logs a loss, in the span of its lease if there is one.
pub(crate) fn lost(request: &Request, reason: LossReason, hold: Option<&Id>) {
    #[cfg(feature = "metrics")]
    {
        let (kind, lock) = (request.kind, request.key.label());
        of_lock!(counter, "leasehold_lost_total", kind, lock, "reason" => reason.name())
            .increment(1);
    }
    hold::log_loss(request, reason, hold);
}

/// Counts a lease that was taken up without the store.
pub(crate) fn granted_locally(request: &Request) {
    #[cfg(feature = "metrics")]
    of_lock!(counter, "leasehold_local_grants_total", request.kind, request.key.label())
        .increment(1);
}

/// Counts a lock that another client wanted while this one kept it.
pub(crate) fn recalled(kind: Kind, label: Option<&'static str>) {
    #[cfg(feature = "metrics")]
    of_lock!(counter, "leasehold_recalls_total", kind, label).increment(1);
}

/// Counts a command that reserves fencing tokens for later leases, and extends the lease.
pub(crate) fn refilled(request: &Request) {
    #[cfg(feature = "metrics")]
    of_lock!(counter, "leasehold_refills_total", request.kind, request.key.label()).increment(1);
}

/// Counts a renewal, answered or not. It is late if less than a third of the TTL was left.
pub(crate) fn renewal(request: &Request, outcome: &'static str, took: Duration, is_late: bool) {
    #[cfg(feature = "metrics")]
    {
        let (kind, lock) = (request.kind, request.key.label());
        of_lock!(counter, "leasehold_renewals_total", kind, lock, "outcome" => outcome)
            .increment(1);
        of_lock!(histogram, "leasehold_renewal_seconds", kind, lock).record(took);
        if is_late {
            of_lock!(counter, "leasehold_late_renewals_total", kind, lock).increment(1);
        }
    }
}
