//! Times as people write them.

use std::time::Duration;

/// Reads a time such as `30s` or `1h 30m`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    // humantime 2.4 panics at 2^64 seconds. Five numbers of eleven digits are less, in years.
    if text.len() > 64 || text.split(|char: char| !char.is_ascii_digit()).any(|it| it.len() > 11) {
        return Err("it is too long".to_owned());
    }
    if let Some(why) = of_a_calendar(text) {
        return Err(why.to_owned());
    }
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write it like 500ms, 30s, 5m or 1h"))
}

/// What is wrong with a text that names a unit of the calendar, if it does. humantime takes them
/// for 30.44 and 365.25 days, so a job "of each month" would follow no calendar. And `M` is one
/// letter from a minute. The attribute says the same.
fn of_a_calendar(text: &str) -> Option<&'static str> {
    text.split(|char: char| !char.is_alphabetic()).find_map(|unit| match unit {
        "M" => Some(
            "`M` is a month, which has no fixed length; write 1m for a minute, or 30days; for a job \
             of each month, write --schedule 'monthly in UTC'",
        ),
        "month" | "months" => Some(
            "a month has no fixed length; write 30days; for a job of each month, write \
             --schedule 'monthly in UTC'",
        ),
        "y" | "yr" | "yrs" | "year" | "years" => Some(
            "a year has no fixed length; write 365days; for a job of each year, write \
             --schedule 'yearly in UTC'",
        ),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_the_calendar_are_refused() {
        for (text, better) in [
            ("1M", "write 1m for a minute, or 30days"),
            ("1 month", "write 30days"),
            ("1day 2months", "write 30days"),
            ("1y", "write 365days"),
            ("1yr", "write 365days"),
            ("2yrs", "write 365days"),
            ("1year 1s", "write 365days"),
            ("2years", "write 365days"),
        ] {
            let said = time(text).unwrap_err();
            assert!(said.contains("has no fixed length") && said.contains(better), "{said}");
        }
        for text in ["1m", "1min", "2minutes", "1ms", "1d", "1day", "2w", "1week"] {
            assert!(time(text).is_ok(), "{text}");
        }
    }
}
