//! The options of an acquisition, with their defaults and bounds. `docs/guide/options.md` has the table.

use std::time::Duration;

use super::error::LockError;
use super::option_rules::{
    ALL, HOLD_AT_LEAST, LINGER, MAX_HOLD, OFFSET, ONCE, ONCE_PER, REPLACE, Rule, SCHEDULE, TTL,
};

/// How long an acquisition waits for its lock.
///
/// A [`Duration`] converts into it.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::{Locks, Wait};
///
/// let order = Locks::in_memory().mutex("order:42");
/// let patient = order.clone().wait(Wait::Forever);
/// let hasty = order.wait(Duration::from_millis(200));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// Waits at most this long. With zero the call does not wait.
    For(Duration),
    /// Waits until the lock is acquired, or the future is dropped.
    Forever,
}

impl From<Duration> for Wait {
    fn from(time: Duration) -> Self {
        Self::For(time)
    }
}

/// Who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitsAs {
    Caller,
    /// A candidate in an election, which is to wait for as long as another leads.
    Candidate,
}

/// The options of one acquisition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) ttl: Duration,
    pub(crate) wait: Wait,
    pub(crate) hold_at_least: Duration,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) auto_renew: bool,
    /// How long a released lease may stay idle in this process. Zero: not at all.
    pub(crate) linger: Duration,
    /// How long work that has succeeded counts as done.
    pub(crate) once: Option<Duration>,
    /// The period of the ticks in each of which work is to succeed once.
    pub(crate) once_per: Option<Duration>,
    /// When a tick began, counted from the Unix epoch.
    pub(crate) offset: Duration,
    /// A newer acquisition ends the lease.
    pub(crate) replace: bool,
    pub(crate) waits_as: WaitsAs,
    /// Ticks of a calendar take the place of those of `once_per`.
    pub(crate) has_schedule: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(30),
            wait: Wait::For(Duration::from_secs(10)),
            hold_at_least: Duration::ZERO,
            max_hold: None,
            auto_renew: true,
            linger: Duration::ZERO,
            once: None,
            once_per: None,
            offset: Duration::ZERO,
            replace: false,
            waits_as: WaitsAs::Caller,
            has_schedule: false,
        }
    }
}

impl Options {
    /// The same options, without a wait.
    pub(crate) fn at_once(self) -> Self {
        Self { wait: Wait::For(Duration::ZERO), ..self }
    }

    /// How long a grant lasts: the TTL, or `max_hold` if that is shorter.
    pub(crate) fn first_ttl(&self) -> Duration {
        self.max_hold.map_or(self.ttl, |most| most.min(self.ttl))
    }

    /// Refuses times that are longer than the store can remember.
    pub(crate) fn check_longest(&self, longest: Duration) -> Result<(), LockError> {
        let options = [("ttl", self.ttl), ("hold_at_least", self.hold_at_least)];
        match options.into_iter().find(|(_, time)| *time > longest) {
            None => Ok(()),
            Some((option, time)) => Err(LockError::InvalidOption {
                option,
                problem: format!(
                    "{time:?} is longer than this quorum's `longest_ttl` of {longest:?}; choose a \
                     shorter time, or a longer `longest_ttl` when connecting"
                ),
            }),
        }
    }

    /// Refuses options that are out of their range or exclude one another, before a command is sent.
    pub(crate) fn check(&self, is_of_mutex: bool) -> Result<(), LockError> {
        let given = self.given();
        for (rule, time) in given.0 {
            if let Some(time) = time
                && let Some(problem) = given.problem(rule, time, is_of_mutex)
            {
                return Err(LockError::InvalidOption { option: rule.option, problem });
            }
        }
        Ok(())
    }

    /// The options that were set, of those that have rules.
    fn given(&self) -> Given {
        let unless_zero = |time: Duration| (!time.is_zero()).then_some(time);
        Given([
            (&TTL, Some(self.ttl)),
            (&MAX_HOLD, self.max_hold),
            (&HOLD_AT_LEAST, unless_zero(self.hold_at_least)),
            (&LINGER, unless_zero(self.linger)),
            (&ONCE, self.once),
            (&SCHEDULE, self.has_schedule.then_some(Duration::ZERO)),
            (&ONCE_PER, self.once_per),
            (&OFFSET, unless_zero(self.offset)),
            (&REPLACE, self.replace.then_some(Duration::ZERO)),
        ])
    }
}

/// The options that have rules, and their values.
struct Given([(&'static Rule, Option<Duration>); ALL.len()]);

impl Given {
    fn has(&self, option: &str) -> bool {
        self.0.iter().any(|(rule, time)| rule.option == option && time.is_some())
    }

    /// What a rule has against a value and its neighbours, in words.
    fn problem(&self, rule: &Rule, time: Duration, is_of_mutex: bool) -> Option<String> {
        if rule.is_for_mutexes && !is_of_mutex {
            return Some("it is for mutexes alone; leave it out".to_owned());
        }
        if let Some(range) = rule.out_of_range(time) {
            let without = if rule.option == "max_hold" { "; `None` means no limit" } else { "" };
            return Some(format!("{time:?} is out of range: it must be {range}{without}"));
        }
        if let Some((other, why)) = rule.not_with.iter().find(|(other, _)| self.has(other)) {
            return Some(format!(
                "it can't be combined with `{other}`: {why}; leave out one of them"
            ));
        }
        // Before it, since a layer is judged at the line of each option.
        let (other, why) = rule.needs.filter(|(other, _)| !self.has(other))?;
        Some(format!("{why}: add `{other}` before it, or leave out `{}`", rule.option))
    }
}
