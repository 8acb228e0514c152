//! The pauses between attempts to reconnect.

use std::time::Duration;

use crate::system;

/// Each pause is twice as long as the one before, from 100 ms up to 5 s. Their length is
/// random, so that clients do not all come back at once.
#[derive(Default)]
pub(super) struct Backoff {
    attempts: u32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(5);

    pub(super) fn next(&mut self) -> Duration {
        let pause = (Self::FIRST * (1 << self.attempts)).min(Self::LONGEST);
        self.attempts = (self.attempts + 1).min(6);
        system::equal_jitter(pause)
    }
}
