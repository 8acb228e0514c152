//! The rules on one lock in plain values, for those who compare them with the scripts.

mod picture;

use std::collections::BTreeSet;
use std::time::Duration;

pub use self::picture::{DoneWork, Holding, Picture, Recorded, Standing, Waits, Wish};
use super::context::Context;
use super::counters::{Counters, Tokens};
use super::state::LockState;
use super::time::Time;
use crate::store::{
    Adoption, Attempt, ClientId, Detached, Ended, Forced, Hint, Lingering, Owner, Renewal,
    Repaired, Request, Stamp, Success, Usage, Waiting,
};

/// One lock, at the time of a command. Each method runs the rule of its name.
#[derive(Debug)]
pub struct Shadow {
    lock: LockState,
    counters: Counters,
    now: Time,
    /// The clients that receive hints; `None` for all.
    listening: Option<BTreeSet<Vec<u8>>>,
    hints: Vec<(ClientId, Hint)>,
}

impl Shadow {
    /// A lock in this state, in which nothing has expired, at this time since the Unix epoch.
    /// `noted` is the greatest token that the server has given, if it notes that.
    #[must_use]
    pub fn new(
        picture: Picture,
        now: Duration,
        noted: Option<u64>,
        listening: Option<BTreeSet<Vec<u8>>>,
    ) -> Self {
        let (lock, now) = (picture.into_state(), Time::since_beginning(now));
        let mut shadow =
            Self { lock, counters: Counters::default(), now, listening, hints: Vec::new() };
        let is_ahead = noted.is_some_and(|greatest| greatest >= now.micros());
        shadow.set_noted(noted, is_ahead);
        shadow
    }

    /// Another lock of the same call may have noted a greater token. What the clock was ahead of is
    /// decided when the call begins.
    pub fn set_noted(&mut self, noted: Option<u64>, is_ahead: bool) {
        self.counters = Counters::new(match noted {
            Some(greatest) => Tokens::Noted { greatest, is_ahead },
            None => Tokens::Clock,
        });
    }

    /// The greatest token that was given.
    #[must_use]
    pub fn noted(&self) -> Option<u64> {
        self.counters.noted()
    }

    /// The state now.
    #[must_use]
    pub fn picture(&self) -> Picture {
        Picture::of(&self.lock)
    }

    /// The hints of all commands so far.
    #[must_use]
    pub fn hints(&self) -> &[(ClientId, Hint)] {
        &self.hints
    }

    fn with<T>(&mut self, rule: impl FnOnce(&mut LockState, &mut Context<'_>) -> T) -> T {
        let listening = &self.listening;
        let is_listening =
            |client: ClientId| listening.as_ref().is_none_or(|it| it.contains(client.as_bytes()));
        let mut context = Context {
            now: self.now,
            counters: &mut self.counters,
            is_listening: &is_listening,
            hints: std::mem::take(&mut self.hints),
        };
        let answer = rule(&mut self.lock, &mut context);
        self.hints = context.hints;
        answer
    }

    /// See [`Store::acquire`](crate::store::Store::acquire).
    pub fn acquire(&mut self, request: &Request, waiting: Option<Waiting>) -> Attempt {
        self.with(|lock, context| super::acquire(lock, request, waiting, context))
    }

    /// Returns true if [`take`](Self::take) would grant it.
    pub fn is_available(&mut self, request: &Request) -> bool {
        let now = self.now;
        super::is_available(&mut self.lock, request, now)
    }

    /// Takes an available lock.
    pub fn take(&mut self, request: &Request) -> u64 {
        self.with(|lock, context| super::take(lock, request, context))
    }

    /// See [`QuorumMember::vote`](crate::store::QuorumMember::vote).
    pub fn vote(&mut self, request: &Request, again: Duration) -> Attempt {
        self.with(|lock, context| super::vote(lock, request, again, context))
    }

    /// See [`QuorumMember::repair`](crate::store::QuorumMember::repair).
    pub fn repair(&mut self, request: &Request, token: u64, lasts: Duration) -> Repaired {
        self.with(|lock, context| super::repair(lock, request, token, lasts, context))
    }

    /// See [`Store::renew`](crate::store::Store::renew).
    pub fn renew(&mut self, request: &Request) -> Renewal {
        super::renew(&mut self.lock, request, self.now)
    }

    /// See [`Store::keep_offer`](crate::store::Store::keep_offer).
    pub fn keep_offer(&mut self, request: &Request, until: Stamp) {
        super::keep_offer(&mut self.lock, request, until, self.now);
    }

    /// See [`Store::adopt`](crate::store::Store::adopt).
    pub fn adopt(&mut self, from: Detached, request: &Request) -> Adoption {
        self.with(|lock, context| super::adopt(lock, from, request, context))
    }

    /// See [`Store::release`](crate::store::Store::release).
    pub fn release(&mut self, request: &Request, keep: Duration) -> Ended {
        self.with(|lock, context| super::release(lock, request, keep, context))
    }

    /// See [`Store::release_and_forget`](crate::store::Store::release_and_forget).
    pub fn release_and_forget(&mut self, request: &Request) -> Ended {
        self.with(|lock, context| super::release_and_forget(lock, request, context))
    }

    /// See [`Store::complete`](crate::store::Store::complete).
    pub fn complete(&mut self, request: &Request, success: Success) -> Ended {
        self.with(|lock, context| super::complete(lock, request, success, context))
    }

    /// See [`Store::linger`](crate::store::Store::linger).
    pub fn linger(&mut self, request: &Request, usage: Usage) -> Lingering {
        self.with(|lock, context| super::linger(lock, request, usage, context))
    }

    /// See [`Store::cancel`](crate::store::Store::cancel).
    pub fn cancel(&mut self, request: &Request) -> bool {
        self.with(|lock, context| super::cancel(lock, request, context))
    }

    /// See [`Store::force_release`](crate::store::Store::force_release).
    pub fn force_release(&mut self) -> Forced {
        self.with(super::force_release)
    }

    /// See [`Store::was_forced`](crate::store::Store::was_forced).
    #[must_use]
    pub fn was_forced(&self, request: &Request) -> bool {
        super::was_forced(&self.lock, request)
    }

    /// See [`Store::is_held_by`](crate::store::Store::is_held_by).
    pub fn is_held_by(&mut self, owner: &Owner) -> bool {
        super::is_held_by(&mut self.lock, owner, self.now)
    }
}
