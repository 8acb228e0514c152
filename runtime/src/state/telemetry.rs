//! Metrics, through the `metrics` facade: their names, and when each counts.
//!
#![doc = include_str!("../metrics.md")]
//!
//! `kind` is `mutex`, `reentrant_mutex`, `semaphore`, `read` or `write`. No label has the
//! name of a lock: there may be too many of them, and they may be personal.
//!
//! Without the feature `metrics` these functions do nothing and read no clock.
#![cfg_attr(not(feature = "metrics"), allow(unused_variables, reason = "they do nothing then"))]

use std::time::Duration;

use crate::core::error::{LockError, LossReason};
use crate::store::Kind;

/// A metric of one kind of lock. All labels are constants, so it allocates and hashes nothing
/// while no recorder is installed.
#[cfg(feature = "metrics")]
macro_rules! of_kind {
    ($metric:ident, $name:literal, $kind:expr) => {
        match $kind {
            Kind::Mutex | Kind::Once(_) => metrics::$metric!($name, "kind" => "mutex"),
            Kind::Reentrant => metrics::$metric!($name, "kind" => "reentrant_mutex"),
            Kind::Semaphore { .. } => metrics::$metric!($name, "kind" => "semaphore"),
            Kind::Read => metrics::$metric!($name, "kind" => "read"),
            Kind::Write => metrics::$metric!($name, "kind" => "write"),
        }
    };
}

#[cfg(feature = "metrics")]
fn label(kind: Kind) -> &'static str {
    match kind {
        Kind::Mutex | Kind::Once(_) => "mutex",
        Kind::Reentrant => "reentrant_mutex",
        Kind::Semaphore { .. } => "semaphore",
        Kind::Read => "read",
        Kind::Write => "write",
    }
}

/// Counts an acquisition that has ended.
pub(crate) fn acquired<T>(
    kind: Kind,
    waited: impl FnOnce() -> Duration,
    result: &Result<T, LockError>,
) {
    #[cfg(feature = "metrics")]
    match result {
        Ok(_) => {
            of_kind!(counter, "leasehold_acquired_total", kind).increment(1);
            of_kind!(histogram, "leasehold_wait_seconds", kind).record(waited());
        }
        Err(error) => {
            let reason = match error {
                LockError::Busy { .. } | LockError::TimedOut { .. } => "held",
                LockError::Done { .. } => "done",
                _ => "failed",
            };
            metrics::counter!("leasehold_refused_total", "kind" => label(kind), "reason" => reason)
                .increment(1);
        }
    }
}

/// Counts a lease that was released or lost.
pub(crate) fn ended(kind: Kind, held: impl FnOnce() -> Duration, loss: Option<LossReason>) {
    #[cfg(feature = "metrics")]
    {
        of_kind!(histogram, "leasehold_hold_seconds", kind).record(held());
        if let Some(reason) = loss {
            let reason = match reason {
                LossReason::Expired => "expired",
                LossReason::Taken => "taken",
                LossReason::Forced => "forced",
                LossReason::MaxHold => "max_hold",
                LossReason::ShutDown => "shutdown",
                LossReason::Released => "released",
            };
            metrics::counter!("leasehold_lost_total", "kind" => label(kind), "reason" => reason)
                .increment(1);
        }
    }
}

/// Counts a lease that was taken up without the store.
pub(crate) fn granted_locally(kind: Kind) {
    #[cfg(feature = "metrics")]
    of_kind!(counter, "leasehold_local_grants_total", kind).increment(1);
}

/// Counts a lock that another client wanted while this one kept it.
pub(crate) fn recalled() {
    #[cfg(feature = "metrics")]
    metrics::counter!("leasehold_recalls_total").increment(1);
}

/// Counts a command that reserves fencing tokens for later leases, and extends the lease.
pub(crate) fn refilled() {
    #[cfg(feature = "metrics")]
    metrics::counter!("leasehold_refills_total").increment(1);
}

/// Counts a renewal, answered or not.
pub(crate) fn renewal(outcome: &'static str) {
    #[cfg(feature = "metrics")]
    metrics::counter!("leasehold_renewals_total", "outcome" => outcome).increment(1);
}
