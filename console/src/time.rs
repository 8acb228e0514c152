//! Times as pages show them: how long ago, with the time of day as a tooltip.

use std::time::{Duration, SystemTime};

use super::text::short;

/// A time, for `time.html`.
#[derive(Clone, Debug)]
pub(super) struct Time {
    pub(super) short: String,
    /// By the clock of this process, in UTC; empty if it is not known.
    pub(super) at: String,
}

impl Time {
    /// Something that began so long ago.
    pub(super) fn since(time: Duration) -> Self {
        Self::new(time, SystemTime::now().checked_sub(time))
    }

    /// Something that ends so soon.
    pub(super) fn until(time: Duration) -> Self {
        Self::new(time, SystemTime::now().checked_add(time))
    }

    /// Something that happened then.
    pub(super) fn of(at: SystemTime) -> Self {
        Self::new(at.elapsed().unwrap_or_default(), Some(at))
    }

    /// A text in the place of a time that is not known.
    pub(super) fn unknown(text: &str) -> Self {
        Self { short: text.to_owned(), at: String::new() }
    }

    fn new(time: Duration, at: Option<SystemTime>) -> Self {
        Self { short: short(time), at: at.map(date).unwrap_or_default() }
    }
}

/// Such as `2026-11-27 22:59:22 UTC`; empty beyond the year 9999.
fn date(at: SystemTime) -> String {
    let last = Duration::from_secs(253_402_300_799);
    let is_there = at.duration_since(SystemTime::UNIX_EPOCH).is_ok_and(|time| time <= last);
    if !is_there {
        return String::new();
    }
    humantime::format_rfc3339_seconds(at).to_string().replace('T', " ").replace('Z', " UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_read_at_once() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(date(at(1_795_820_362)), "2026-11-27 22:59:22 UTC");
        assert_eq!(date(at(253_402_300_799)), "9999-12-31 23:59:59 UTC");
        assert_eq!(date(at(253_402_300_800)), "");
        assert_eq!(Time::until(Duration::MAX).at, "");
        assert_eq!(Time::since(Duration::MAX).at, "");
    }
}
