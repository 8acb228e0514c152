//! How fast clocks are.

use std::time::Duration;

use crate::network::Micros;

/// A millionth is the unit of all rates.
const WHOLE: i128 = 1_000_000;

/// How fast a clock is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// By so many millionths faster than true time; less than 0: slower.
    pub faster: i64,
}

impl Rate {
    /// A clock that is faster by so many millionths.
    pub fn faster_by(faster: i64) -> Self {
        Self { faster }
    }

    fn own_whole(self) -> i128 {
        WHOLE + i128::from(self.faster)
    }

    /// How much it shows to have passed when so much time has; rounded up.
    pub fn own(self, passed: Micros) -> Micros {
        let own = (i128::from(passed) * self.own_whole() + WHOLE - 1).div_euclid(WHOLE);
        Micros::try_from(own).expect("no clock runs backwards")
    }

    /// How much time has passed when it shows so much; rounded down. So what is due at a time is
    /// never done before it.
    pub fn passed(self, own: Micros) -> Micros {
        let passed = (i128::from(own) * WHOLE).div_euclid(self.own_whole());
        Micros::try_from(passed).expect("no clock runs backwards")
    }

    /// By how much it has got ahead meanwhile.
    pub(crate) fn gained(self, passed: Micros) -> i64 {
        let gained = (i128::from(passed) * i128::from(self.faster)).div_euclid(WHOLE);
        i64::try_from(gained).expect("a world ends before")
    }
}

/// How far the clocks of a world are from true time: the most, either way, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    pub servers: i64,
    pub processes: i64,
}

impl Clocks {
    /// What a holder may rely on: what is left by its own clock, in true time, less what clocks
    /// that are further apart than a client expects take from a lease of this TTL.
    pub(crate) fn promised(self, ttl: Duration, left: Duration) -> Duration {
        let ends = ttl.div_f64(1.0 + millionths(self.servers));
        let relied_on = ttl.saturating_sub(ttl / 100 + Duration::from_millis(2));
        let believed = relied_on.div_f64(1.0 - millionths(self.processes));
        left.saturating_sub(believed.saturating_sub(ends))
    }

    /// Returns true if they are no further apart than a client expects.
    pub(crate) fn are_close(self) -> bool {
        self.servers + self.processes <= 10_000
    }

    /// How long this time of a process's clock may last.
    pub(crate) fn longest(self, own: Duration) -> Duration {
        if self.processes == 0 { own } else { own.div_f64(1.0 - millionths(self.processes)) }
    }

    /// How short this time of a server's clock may be.
    pub(crate) fn shortest(self, of_server: Duration) -> Duration {
        if self.servers == 0 {
            of_server
        } else {
            of_server.div_f64(1.0 + millionths(self.servers))
        }
    }

    /// The most that two of them get apart in this time.
    pub(crate) fn apart(self, time: Micros) -> Micros {
        let widest = 2 * self.servers.max(self.processes);
        Rate::faster_by(widest).gained(time).unsigned_abs()
    }
}

fn millionths(rate: i64) -> f64 {
    f64::from(i32::try_from(rate).expect("a clock is not that fast")) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_what_is_due_when_it_is_due() {
        for faster in [-100_000, -9_999, -1, 0, 1, 4_999, 100_000] {
            let rate = Rate::faster_by(faster);
            for passed in [0, 1, 999, 2_000, 123_457, 86_400_000_000] {
                let shown = rate.passed(rate.own(passed));
                assert!((passed..=passed + 1).contains(&shown), "{faster}: {passed} is {shown}");
            }
        }
        assert_eq!(Rate::faster_by(-10_000).own(1_000), 990);
        assert_eq!(Rate::faster_by(-10_000).gained(1_000), -10);
    }

    #[test]
    fn within_a_hundredth_nothing_is_taken_back() {
        let second = Duration::from_secs(1);
        let near = |servers| Clocks { servers, processes: 10_000 - servers };
        for servers in [0, 3_000, 10_000] {
            assert_eq!(near(servers).promised(10 * second, second), second);
        }
        let far = Clocks { servers: 20_000, processes: 30_000 };
        let left = far.promised(10 * second, second).as_millis();
        assert!((590..610).contains(&left), "{left}");
    }
}
