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
    /// It was not renewed in time: the store could not be reached, or this process was paused.
    Expired,
    /// The store had no record of it before its time was over: somebody deleted the record, the server
    /// evicted it, lost it in a restart or a failover, or its clock was set forward. If another request
    /// has acquired the lock since, the reason is [`Taken`](Self::Taken).
    Gone,
    /// The store no longer held it, as with [`Expired`](Self::Expired) or [`Gone`](Self::Gone), and
    /// another request has acquired the lock since; or something overwrote its record.
    Taken,
    /// [`Locks::force_release`](crate::Locks::force_release) took the lock.
    Forced,
    /// Its `max_hold` is over.
    MaxHold,
    /// With [`replace`](crate::Mutex::replace): another acquisition waits for the lock, or its tick is
    /// over.
    Replaced,
    /// The client was shut down before its holder released it.
    ShutDown,
    /// Its holder has released it. Only two get this reason: a nested call of a `reentrant` function that
    /// still ran under it, in a task of its own; and [`ensure_held`](crate::LeaseHandle::ensure_held) of a
    /// handle that outlived the lease.
    Released,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "it expired because it was not renewed in time",
            Self::Gone => {
                "the store lost its record before its time was over (deleted, evicted, a restart, a \
                 failover, or a clock set forward)"
            }
            Self::Taken => "another holder has taken the lock since",
            Self::Forced => "it was taken by force",
            Self::MaxHold => "its `max_hold` is over",
            Self::Replaced => "a newer run takes its place (`replace`)",
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
            Self::Gone => "gone",
            Self::Taken => "taken",
            Self::Forced => "forced",
            Self::MaxHold => "max_hold",
            Self::Replaced => "replaced",
            Self::ShutDown => "shutdown",
            Self::Released => "released",
        }
    }

    /// Returns true if the lease is still its holder's on the store, who releases it as soon as its work
    /// has stopped.
    pub(crate) fn ends_by_release(self) -> bool {
        matches!(self, Self::MaxHold | Self::Replaced)
    }

    /// Returns true if the store still has the lease: its holder has not released it, and nobody has taken
    /// it away.
    pub(crate) fn is_stored(self) -> bool {
        self == Self::ShutDown || self.ends_by_release()
    }

    /// Why a ticket can't be adopted whose lease ended so.
    pub(super) fn of_ticket(self) -> &'static str {
        match self {
            Self::Taken => "it was adopted before, or others have acquired the lock since",
            Self::Expired | Self::Gone => {
                "its TTL is over, or it was adopted and released long ago, or it is of another \
                 server or prefix"
            }
            Self::MaxHold => "the `max_hold` of its lease is over",
            Self::Forced | Self::Replaced | Self::ShutDown | Self::Released => {
                "its lease was taken by force"
            }
        }
    }
}
