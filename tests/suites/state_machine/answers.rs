//! Whether two answers are alike.

use std::collections::HashMap;
use std::time::Duration;

use leasehold::store::{Attempt, Ended, Renewal};

/// An answer to any command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Attempt(Attempt),
    Renewal(Renewal),
    Ended(Ended),
    Cancelled(bool),
}

/// A server counts whole milliseconds, memory as finely as it can.
const GRAIN: Duration = Duration::from_millis(1);

/// What the numbers of both stores have to do with each other.
#[derive(Default)]
pub(super) struct Likeness {
    /// The tokens of each lock, in pairs.
    tokens: HashMap<String, Vec<(u64, u64)>>,
    /// What the server's clock is ahead of memory's, in microseconds.
    ahead: Option<u64>,
}

impl Likeness {
    pub(super) fn check(
        &mut self,
        name: &str,
        memory: Answer,
        redis: Answer,
    ) -> Result<(), String> {
        use Answer::Attempt as Asked;
        let is_alike = match (memory, redis) {
            (
                Asked(Attempt::Granted { token: first }),
                Asked(Attempt::Granted { token: second }),
            ) => self.same_token(name, first, second),
            (
                Asked(Attempt::Queued { ticket: place, until, ask_again }),
                Asked(Attempt::Queued { ticket, until: until_ms, ask_again: again }),
            ) => {
                let is_same =
                    self.same_time(place, ticket) && self.same_time(until, until_ms * 1000);
                is_same && ask_again.abs_diff(again) < GRAIN
            }
            (
                Asked(Attempt::Busy { retry_after: first, repaired: false }),
                Asked(Attempt::Busy { retry_after: second, repaired: false }),
            ) => first.abs_diff(second) < GRAIN,
            _ => memory == redis,
        };
        if is_alike { Ok(()) } else { Err(format!("memory {memory:?}, redis {redis:?}")) }
    }

    /// The same or new in both, and in the same order.
    fn same_token(&mut self, name: &str, memory: u64, redis: u64) -> bool {
        let seen = self.tokens.entry(name.to_owned()).or_default();
        let is_same = seen.iter().all(|(first, second)| memory.cmp(first) == redis.cmp(second));
        seen.push((memory, redis));
        is_same
    }

    fn same_time(&mut self, memory: u64, redis: u64) -> bool {
        redis.wrapping_sub(memory) == *self.ahead.get_or_insert(redis.wrapping_sub(memory))
    }
}
