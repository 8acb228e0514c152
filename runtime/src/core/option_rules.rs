//! Which values the options of a lock take, and which options exclude one another.
//!
//! The runtime checks the options of a handle by these rules, and the attribute its arguments. A
//! crate of macros can't use the runtime, so `macros/src/option_rules.rs` is a copy of this file. A
//! test compares the two, and the tables of the docs with both; another one the tool's arguments.

use std::fmt;
use std::time::Duration;

/// The rule of one option.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Its name.
    pub(crate) option: &'static str,
    /// The times that it takes, if not all.
    pub(crate) range: Option<Range>,
    /// No other lock has it.
    pub(crate) is_for_mutexes: bool,
    /// The options that it can't be combined with, and why.
    pub(crate) not_with: &'static [(&'static str, &'static str)],
    /// The option without which it means nothing, and why.
    pub(crate) needs: Option<(&'static str, &'static str)>,
}

/// The times from the least to the most, both included.
#[derive(Debug)]
pub(crate) struct Range {
    /// The shortest time.
    pub(crate) least: Bound,
    /// The longest time.
    pub(crate) most: Bound,
}

/// A time, also as people write it.
#[derive(Debug)]
pub(crate) struct Bound {
    /// Such as "24h".
    pub(crate) text: &'static str,
    /// The same.
    pub(crate) time: Duration,
}

impl Rule {
    /// The range that a time is not in.
    pub(crate) fn out_of_range(&self, time: Duration) -> Option<&Range> {
        self.range.as_ref().filter(|range| !range.has(time))
    }
}

impl Range {
    /// Returns true if a time is in it.
    pub(crate) fn has(&self, time: Duration) -> bool {
        self.least.time <= time && time <= self.most.time
    }
}

/// "from 100ms to 24h", or "at most 1h".
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least.time.is_zero() {
            write!(f, "at most {}", self.most.text)
        } else {
            write!(f, "from {} to {}", self.least.text, self.most.text)
        }
    }
}

/// The shortest TTL: a client renews a lease every third of it.
pub(crate) const SHORTEST: Bound = Bound { text: "100ms", time: Duration::from_millis(100) };
const ZERO: Bound = Bound { text: "0", time: Duration::ZERO };
const HOUR: Bound = Bound { text: "1h", time: Duration::from_secs(60 * 60) };
/// The longest TTL.
pub(crate) const DAY: Bound = Bound { text: "24h", time: Duration::from_secs(24 * 60 * 60) };
const MONTH: Bound = Bound { text: "30days", time: Duration::from_secs(30 * 24 * 60 * 60) };
const YEAR: Bound = Bound { text: "366days", time: Duration::from_secs(366 * 24 * 60 * 60) };

/// A rule that says nothing yet.
pub(crate) const fn rule(option: &'static str) -> Rule {
    Rule { option, range: None, is_for_mutexes: false, not_with: &[], needs: None }
}

const fn range(least: Bound, most: Bound) -> Range {
    Range { least, most }
}

/// The rule of `ttl`.
pub(crate) const TTL: Rule = Rule { range: Some(range(SHORTEST, DAY)), ..rule("ttl") };

/// The rule of `max_hold`.
pub(crate) const MAX_HOLD: Rule = Rule { range: Some(range(SHORTEST, MONTH)), ..rule("max_hold") };

/// The rule of `hold_at_least`.
pub(crate) const HOLD_AT_LEAST: Rule =
    Rule { range: Some(range(ZERO, DAY)), is_for_mutexes: true, ..rule("hold_at_least") };

/// The rule of `linger`.
pub(crate) const LINGER: Rule = Rule {
    range: Some(range(ZERO, HOUR)),
    not_with: &[(
        "hold_at_least",
        "a lock that lingers is free for others on demand, and `hold_at_least` keeps it from all",
    )],
    ..rule("linger")
};

const ENDS_BY_ITSELF: &str =
    "a success refuses all later runs, and after a failure the lock must be free at once";

/// The rule of `once`.
pub(crate) const ONCE: Rule = Rule {
    range: Some(range(SHORTEST, YEAR)),
    is_for_mutexes: true,
    not_with: &[
        ("once_per", "`once` counts from the success, and `once_per` from the beginning of a tick"),
        ("hold_at_least", ENDS_BY_ITSELF),
        ("linger", ENDS_BY_ITSELF),
    ],
    ..rule("once")
};

/// The rule of `once_per`.
pub(crate) const ONCE_PER: Rule = Rule {
    range: Some(range(SHORTEST, YEAR)),
    is_for_mutexes: true,
    not_with: &[("hold_at_least", ENDS_BY_ITSELF), ("linger", ENDS_BY_ITSELF)],
    ..rule("once_per")
};

/// The rule of `offset`.
pub(crate) const OFFSET: Rule =
    Rule { needs: Some(("once_per", "`offset` shifts the ticks of `once_per`")), ..rule("offset") };

const SAYS_WHEN: &str = "a schedule says by itself when a tick begins, and how long it lasts";

/// The rule of `schedule`.
pub(crate) const SCHEDULE: Rule = Rule {
    is_for_mutexes: true,
    not_with: &[
        ("once", SAYS_WHEN),
        ("once_per", SAYS_WHEN),
        ("offset", SAYS_WHEN),
        ("hold_at_least", ENDS_BY_ITSELF),
        ("linger", ENDS_BY_ITSELF),
    ],
    ..rule("schedule")
};

/// The rule of `replace`.
pub(crate) const REPLACE: Rule = Rule {
    is_for_mutexes: true,
    not_with: &[
        ("once", "work that is done once has no newer run"),
        ("hold_at_least", "a lock that is kept from all can't go to a newer run"),
        ("linger", "a lock that lingers is free for others on demand, and its work goes on"),
    ],
    ..rule("replace")
};

/// All rules.
pub(crate) const ALL: [Rule; 9] =
    [TTL, MAX_HOLD, HOLD_AT_LEAST, LINGER, ONCE, SCHEDULE, ONCE_PER, OFFSET, REPLACE];
