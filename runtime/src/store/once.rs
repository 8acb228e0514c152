//! Work that is to succeed once: for how long its success counts, and what is said of a run.

use std::time::Duration;

#[cfg(feature = "calendar")]
use crate::core::calendar::CalendarTick;

/// How long work that has succeeded counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Once {
    /// For this long after it succeeded.
    For(Duration),
    /// Until the end of its tick. Ticks last `period`, by the store's clock; one began at
    /// `offset` after the Unix epoch.
    Per {
        /// How long a tick lasts.
        period: Duration,
        /// When a tick began.
        offset: Duration,
    },
}

/// A week, and how long after the Unix epoch the first Monday began: 1970-01-05.
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const MONDAY: Duration = Duration::from_secs(4 * 24 * 60 * 60);

impl Once {
    /// In each tick of this period. Ticks begin at the Unix epoch, but ticks of whole weeks on a
    /// Monday; `offset` shifts them.
    #[must_use]
    pub fn per(period: Duration, offset: Duration) -> Self {
        let is_weeks = period >= WEEK && period.as_nanos().is_multiple_of(WEEK.as_nanos());
        let first = if is_weeks { MONDAY } else { Duration::ZERO };
        Self::Per { period, offset: first.saturating_add(offset) }
    }

    /// In this tick of a calendar.
    #[cfg(feature = "calendar")]
    pub(crate) fn in_tick(tick: CalendarTick) -> Self {
        Self::Per { period: tick.lasts(), offset: Duration::from_millis(tick.began) }
    }

    /// When the tick began that runs at this time, in milliseconds since the Unix epoch. Without ticks
    /// it is this time.
    pub(crate) fn tick_at(self, time: u64) -> u64 {
        let Self::Per { period, offset } = self else { return time };
        let (period, offset) = (millis(period).max(1), millis(offset));
        if time >= offset {
            time - (time - offset) % period
        } else {
            // Ticks also begin before the offset.
            (offset - (offset - time).div_ceil(period) * period).min(time)
        }
    }

    /// When the tick ends that runs at this time. Without ticks it is this time.
    pub(crate) fn tick_ends(self, time: u64) -> u64 {
        self.tick_at(time).saturating_add(self.tick_lasts())
    }

    /// How much is left at this time of the tick that runs then. Nothing without ticks.
    pub(crate) fn tick_left(self, time: u64) -> Duration {
        Duration::from_millis(self.tick_ends(time).saturating_sub(time))
    }

    /// How long its ticks last, in milliseconds; 0 without ticks.
    pub(crate) fn tick_lasts(self) -> u64 {
        if let Self::Per { period, .. } = self { millis(period) } else { 0 }
    }

    /// How long the store remembers the last success of ticks, if that is longer than they
    /// count as done: 32 periods, and at least a day.
    pub(crate) fn remembered(self) -> Duration {
        const LEAST: Duration = Duration::from_secs(24 * 60 * 60);
        match self {
            Self::For(_) => Duration::ZERO,
            Self::Per { period, .. } => LEAST.max(period.saturating_mul(32)),
        }
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The tick of a grant, by the store's clock: in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickTimes {
    /// When it began.
    pub began: u64,
    /// When the run of the last success was granted the lock, if the store remembers one.
    pub last: Option<u64>,
    /// When the lock was granted. It says which tick the run belongs to, for whoever asks with
    /// other ticks.
    pub granted: u64,
}

/// What a completion says of the work that has succeeded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Success {
    /// Its tick, as the grant said.
    pub tick: Option<TickTimes>,
    /// The token of its grant. With another one, its lease had ended, and a late copy of its ask
    /// was granted: then it marks nothing. `None` is not compared.
    pub token: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_aligned_to_the_offset() {
        let tick = |time, offset| {
            let (period, offset) = (Duration::from_secs(1), Duration::from_millis(offset));
            Once::Per { period, offset }.tick_at(time)
        };
        assert_eq!(tick(1_999, 0), 1_000);
        assert_eq!(tick(2_000, 0), 2_000);
        assert_eq!(tick(2_000, 1), 1_001);
        assert_eq!(tick(2_000, 2_500), 1_500);
        assert_eq!(tick(1_500, 3_500), 1_500);
    }

    #[test]
    fn weeks_begin_on_mondays() {
        let offset = |period, offset| match Once::per(period, offset) {
            Once::Per { offset, .. } => offset,
            Once::For(_) => unreachable!("it has ticks"),
        };
        let day = Duration::from_secs(24 * 60 * 60);
        for (days, first) in [(1, 0), (6, 0), (7, 4), (8, 0), (10, 0), (14, 4), (28, 4), (30, 0)] {
            assert_eq!(offset(day * days, Duration::ZERO), day * first, "{days} days");
            assert_eq!(offset(day * days, day), day * (first + 1), "{days} days");
        }
        assert_eq!(offset(WEEK + Duration::from_nanos(1), Duration::ZERO), Duration::ZERO);
    }
}
