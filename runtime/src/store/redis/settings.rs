//! The settings of a client's connections, and their ranges.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::limits::MIN_LIMIT;
use crate::core::error::LockError;

/// How a client connects to its servers.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The prefix of all keys.
    pub prefix: String,
    /// How many connections carry commands, 1 to 16.
    pub connections: usize,
    /// How long a new connection may take, with its handshake.
    pub connect_timeout: Duration,
    /// The most time that a command may take.
    pub command_timeout: Duration,
    /// How many replicas must confirm a grant, and within what time.
    pub sync_replicas: Option<(usize, Duration)>,
    /// The server is a member of a quorum.
    pub is_member: bool,
    /// A server that started less than this ago grants nothing: it may have lost locks.
    pub counts_after: Option<Duration>,
}

const CONNECTIONS: RangeInclusive<usize> = 1..=16;

/// With a shorter one, a slow answer would count as none.
const TIMEOUTS: RangeInclusive<Duration> = MIN_LIMIT..=LONGEST;

const LONGEST: Duration = Duration::from_secs(60);

impl Default for Settings {
    fn default() -> Self {
        Self {
            prefix: "leasehold".to_owned(),
            connections: 1,
            connect_timeout: Duration::from_secs(1),
            command_timeout: Duration::from_millis(500),
            sync_replicas: None,
            is_member: false,
            counts_after: None,
        }
    }
}

impl Settings {
    /// The defaults, with this prefix of all keys.
    #[must_use]
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..Self::default() }
    }

    pub(super) fn check(&self) -> Result<(), LockError> {
        let wrong = |option, problem| Err(LockError::InvalidOption { option, problem });
        let prefix = &*self.prefix;
        if prefix.is_empty() || prefix.contains(['{', '}']) || prefix.contains(char::is_control) {
            let problem =
                format!("{prefix:?} is empty, or has a brace or a control character in it");
            return wrong("prefix", problem);
        }
        if !CONNECTIONS.contains(&self.connections) {
            return wrong("connections", format!("{} is not 1 to 16", self.connections));
        }
        let timeouts =
            [("connect_timeout", self.connect_timeout), ("command_timeout", self.command_timeout)];
        for (option, time) in timeouts {
            if !TIMEOUTS.contains(&time) {
                return wrong(option, format!("{time:?} is not 33 ms to 60 s"));
            }
        }
        if let Some((replicas, time)) = self.sync_replicas
            && (replicas == 0 || !(Duration::from_millis(1)..=LONGEST).contains(&time))
        {
            let problem = format!("{replicas} in {time:?} is not at least 1 in 1 ms to 60 s");
            return wrong("sync_replicas", problem);
        }
        Ok(())
    }

    /// Refuses `sync_replicas` for connections that can't wait for replicas.
    pub(super) fn check_no_sync(&self, place: &str) -> Result<(), LockError> {
        match self.sync_replicas {
            None => Ok(()),
            Some(_) => Err(LockError::InvalidOption {
                option: "sync_replicas",
                problem: format!("it is not available {place}; leave it out"),
            }),
        }
    }
}
