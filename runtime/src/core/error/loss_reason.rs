//! Why a lease was lost.

use std::fmt;

/// Why a lease was lost.
///
/// # Examples
///
/// ```
/// use leasehold::LossReason;
///
/// fn may_have_been_too_slow(reason: LossReason) -> bool {
///     matches!(reason, LossReason::Expired | LossReason::Taken)
/// }
/// assert!(may_have_been_too_slow(LossReason::Expired));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// It was not renewed in time: the store could not be reached or lost the lease, or this
    /// process was paused.
    Expired,
    /// It was not renewed in time, and another request has acquired the lock since, or
    /// something overwrote its record.
    Taken,
    /// [`Locks::force_release`](crate::Locks::force_release) took the lock.
    Forced,
    /// Its `max_hold` is over.
    MaxHold,
    /// The client was shut down before its holder released it.
    ShutDown,
    /// Its holder released it while a nested call of a `reentrant` function still ran under
    /// it, in a task of its own. Only that call gets this reason.
    Released,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "it expired because it was not renewed in time",
            Self::Taken => "another holder has taken the lock since",
            Self::Forced => "it was taken by force",
            Self::MaxHold => "its `max_hold` is over",
            Self::ShutDown => "the lock client was shut down while it was held",
            Self::Released => "the call that had acquired it ended first, and released it",
        })
    }
}

impl LossReason {
    /// Its word in logs and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Taken => "taken",
            Self::Forced => "forced",
            Self::MaxHold => "max_hold",
            Self::ShutDown => "shutdown",
            Self::Released => "released",
        }
    }

    /// Why a ticket can't be adopted whose lease ended so.
    pub(super) fn of_ticket(self) -> &'static str {
        match self {
            Self::Taken => "it was adopted before, or others have acquired the lock since",
            Self::Expired => {
                "its TTL is over, or it was adopted and released long ago, or it is of another \
                 server or prefix"
            }
            Self::MaxHold => "the `max_hold` of its lease is over",
            Self::Forced | Self::ShutDown | Self::Released => "its lease was taken by force",
        }
    }
}
