//! What the layer counts and logs. The rest is counted where leases are acquired and held.

use super::reject::Refusal;
use crate::core::error::Quiet;
use crate::core::log_rate::seldom;

/// Counts a request that passes without its lock.
#[cfg_attr(not(feature = "metrics"), expect(unused_variables, reason = "it does nothing then"))]
pub(super) fn passed_open(kind: &'static str, lock: &'static str) {
    #[cfg(feature = "metrics")]
    {
        metrics::counter!("leasehold_fail_open_total", "kind" => kind, "lock" => lock).increment(1);
    }
}

/// Logs what an operator can act on as a warning or an error, with the lock's label. Keys, which may be
/// personal, and what a client can cause stay at `debug`.
pub(super) fn refused(refusal: &Refusal, lock: &'static str) {
    match refusal {
        Refusal::NoKey(error) => {
            tracing::debug!(lock, %error, "a request does not say what to lock");
        }
        Refusal::NoWeight(error) => {
            tracing::debug!(lock, %error, "a request does not say how much it takes");
        }
        Refusal::NoLimit(error) => {
            tracing::debug!(lock, %error, "a request does not say which limit holds for it");
        }
        Refusal::NoOwner(error) => {
            tracing::debug!(lock, %error, "a request gives no name that can own a lock");
        }
        Refusal::Held(error)
        | Refusal::Done(error)
        | Refusal::Full(error)
        | Refusal::RateLimited(error)
        | Refusal::Closed(error) => {
            tracing::debug!(lock, %error, "a request is refused");
        }
        Refusal::Crowded { key, .. } => {
            tracing::debug!(lock, %key, "a request is refused: too many wait for its lock");
        }
        Refusal::Unavailable(error) => {
            if let Some(left_out) = seldom("refused", lock) {
                let error = Quiet(error);
                tracing::warn!(lock, left_out, %error, "a request is refused: the lock store failed");
            }
        }
        Refusal::Lost(reason) => {
            tracing::warn!(
                lock,
                reason = reason.name(),
                "a request was stopped: its lock was lost"
            );
        }
        Refusal::TookTooLong => {
            if let Some(left_out) = seldom("took too long", lock) {
                tracing::warn!(lock, left_out, "a request was stopped: it took too long");
            }
        }
        Refusal::HeldByItself(error) => {
            tracing::error!(
                lock,
                "a request asks for a lock that it holds already; take the lock once, or give the two locks different names"
            );
            tracing::debug!(lock, %error, "the lock that a request holds already");
        }
        Refusal::Misconfigured(error) => {
            tracing::error!(
                lock,
                error = %Quiet(error),
                "a request is refused: its lock is misconfigured"
            );
            tracing::debug!(lock, %error, "the lock that is misconfigured");
        }
    }
}
