//! The rules on one lock in plain values, for those who compare them with the scripts.

mod picture;

use std::collections::BTreeSet;
use std::time::Duration;

pub use self::picture::{DoneWork, Holding, Picture, Recorded, Standing, Waits, Wish};
use super::context::Context;
use super::counters::{Counters, Tokens};
use super::rate::RateState;
pub use super::rate::{Part, RatePicture, begins_together};
use super::state::LockState;
use super::time::Time;
use crate::store::{
    Answer, ClientId, Force, Forced, Hint, Note, Owner, Request, RequestCommand, RequestId,
    RunAgain, Take,
};

/// One lock, at the time of a command. Its methods run the rules.
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

    /// Runs a command for a request.
    pub fn run(&mut self, request: &Request, command: RequestCommand) -> Answer {
        self.with(|lock, context| super::run(lock, request, command, context))
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

    /// See [`LockCommand::ForceRelease`](crate::store::LockCommand::ForceRelease).
    pub fn force_release(&mut self, force: &Force) -> Forced {
        self.with(|lock, context| super::force_release(lock, force, context))
    }

    /// See [`LockCommand::RunAgain`](crate::store::LockCommand::RunAgain).
    pub fn run_again(&mut self, by: &Note, why: Option<&Note>) -> RunAgain {
        self.with(|lock, context| super::run_again(lock, by, why, context))
    }

    /// See [`LockCommand::IsHeldBy`](crate::store::LockCommand::IsHeldBy).
    pub fn is_held_by(&mut self, owner: &Owner) -> bool {
        super::is_held_by(&mut self.lock, owner, self.now)
    }
}

/// The rules on one rate.
#[derive(Debug, Default)]
pub struct ShadowRate(RateState);

impl ShadowRate {
    /// A rate in this state.
    #[must_use]
    pub fn new(picture: RatePicture) -> Self {
        Self(RateState::of(picture))
    }

    /// The state at this time, without what matters no longer.
    #[must_use]
    pub fn picture(&self, now: Duration) -> RatePicture {
        self.0.picture(Time::since_beginning(now))
    }

    /// When a request may begin that begins at a time or later, in microseconds since the Unix epoch.
    /// `None` if it was given back.
    pub fn begins(&mut self, take: &Take, at: u64, now: Duration) -> Option<u64> {
        self.0.forget(&take.settled);
        self.0.begins(take, at, Time::since_beginning(now))
    }

    /// Returns true if a request has taken.
    #[must_use]
    pub fn is_known(&self, id: RequestId, now: Duration) -> bool {
        self.0.is_known(id, Time::since_beginning(now))
    }

    /// Takes the first span that begins at a time or later: for how many microseconds the rate is used
    /// up.
    pub fn take(&mut self, take: &Take, at: u64, now: Duration) -> u64 {
        self.0.take(take, at, Time::since_beginning(now))
    }

    /// Gives back what a request took, and returns true if something was left of it.
    pub fn give_back(&mut self, take: &Take, now: Duration) -> bool {
        self.0.give_back(take, Time::since_beginning(now))
    }
}
