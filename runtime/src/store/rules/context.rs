//! A rule gets a context besides the lock and the request: the time, the tokens, the hints.

use super::counters::{Counters, Token};
use super::limits::GRACE;
use super::time::Time;
use crate::store::{ClientId, Hint};

/// The time of a command, the store's counters, and room for hints.
pub(in crate::store) struct Context<'a> {
    /// The time of the command, by the store's clock.
    pub(in crate::store) now: Time,
    pub(in crate::store) counters: &'a mut Counters,
    /// Returns true for a client that receives hints now. On a server, `PUBLISH` says so.
    pub(in crate::store) is_listening: &'a dyn Fn(ClientId) -> bool,
    /// The hints to send when the command is done.
    pub(in crate::store) hints: Vec<(ClientId, Hint)>,
}

impl Context<'_> {
    /// The token that follows a lock's last one.
    pub(super) fn next_token(&mut self, last: Token) -> Token {
        self.counters.next_token(last, self.now)
    }

    /// The token of a lease that its client keeps without using it.
    pub(super) fn reserve(&mut self, last: Token) -> Token {
        self.counters.reserve(last, self.now)
    }

    /// When the clock reaches a token.
    pub(super) fn clock_reaches(&self, token: Token) -> Time {
        self.counters.clock_reaches(token, self.now)
    }

    /// How long a free record stays: for a while, and until the clock has reached its token.
    pub(super) fn free_until(&self, token: Token) -> Time {
        (self.now + GRACE).max(self.clock_reaches(token))
    }

    /// Adds a hint. False if the client receives none.
    pub(super) fn tell(&mut self, client: ClientId, hint: Hint) -> bool {
        let is_heard = (self.is_listening)(client);
        if is_heard {
            self.hints.push((client, hint));
        }
        is_heard
    }
}
