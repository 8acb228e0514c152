//! The state of a turn that lingers.

use std::time::{Duration, Instant};

use crate::state::lease::GrantTimes;
use crate::store::{Kind, Request, Subscription};

/// When a lease of a lingering turn was released the last time, and how it goes on.
pub(super) struct Linger {
    /// How long it may stay idle.
    pub(super) lasts: Duration,
    /// The kind of its lease, and what metrics call the lock.
    pub(super) counted_as: (Kind, Option<&'static str>),
    /// Since when it is idle. `None` while it is in use, or the store has not answered yet.
    pub(super) idle_since: Option<Instant>,
    /// The last fencing token that the store has reserved.
    pub(super) last_token: u64,
    /// Fewer tokens than this are left: more are reserved in the background.
    pub(super) refill_below: u64,
    pub(super) is_refilling: bool,
    /// When the store is to be told again that it may stay: renewals do not say so.
    pub(super) refill_at: Option<Instant>,
    /// The store has recalled it.
    pub(super) is_recalled: bool,
    /// The store has not said yet whether it may stay.
    pub(super) is_asking: bool,
    /// The subscription to the lock's hints, in a store where each lock needs one.
    pub(super) subscription: Option<Subscription>,
}

/// After a third of the time that the store has given, as a keeper renews.
pub(super) fn refill_at(times: GrantTimes) -> Instant {
    times.sent + times.deadline.saturating_duration_since(times.sent) / 3
}

impl Linger {
    /// A lease whose client asks the store whether it may stay.
    pub(super) fn asking(lasts: Duration, request: &Request) -> Self {
        Self {
            lasts,
            counted_as: (request.kind, request.key.label()),
            idle_since: None,
            last_token: 0,
            refill_below: 0,
            is_refilling: false,
            refill_at: None,
            is_recalled: false,
            is_asking: true,
            subscription: None,
        }
    }
}
