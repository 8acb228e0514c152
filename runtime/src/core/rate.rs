//! Rates: how often something may happen.

use std::fmt;
use std::time::Duration;

/// How often something may happen: `count` times in each period, and by default as often at once.
///
/// After a pause, [`burst`](Self::burst) may happen at once. From then on, one more may happen each
/// time that a part of the period has passed: for 100 in a second, every 10 ms. So in no time
/// does more happen than the burst, and the rate in that time.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::Rate;
///
/// let of_plan = Rate::per_second(100).burst(20);
/// assert_eq!(of_plan.to_string(), "100 in 1s, at most 20 at once");
/// let of_mails = Rate::new(5, Duration::from_millis(250));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    count: u32,
    period: Duration,
    burst: u32,
}

/// A store counts in microseconds: with fewer for each, a rate would be less exact than by a hundredth.
const SHORTEST_INTERVAL: Duration = Duration::from_micros(100);

/// How long a rate may be used up.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

impl Rate {
    /// So many in each period: from 1 up, at most 10 in a millisecond, and at least 1 in 366 days.
    /// A rate out of that range is reported when it is used.
    #[must_use]
    pub const fn new(count: u32, period: Duration) -> Self {
        Self { count, period, burst: count }
    }

    /// So many in each second.
    #[must_use]
    pub const fn per_second(count: u32) -> Self {
        Self::new(count, Duration::from_secs(1))
    }

    /// So many in each minute. All of them may happen at once: see [`burst`](Self::burst).
    #[must_use]
    pub const fn per_minute(count: u32) -> Self {
        Self::new(count, Duration::from_secs(60))
    }

    /// So many in each hour. All of them may happen at once: see [`burst`](Self::burst).
    #[must_use]
    pub const fn per_hour(count: u32) -> Self {
        Self::new(count, Duration::from_secs(60 * 60))
    }

    /// How many may happen at once, after a pause: from 1 up. The default is the count of a period.
    #[must_use]
    pub const fn burst(mut self, most: u32) -> Self {
        self.burst = most;
        self
    }

    /// How many may happen in each period.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// What to do about this name, which has this rate and another one.
    pub(crate) fn named_twice(&self, other: &Self, name: &str) -> String {
        if self == other {
            return format!(
                "`{name}` is named for two rates; name it once, with the weight of both"
            );
        }
        let named = |rate: &Self| format!("`{name}:{}-in-{:?}`", rate.count, rate.period);
        let (one, other) = (named(self), named(other));
        format!("`{name}` is named for two rates; give each a name of its own: {one} and {other}")
    }

    /// The period.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// How many may happen at once.
    #[must_use]
    pub const fn most_at_once(&self) -> u32 {
        self.burst
    }

    /// Refuses a rate that nothing can keep to, and a weight that it never has room for.
    pub(crate) fn check(&self, weight: u32) -> Result<(), String> {
        let Self { count, period, burst } = *self;
        if count == 0 || period < SHORTEST_INTERVAL.saturating_mul(count) {
            return Err(format!(
                "{count} in {period:?}: it must be 1 or more, and at most 10 in 1ms"
            ));
        }
        if burst == 0 || Duration::from_micros(self.micros(burst)) > LONGEST {
            return Err(format!(
                "a burst of {burst} at {self}: it must be 1 or more, and be there again after 366 days"
            ));
        }
        if weight == 0 || weight > burst {
            return Err(format!(
                "a weight of {weight} at {self}: it must be 1 or more, and at most what may happen at once"
            ));
        }
        Ok(())
    }

    /// For how many microseconds a weight uses the rate up, or the burst.
    pub(crate) fn micros(&self, weight: u32) -> u64 {
        u64::try_from(self.interval() * u128::from(weight)).unwrap_or(u64::MAX)
    }

    /// How many may happen at once when the rate is used up for so long.
    pub(crate) fn left(&self, used: Duration) -> u32 {
        let micros = u128::from(self.micros(self.burst)).saturating_sub(used.as_micros());
        u32::try_from(micros / self.interval()).unwrap_or(u32::MAX).min(self.burst)
    }

    /// After how many microseconds one more may happen. Rounded up.
    fn interval(&self) -> u128 {
        self.period.as_nanos().div_ceil(1_000 * u128::from(self.count.max(1))).max(1)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, period, burst } = self;
        write!(f, "{count} in {period:?}")?;
        if burst == count { Ok(()) } else { write!(f, ", at most {burst} at once") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_uses_it_up_for_its_part_of_the_period() {
        let rate = Rate::per_second(3).burst(2);
        assert_eq!([1, 2, 3].map(|weight| rate.micros(weight)), [333_334, 666_668, 1_000_002]);
        let left = [0, 1, 333_333, 333_334, 666_668, 9_000_000]
            .map(|used| rate.left(Duration::from_micros(used)));
        assert_eq!(left, [2, 1, 1, 1, 0, 0]);
    }

    #[test]
    fn what_nothing_can_keep_to_is_refused() {
        let day = Duration::from_secs(24 * 60 * 60);
        for good in [
            Rate::per_second(1),
            Rate::per_second(10_000),
            Rate::new(10, Duration::from_millis(1)),
            Rate::new(1, day * 366),
            Rate::per_hour(u32::MAX / 10_000),
            Rate::per_minute(1).burst(527_040),
        ] {
            assert!(good.check(1).is_ok() && good.check(good.burst).is_ok(), "{good}");
            assert!(good.check(0).is_err() && good.check(good.burst + 1).is_err(), "{good}");
            assert_eq!(good.left(Duration::ZERO), good.burst, "{good}");
            assert_eq!(good.left(Duration::MAX), 0, "{good}");
        }
        for bad in [
            Rate::per_second(0),
            Rate::per_second(10_001),
            Rate::new(1, Duration::ZERO),
            Rate::new(u32::MAX, Duration::MAX).burst(u32::MAX),
            Rate::new(1, Duration::MAX),
            Rate::new(1, day * 367),
            Rate::per_second(1).burst(0),
            Rate::per_minute(1).burst(527_041),
        ] {
            let error = bad.check(1).unwrap_err();
            assert!(error.contains("it must be"), "{error}");
        }
    }
}
