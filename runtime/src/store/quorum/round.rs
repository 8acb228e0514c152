//! One round: all stores are asked for a lock, and what a majority says is the answer.
//!
//! Its token is the least that is as great as those of a majority: so it is greater than
//! all before, each of which a majority knew; and as long as most clocks are right, it is
//! of one of those, or between two. And a majority has to know it, or one of the next
//! majority might grant a smaller one: those count that gave one as great, or were told;
//! not one whose own is far greater, for its clock may be set right.
//!
//! A round is one request. One that is not granted is taken back wherever it may be
//! held, and is never asked again: so what is taken back is of no later round, whatever
//! comes late, and in whatever order.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt};
use tokio::runtime::Handle;

use super::pending_cancels::{Member, owe};
use super::{AHEAD, Asked, ask, majority, no_majority};
use crate::core::error::Outcome;
use crate::store::{Attempt, Repaired, Request, StoreError};

/// How long to wait at least before a lock is asked for again that several want at once.
const LEAST: Duration = Duration::from_millis(20);

const BY_NTP: &str = "set clocks by NTP";

/// What is known of a store's vote.
enum Vote {
    /// It has not answered.
    Open,
    /// It granted, and grants nobody a smaller token than this after it.
    Granted(u64),
    Refused(Attempt),
    /// It did not answer, or not as it should.
    Failed(Failure),
}

struct Failure {
    why: String,
    /// It may hold the lease all the same.
    may_hold: bool,
    /// Whether the same may well succeed a little later.
    is_passing: bool,
    is_shut_down: bool,
}

impl Failure {
    fn said(why: String) -> Self {
        Self { why, may_hold: true, is_passing: true, is_shut_down: false }
    }

    fn met(error: &StoreError, may_hold: bool) -> Self {
        let StoreError { is_passing, is_shut_down, .. } = *error;
        Self { why: error.source.to_string(), may_hold, is_passing, is_shut_down }
    }
}

/// Whether a store with this token of its own knows another.
fn knows(own: u64, token: u64) -> bool {
    own.checked_sub(token).is_some_and(|more| u128::from(more) <= 2 * AHEAD.as_micros())
}

/// What a store says.
enum Said {
    Vote(Result<Attempt, StoreError>),
    Repair(Result<Repaired, StoreError>),
}

/// A round under way.
pub(super) struct Round {
    members: Arc<[Arc<Member>]>,
    request: Request,
    runtime: Handle,
    votes: Vec<Vote>,
    answers: Asked<Said>,
    /// Who was told what the token is.
    told: Vec<(usize, u64)>,
    /// By how much the clock of each is behind a token that it was told.
    behind: Vec<Option<Duration>>,
}

impl Round {
    /// Asks all stores.
    pub(super) fn begin(
        members: &Arc<[Arc<Member>]>,
        request: &Request,
        again: Duration,
        runtime: &Handle,
    ) -> Self {
        let vote = |member: &Member| member.store.vote(request, again).map(Said::Vote);
        Self {
            answers: ask(members, vote),
            members: members.clone(),
            request: request.clone(),
            runtime: runtime.clone(),
            votes: members.iter().map(|_| Vote::Open).collect(),
            told: Vec::new(),
            behind: vec![None; members.len()],
        }
    }

    /// Waits until a majority has decided. What is not granted is taken back before this
    /// returns, from all who said that they granted it; from others in the background.
    pub(super) async fn run(mut self) -> Result<Attempt, StoreError> {
        loop {
            let granted = self.count(|vote| matches!(vote, Vote::Granted(_)));
            let open = self.count(|vote| matches!(vote, Vote::Open));
            let needed = majority(&self.members);
            if !self.request.kind.is_fenced() && granted >= needed {
                return Ok(Attempt::Granted { token: 0 });
            }
            if let Some(token) = self.token() {
                let is_known =
                    |vote: &Vote| matches!(vote, Vote::Granted(own) if knows(*own, token));
                if self.count(is_known) >= needed {
                    return Ok(Attempt::Granted { token });
                }
                self.tell(token);
            }
            if granted + open < needed {
                return self.give_up().await;
            }
            match self.answers.next().await {
                Some((place, said)) => self.take(place, said),
                None if self.doubt() => {}
                None => return self.give_up().await,
            }
        }
    }

    fn count(&self, which: impl Fn(&Vote) -> bool) -> usize {
        self.votes.iter().filter(|vote| which(vote)).count()
    }

    /// The least token that is as great as those of a majority, if so many granted.
    fn token(&self) -> Option<u64> {
        let tokens = self.votes.iter().filter_map(|vote| match vote {
            Vote::Granted(own) => Some(*own),
            _ => None,
        });
        let mut tokens: Vec<_> = tokens.collect();
        tokens.sort_unstable();
        tokens.get(majority(&self.members) - 1).copied()
    }

    /// Where some could not take the token, those with far greater ones may have them of
    /// clocks that were wrong: whether there was any to tell so.
    fn doubt(&mut self) -> bool {
        let behind = self.votes.iter().zip(&self.behind).filter(|(_, behind)| behind.is_some());
        let tokens = behind.filter_map(|(vote, _)| match vote {
            Vote::Granted(own) => Some(*own),
            _ => None,
        });
        tokens.max().is_some_and(|token| self.tell(token))
    }

    /// Lets those know a token who do not yet, and says whether there was any: they take
    /// it if their clocks are not far behind it; or are far behind their own, which is
    /// greater.
    fn tell(&mut self, token: u64) -> bool {
        let count = self.told.len();
        for (place, vote) in self.votes.iter().enumerate() {
            let is_news = matches!(vote, Vote::Granted(own) if !knows(*own, token));
            if is_news && !self.told.contains(&(place, token)) {
                self.told.push((place, token));
                let repair = self.members[place].store.repair(&self.request, token, Duration::ZERO);
                self.answers.push(Box::pin(async move { (place, Said::Repair(repair.await)) }));
            }
        }
        self.told.len() > count
    }

    fn take(&mut self, place: usize, said: Said) {
        self.votes[place] = match said {
            // It does not count any more.
            Said::Repair(_) if !matches!(self.votes[place], Vote::Granted(_)) => return,
            Said::Vote(Ok(Attempt::Granted { token }))
            | Said::Repair(Ok(Repaired::Held { token })) => Vote::Granted(token),
            Said::Vote(Ok(refusal)) => Vote::Refused(refusal),
            Said::Vote(Err(error)) => {
                Vote::Failed(Failure::met(&error, error.outcome == Outcome::Unknown))
            }
            Said::Repair(Ok(Repaired::NotHeld)) => {
                Vote::Failed(Failure::said("it lost the lease at once".to_owned()))
            }
            // It has the lease all the same.
            Said::Repair(Ok(Repaired::Behind(time))) => {
                self.behind[place] = Some(time);
                return;
            }
            Said::Repair(Err(error)) => Vote::Failed(Failure::met(&error, true)),
        };
    }

    /// Takes the request back, and says why it was not granted.
    async fn give_up(mut self) -> Result<Attempt, StoreError> {
        let mut undone = Vec::new();
        for (member, vote) in self.members.iter().zip(&self.votes) {
            match vote {
                Vote::Granted(_) => undone.push(async {
                    if member.store.cancel(&self.request).await.is_err() {
                        owe(member, &self.request, &self.runtime);
                    }
                }),
                Vote::Open | Vote::Failed(Failure { may_hold: true, .. }) => {
                    owe(member, &self.request, &self.runtime);
                }
                Vote::Refused(_) | Vote::Failed(_) => {}
            }
        }
        join_all(undone).await;
        self.leave_out_who_is_ahead();
        self.answer()
    }

    /// Where a majority granted, and could not agree on a token, those have failed whose
    /// clocks are ahead of the others'.
    fn leave_out_who_is_ahead(&mut self) {
        let Some((token, time)) = self.token().zip(self.behind.iter().flatten().max()) else {
            return;
        };
        for vote in &mut self.votes {
            if matches!(vote, Vote::Granted(own) if *own >= token) {
                *vote = Vote::Failed(Failure::said(format!(
                    "its clock is {time:.1?} too far ahead of another's; {BY_NTP}"
                )));
            }
        }
    }

    fn answer(&self) -> Result<Attempt, StoreError> {
        let needed = majority(&self.members);
        if self.failures().count() >= needed {
            return Err(self.no_majority());
        }
        for verdict in [Attempt::Ended, Attempt::WrongKind, Attempt::WouldDeadlock] {
            if self.count(|vote| matches!(vote, Vote::Refused(said) if *said == verdict)) >= needed
            {
                return Ok(verdict);
            }
        }
        let (mut lefts, mut expiry_added, mut keep) = (Vec::new(), false, 0);
        for vote in &self.votes {
            match vote {
                Vote::Refused(Attempt::Busy { retry_after, expiry_added: is_added, kept }) => {
                    lefts.push(*retry_after);
                    expiry_added |= is_added;
                    keep += usize::from(*kept);
                }
                Vote::Refused(_) => lefts.push(self.request.ttl),
                _ => {}
            }
        }
        // So many of those who refuse have to let go before there can be a majority.
        lefts.sort_unstable();
        let missing =
            needed.saturating_sub(self.votes.len() - lefts.len() - self.failures().count());
        let retry_after = missing.checked_sub(1).and_then(|nth| lefts.get(nth).copied());
        // If none: several want it at once, and each had its part.
        let retry_after = retry_after.unwrap_or(LEAST).max(LEAST);
        // A release is done when a majority keeps it.
        Ok(Attempt::Busy { retry_after, expiry_added, kept: keep >= needed })
    }

    fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.votes.iter().filter_map(|vote| match vote {
            Vote::Failed(failure) => Some(failure),
            _ => None,
        })
    }

    fn no_majority(&self) -> StoreError {
        let answer = |((member, vote), behind): ((&Arc<Member>, &Vote), &Option<Duration>)| {
            let answer = match vote {
                Vote::Open => "no answer yet".to_owned(),
                Vote::Granted(_) => behind.map_or_else(
                    || "granted, and taken back".to_owned(),
                    |time| format!("its clock is {time:.1?} too far behind another's; {BY_NTP}"),
                ),
                Vote::Refused(refusal) => no_majority::attempt(refusal),
                Vote::Failed(failure) => failure.why.clone(),
            };
            (member.name.clone(), answer)
        };
        let answers = self.members.iter().zip(&self.votes).zip(&self.behind).map(answer);
        let failures = self.failures().map(|failure| (failure.is_passing, failure.is_shut_down));
        // It is taken back wherever it may be held.
        no_majority::error(Outcome::NotRun, answers, failures)
    }
}
