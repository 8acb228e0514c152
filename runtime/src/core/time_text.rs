//! How long something takes, for people.

use std::fmt;
use std::time::Duration;

/// A duration as the tool and the console show it: `1.5s`, `6m06s`, `2h05m`, `3d04h`. Below a
/// second it is in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Short(pub(crate) Duration);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match seconds {
            0 if self.0.is_zero() => f.write_str("0s"),
            0..60 => write!(f, "{:.1?}", self.0),
            60..3_600 => write!(f, "{}m{:02}s", seconds / 60, seconds % 60),
            3_600..86_400 => write!(f, "{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
            _ => write!(f, "{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_times_have_minutes_hours_and_days() {
        for (millis, text) in [
            (0, "0s"),
            (250, "250.0ms"),
            (1_500, "1.5s"),
            (366_000, "6m06s"),
            (7_500_000, "2h05m"),
            (273_600_000, "3d04h"),
        ] {
            assert_eq!(Short(Duration::from_millis(millis)).to_string(), text);
        }
    }
}
