//! Ticks of a calendar: by a pattern of cron, in a time zone.

use std::time::Duration;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::schedule_rules;
use crate::system;

/// Before this time no machine asks: its clock was lost. June 2025, in milliseconds since the Unix epoch.
const EARLIEST: u64 = 1_750_000_000_000;

/// From a weekday of a month to the same one of the next year it may be 371 days.
const LONGEST: Duration = Duration::from_secs(372 * 24 * 60 * 60);

/// The first of January of 2026, in seconds, and how long a year of 365.25 days is.
const FIRST_JANUARY: u64 = 1_767_225_600;
const YEAR: u64 = 31_557_600;

/// A time that does not come in each year leaves out one of so many in a row.
const YEARS: u64 = 8;

/// More missed ticks are not counted.
const MOST_MISSED: u64 = 10_000;

/// A calendar. A tick begins at each time that its pattern names, and lasts until the next one.
#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    cron: Cron,
    zone: TimeZone,
}

/// A tick, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CalendarTick {
    pub(crate) began: u64,
    pub(crate) ends: u64,
}

impl CalendarTick {
    pub(crate) fn lasts(self) -> Duration {
        Duration::from_millis(self.ends - self.began)
    }
}

impl Calendar {
    /// Parses a pattern and a zone, such as `daily in Europe/Berlin` or `30 1 * * * in UTC`. The error
    /// says what to write instead.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (pattern, zone) = schedule_rules::parse(text)?;
        let cron = read(pattern)?;
        let zone = TimeZone::get(zone).map_err(|_| {
            format!(
                "`{zone}` is no time zone of the IANA database, such as `Europe/Berlin` or `UTC`"
            )
        })?;
        let calendar = Self { cron, zone };
        if calendar.tick_now().is_none() {
            return Err(format!("`{pattern}` names a time that never comes"));
        }
        if calendar.skips_a_year() {
            return Err(format!("`{pattern}` does not come in each year"));
        }
        Ok(calendar)
    }

    /// Returns true if a tick may last for longer than a year. Whatever the day on which this is asked:
    /// a service that was deployed on another day has the same calendar.
    fn skips_a_year(&self) -> bool {
        // A tick that lasts for so long lasts over a new year.
        let new_years = (0..YEARS).map(|nth| (FIRST_JANUARY + nth * YEAR) * 1000);
        let mut ticks = new_years.map(|time| self.tick_at(time));
        ticks.any(|tick| tick.is_none_or(|tick| tick.lasts() > LONGEST))
    }

    /// The tick that runs by this machine's clock.
    pub(crate) fn tick_now(&self) -> Option<CalendarTick> {
        self.tick_at(millis(system::wall_clock()).max(EARLIEST))
    }

    /// The tick that runs at this time. `None` if the pattern names no time before or after it.
    pub(crate) fn tick_at(&self, time: u64) -> Option<CalendarTick> {
        let time = self.zoned(time)?;
        let began = self.cron.find_previous_occurrence(&time, true).ok()?;
        let ends = self.cron.find_next_occurrence(&time, false).ok()?;
        // By a clock that was lost it may have begun before 1970.
        Some(CalendarTick { began: in_millis(&began).unwrap_or(0), ends: in_millis(&ends)? })
    }

    /// How many ticks lie between that of a time and one that began later. At most 10,000 are counted.
    pub(crate) fn ticks_between(&self, time: u64, began: u64) -> u64 {
        let Some(time) = self.zoned(time) else { return 0 };
        let before = |next: &Zoned| in_millis(next).is_some_and(|next| next < began);
        let most = usize::try_from(MOST_MISSED).unwrap_or(usize::MAX);
        let ticks = self.cron.iter_after(time).take_while(before).take(most).count();
        u64::try_from(ticks).unwrap_or(MOST_MISSED)
    }

    fn zoned(&self, time: u64) -> Option<Zoned> {
        let time = Timestamp::from_millisecond(i64::try_from(time).ok()?).ok()?;
        Some(time.to_zoned(self.zone.clone()))
    }
}

/// Reads a pattern that keeps the rules.
fn read(pattern: &str) -> Result<Cron, String> {
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed);
    let cron = parser.build().parse(pattern);
    cron.map_err(|error| format!("`{pattern}` is no pattern of cron: {error}"))
}

fn in_millis(time: &Zoned) -> Option<u64> {
    u64::try_from(time.timestamp().as_millisecond()).ok()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
