//! What a deployment may change: the options with which the processes of one version use the locks.
//! During a deployment, and for as long as an old process works on, two versions run side by side.

use std::time::Duration;

use fastrand::Rng;
use leasehold_history::Kind;

/// The options of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// The permits of the semaphore.
    pub(super) limit: u32,
    /// A few values each, in milliseconds, so that requests with the same options meet, and others
    /// too.
    ttls: [u64; 4],
    lingers: [u64; 4],
    /// How many times as long as usual most locks are held.
    pub(super) pace: u64,
    /// One of so many requests has a long TTL.
    pub(super) long_is_one_of: u8,
    /// The job is to succeed once in each such period, by those who call it themselves.
    pub(super) period: Duration,
    /// How long its ticks last for those who offer to run it.
    pub(super) tick: Duration,
    /// The task is to succeed once, for so long.
    pub(super) lasts: Duration,
    /// What it takes the lock for that versions disagree on.
    pub(super) confused: Kind,
}

/// No other lease is longer.
pub(super) const USUAL_TTL: Duration = Duration::from_secs(2);

/// A lease that nobody uses is seen if it lasts longer than nothing is promised after a fault.
pub(super) const LONG_TTL: Duration = Duration::from_secs(20);

/// No version has more permits.
pub(super) const MOST_PERMITS: u32 = 5;

impl Version {
    /// What a world begins with.
    pub(super) const FIRST: Self = Self {
        limit: 3,
        ttls: [200, 500, 1_000, 2_000],
        lingers: [0, 0, 100, 900],
        pace: 1,
        long_is_one_of: 16,
        period: Duration::from_millis(300),
        tick: Duration::from_millis(1_500),
        lasts: Duration::from_millis(400),
        confused: Kind::Mutex,
    };

    /// The same. Where what was sent on a connection that was left may arrive at any time, long leases of
    /// nobody are looked for.
    pub(super) fn first(may_kill: bool, pace: u64) -> Self {
        Self { long_is_one_of: if may_kill { 16 } else { 3 }, pace, ..Self::FIRST }
    }

    /// Another version, with the same work.
    pub(super) fn random(rng: &mut Rng, pace: u64) -> Self {
        Self {
            pace,
            limit: rng.u32(1..=MOST_PERMITS),
            ttls: one_of(rng, [Self::FIRST.ttls, [150, 300, 300, 800], [1_500, 1_500, 2_000, 250]]),
            lingers: one_of(rng, [Self::FIRST.lingers, [0; 4], [50, 300, 300, 2_000]]),
            long_is_one_of: one_of(rng, [3, 16, 16, 16]),
            period: one_of(rng, [Self::FIRST.period, Duration::from_millis(500)]),
            tick: one_of(rng, [Self::FIRST.tick, Duration::from_secs(1), Duration::from_secs(4)]),
            lasts: one_of(rng, [Self::FIRST.lasts, Duration::from_millis(1_500)]),
            confused: one_of(
                rng,
                [Kind::Mutex, Kind::Permits, Kind::Reentrant, Kind::Read, Kind::Write],
            ),
        }
    }

    pub(super) fn ttl(&self, rng: &mut Rng) -> Duration {
        Duration::from_millis(one_of(rng, self.ttls))
    }

    pub(super) fn linger(&self, rng: &mut Rng) -> Duration {
        Duration::from_millis(one_of(rng, self.lingers))
    }
}

fn one_of<T: Copy, const N: usize>(rng: &mut Rng, all: [T; N]) -> T {
    all[rng.usize(..N)]
}
