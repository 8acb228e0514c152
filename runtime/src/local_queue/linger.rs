//! The state of a turn that lingers.

use std::time::{Duration, Instant};

use crate::state::lease::GrantTimes;
use crate::store::{Request, Subscription};

/// When a lease of a lingering turn was released the last time, and how it goes on.
pub(super) struct Linger {
    /// How long it may stay idle, as its last lease has said.
    pub(super) lasts: Duration,
    /// The request that holds the lock.
    pub(super) request: Request,
    /// The last fencing token that the store has reserved.
    pub(super) last_token: u64,
    /// Fewer tokens than this are left: more are reserved in the background.
    pub(super) refill_below: u64,
    pub(super) is_refilling: bool,
    /// When the store was last asked that said that it may stay.
    pub(super) confirmed: Option<Instant>,
    /// When the store is to be told again that it may stay: renewals do not say so.
    pub(super) refill_at: Option<Instant>,
    pub(super) wanted: Wanted,
    /// The subscription to the lock's hints, in a store where each lock needs one.
    pub(super) subscription: Option<Subscription>,
}

/// Whether others want the lock, as far as is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    No,
    /// A message has said so since the store was last asked. Anybody may have sent it.
    Said,
    /// The store has recalled it.
    Recalled,
}

impl Wanted {
    /// Notes what a message says.
    pub(super) fn note_message(&mut self) {
        if *self == Self::No {
            *self = Self::Said;
        }
    }

    /// Returns true if a message has said so and the store has not; then it is asked.
    pub(super) fn take_message(&mut self) -> bool {
        let is_said = *self == Self::Said;
        if is_said {
            *self = Self::No;
        }
        is_said
    }
}

/// How long an idle lease is taken up after the store has confirmed it. The store may forget it at
/// any time, in a restart, a failover or a flush.
pub(super) const CONFIRMED: Duration = Duration::from_secs(1);

/// Before a lease that is used again and again would have to be asked for, and after a third of the
/// time that the store has given, as a keeper renews.
pub(super) fn refill_at(times: GrantTimes) -> Instant {
    let third = times.deadline.saturating_duration_since(times.sent) / 3;
    times.sent + third.min(CONFIRMED / 2)
}

impl Linger {
    /// A lease whose client asks the store whether it may stay.
    pub(super) fn asking(lasts: Duration, request: &Request) -> Self {
        Self {
            lasts,
            request: request.clone(),
            last_token: 0,
            refill_below: 0,
            is_refilling: false,
            confirmed: None,
            refill_at: None,
            wanted: Wanted::No,
            subscription: None,
        }
    }

    /// The store has recalled it.
    pub(super) fn is_recalled(&self) -> bool {
        self.wanted == Wanted::Recalled
    }
}

/// When the client last heard that the store may have forgotten its leases: it lost a connection.
#[derive(Default)]
pub(super) struct Doubted(Option<Instant>);

impl Doubted {
    pub(super) fn note(&mut self, now: Instant) {
        self.0 = Some(now);
    }

    /// Since when the store must have confirmed a lease that is taken up now.
    pub(super) fn confirmed_since(&self, now: Instant) -> Option<Instant> {
        self.0.max(now.checked_sub(CONFIRMED))
    }
}
