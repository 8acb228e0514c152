//! Fencing tokens and queue positions: the includes `token` and `raise_token`.

use std::time::Duration;

use super::time::{Time, micros};
use crate::store::TOKENS;

/// How far a clock may be behind a token of another store, in microseconds.
const BEHIND: u64 = 100_000;

/// How far a clock may be behind its own token, in microseconds, before it counts as set back.
const OWN_BEHIND: u64 = 200_000;

/// A fencing token; 0 if the lock had none yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Token {
    pub(super) number: u64,
    /// When it was first given.
    pub(super) since: Option<Time>,
}

/// A store's counts over all its locks.
#[derive(Debug, Default)]
pub(in crate::store) struct Counters {
    tokens: Tokens,
    last_position: u64,
}

/// Where the tokens of a store come from.
#[derive(Debug)]
pub(in crate::store) enum Tokens {
    /// From a counter for all locks; this is its last value.
    Counter(u64),
    /// From the store's clock, in microseconds, as on a member of a quorum.
    Clock,
    /// The same, and above all that were given, as on one server.
    #[cfg(feature = "internals")]
    Noted {
        /// The greatest token that was given.
        greatest: u64,
        /// It was ahead of the clock when the command began.
        is_ahead: bool,
    },
}

impl Default for Tokens {
    fn default() -> Self {
        Self::Counter(0)
    }
}

impl Counters {
    pub(in crate::store) fn new(tokens: Tokens) -> Self {
        Self { tokens, last_position: 0 }
    }

    /// Returns true if a token is greater than all before it, also without the lock's record.
    pub(super) fn outlive_records(&self) -> bool {
        !matches!(self.tokens, Tokens::Clock)
    }

    /// The token that follows a lock's last one.
    pub(super) fn next_token(&mut self, last: Token, now: Time) -> Token {
        let number = match &mut self.tokens {
            Tokens::Counter(count) => {
                *count += TOKENS;
                *count
            }
            Tokens::Clock => now.micros().max(last.number + TOKENS),
            #[cfg(feature = "internals")]
            Tokens::Noted { greatest, is_ahead } => {
                let above = if *is_ahead { last.number.max(*greatest) } else { last.number };
                let number = now.micros().max(above + TOKENS);
                *greatest = number.max(*greatest);
                number
            }
        };
        debug_assert!(number > last.number, "{number} after {last:?}");
        Token { number, since: Some(now) }
    }

    /// The token of a lease that is kept without being used: its client has all between the last
    /// one and this.
    pub(super) fn reserve(&mut self, last: Token, now: Time) -> Token {
        let number = now.micros().max(last.number);
        match &mut self.tokens {
            Tokens::Counter(_) => return self.next_token(last, now),
            Tokens::Clock => {}
            #[cfg(feature = "internals")]
            Tokens::Noted { greatest, .. } => *greatest = number.max(*greatest),
        }
        Token { number, since: Some(now) }
    }

    /// The greatest token that was given, where that is noted.
    #[cfg(feature = "internals")]
    pub(super) fn noted(&self) -> Option<u64> {
        match self.tokens {
            Tokens::Noted { greatest, .. } => Some(greatest),
            _ => None,
        }
    }

    /// Raises a record's token to `number` at least (0: leaves it). Fails if the clock is too
    /// far behind, with the time that is missing. A counter is never behind: it continues
    /// above the raised token.
    pub(super) fn raise_token(
        &mut self,
        mut last: Token,
        number: u64,
        lasts: Duration,
        now: Time,
    ) -> Result<Token, Duration> {
        if number == 0 {
            return Ok(last);
        }
        if matches!(self.tokens, Tokens::Clock) {
            let mut from = now.micros();
            if last.number + TOKENS > from + OWN_BEHIND {
                // The clock was set back since, or gave a token when it was wrong.
                if number < last.number {
                    last = Token { number: from.max(number), since: Some(now) };
                } else {
                    from = last.number;
                }
            }
            let behind = (number + TOKENS).saturating_sub(from + micros(lasts).min(BEHIND));
            if number > last.number && behind > 0 {
                return Err(Duration::from_millis(behind.div_ceil(1000)));
            }
        }
        if number <= last.number {
            return Ok(last);
        }
        if let Tokens::Counter(count) = &mut self.tokens {
            *count = number.max(*count);
        }
        Ok(Token { number, since: Some(now) })
    }

    /// When the clock reaches a token; now, if tokens come from a counter.
    pub(super) fn clock_reaches(&self, token: Token, now: Time) -> Time {
        if matches!(self.tokens, Tokens::Counter(_)) {
            return now;
        }
        let missing = (token.number + TOKENS).saturating_sub(now.micros());
        now + Duration::from_millis(missing.div_ceil(1000))
    }

    /// The queue position of a waiter that first asked `age` ago. Two waiters that ask now get
    /// different ones, even if the clock stands still.
    pub(super) fn next_position(&mut self, age: Duration, now: Time) -> u64 {
        let age = micros(age);
        if age > 0 {
            return now.micros().saturating_sub(age);
        }
        self.last_position = now.micros().max(self.last_position + 1);
        self.last_position
    }
}
