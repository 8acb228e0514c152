//! A moment by the store's clock.

use std::ops::{Add, Sub};
use std::time::Duration;

use crate::store::Stamp;

/// A moment by the store's clock: the time since that clock's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store) struct Time(Duration);

impl Time {
    pub(in crate::store) fn since_beginning(time: Duration) -> Self {
        Self(time)
    }

    /// The moment of a stamp.
    pub(super) fn of(stamp: Stamp) -> Self {
        Self(Duration::from_micros(stamp))
    }

    /// The moment in microseconds: as stamps, positions and tokens are counted.
    pub(in crate::store) fn micros(self) -> Stamp {
        micros(self.0)
    }

    /// The moment in whole milliseconds. The store's clock begins at the Unix epoch.
    pub(in crate::store) fn millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }

    /// `None` for a time that no clock can show.
    pub(in crate::store) fn checked_add(self, time: Duration) -> Option<Self> {
        self.0.checked_add(time).map(Self)
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}

impl Sub for Time {
    type Output = Duration;

    /// How long `self` is after `earlier`; zero if it is not.
    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// A duration in whole microseconds.
pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
