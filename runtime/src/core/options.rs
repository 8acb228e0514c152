//! What can be chosen for an acquisition, with its defaults and bounds.
#![doc = include_str!("../options.md")]

use std::time::Duration;

use super::error::LockError;

pub(crate) const SHORTEST_TTL: Duration = Duration::from_millis(100);
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
const LONGEST_HOLD: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How long to wait for a lock.
///
/// A [`Duration`] converts into it; a duration of zero does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// At most this long.
    For(Duration),
    /// Until it is acquired, or the future is dropped.
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
    pub(crate) renew: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(30),
            wait: Wait::For(Duration::from_secs(10)),
            hold_at_least: Duration::ZERO,
            max_hold: None,
            renew: true,
        }
    }
}

impl Options {
    /// The same, without waiting.
    pub(crate) fn at_once(self) -> Self {
        Self { wait: Wait::For(Duration::ZERO), ..self }
    }

    /// How long a grant lasts: the TTL, unless the lease is to be lost before.
    pub(crate) fn first_ttl(&self) -> Duration {
        self.max_hold.map_or(self.ttl, |most| most.min(self.ttl))
    }

    /// Refuses what lasts longer than the store can remember.
    pub(crate) fn check_longest(&self, longest: Duration) -> Result<(), LockError> {
        let options = [("ttl", self.ttl), ("hold_at_least", self.hold_at_least)];
        match options.into_iter().find(|(_, time)| *time > longest) {
            None => Ok(()),
            Some((option, time)) => Err(LockError::InvalidOption {
                option,
                problem: format!(
                    "{time:?} is more than the {longest:?} after which a server of the quorum \
                     counts again that has lost its memory; choose less, or a longer \
                     `longest_ttl` when connecting"
                ),
            }),
        }
    }

    /// Refuses what makes no sense, before a command is sent.
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
        if self.max_hold.is_some_and(|most| most < SHORTEST_TTL || most > LONGEST_HOLD) {
            return Err(LockError::InvalidOption {
                option: "max_hold",
                problem: format!(
                    "{:?} is not between 100 ms and 30 days; None is for ever",
                    self.max_hold.unwrap_or_default()
                ),
            });
        }
        Ok(())
    }
}
