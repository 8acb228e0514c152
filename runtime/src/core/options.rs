//! The options of an acquisition, with their defaults and bounds.
#![doc = include_str!("../options.md")]

use std::time::Duration;

use super::error::LockError;

pub(crate) const SHORTEST_TTL: Duration = Duration::from_millis(100);
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
const LONGEST_LINGER: Duration = Duration::from_secs(60 * 60);
const SHORTEST_ONCE: Duration = Duration::from_millis(100);
const LONGEST_ONCE: Duration = Duration::from_secs(366 * 24 * 60 * 60);
const LONGEST_HOLD: Duration = Duration::from_secs(30 * 24 * 60 * 60);

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

    /// Refuses options that are out of their range, before a command is sent.
    pub(crate) fn check(&self) -> Result<(), LockError> {
        if self.ttl < SHORTEST_TTL || self.ttl > LONGEST {
            return Err(LockError::InvalidOption {
                option: "ttl",
                problem: format!("{:?} is not between 100 ms and 24 h", self.ttl),
            });
        }
        if self.hold_at_least > LONGEST {
            return Err(LockError::InvalidOption {
                option: "hold_at_least",
                problem: format!("{:?} is more than 24 h", self.hold_at_least),
            });
        }
        if self.linger > LONGEST_LINGER {
            return Err(LockError::InvalidOption {
                option: "linger",
                problem: format!("{:?} is more than 1 h", self.linger),
            });
        }
        if !self.linger.is_zero() && !self.hold_at_least.is_zero() {
            return Err(LockError::InvalidOption {
                option: "linger",
                problem: "it can't be combined with `hold_at_least`; leave out one of them"
                    .to_owned(),
            });
        }
        self.check_once()?;
        if self.max_hold.is_some_and(|most| most < SHORTEST_TTL || most > LONGEST_HOLD) {
            return Err(LockError::InvalidOption {
                option: "max_hold",
                problem: format!(
                    "{:?} is not between 100 ms and 30 days; `None` means no limit",
                    self.max_hold.unwrap_or_default()
                ),
            });
        }
        Ok(())
    }

    fn check_once(&self) -> Result<(), LockError> {
        let refuse = |option, problem: String| Err(LockError::InvalidOption { option, problem });
        for (option, time) in [("once", self.once), ("once_per", self.once_per)] {
            let Some(time) = time else { continue };
            if time < SHORTEST_ONCE || time > LONGEST_ONCE {
                return refuse(option, format!("{time:?} is not between 100 ms and 366 days"));
            }
            for (other, is_set) in [
                ("linger", !self.linger.is_zero()),
                ("hold_at_least", !self.hold_at_least.is_zero()),
            ] {
                if is_set {
                    let problem = format!("it can't be combined with `{other}`; leave out one");
                    return refuse(option, problem);
                }
            }
        }
        if self.once.is_some() && self.once_per.is_some() {
            return refuse("once", "it can't be combined with `once_per`; leave out one".into());
        }
        if !self.offset.is_zero() && self.once_per.is_none() {
            return refuse("offset", "it shifts the ticks of `once_per`, which is missing".into());
        }
        Ok(())
    }
}
