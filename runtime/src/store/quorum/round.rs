//! One round: all stores are asked for a lock, and what a majority says is the answer.
//!
//! A round is one request. One that is not granted is taken back wherever it may be
//! held, and is never asked again: so what is taken back is of no later round, whatever
//! comes late, and in whatever order.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt};
use tokio::runtime::Handle;

use super::debts::{Member, owe};
use super::{Asked, ask, majority, no_majority};
use crate::Outcome;
use crate::store::{Attempt, Mended, Request, StoreError};

/// How long to wait at least before a lock is asked for again that several want at once.
const LEAST: Duration = Duration::from_millis(20);

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

/// What a store says.
enum Said {
    Vote(Result<Attempt, StoreError>),
    /// To this token.
    Mend(u64, Result<Mended, StoreError>),
}

/// A round under way.
pub(super) struct Round {
    members: Arc<[Arc<Member>]>,
    request: Request,
    runtime: Handle,
    votes: Vec<Vote>,
    answers: Asked<Said>,
    /// The greatest of the majority's tokens, once there is a majority.
    token: Option<u64>,
    /// A store took that for its own.
    is_known: bool,
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
            token: None,
            is_known: false,
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
            if let Some(token) = self.token {
                let is_settled = |vote: &Vote| matches!(vote, Vote::Granted(own) if *own >= token);
                if self.count(is_settled) >= needed {
                    return Ok(Attempt::Granted { token });
                }
            }
            if granted + open < needed {
                return self.give_up().await;
            }
            if self.token.is_none() && granted >= needed {
                self.settle_on_a_token();
                continue;
            }
            // As long as something is open, there is an answer to come.
            let Some((place, said)) = self.answers.next().await else {
                return self.give_up().await;
            };
            self.take(place, said);
        }
    }

    fn count(&self, which: impl Fn(&Vote) -> bool) -> usize {
        self.votes.iter().filter(|vote| which(vote)).count()
    }

    /// The token is the greatest; and a majority has to know it, or one of the next
    /// majority might grant a smaller one.
    fn settle_on_a_token(&mut self) {
        let tokens = self.votes.iter().filter_map(|vote| match vote {
            Vote::Granted(token) => Some(*token),
            _ => None,
        });
        (self.token, self.is_known) = (tokens.max(), false);
        for place in 0..self.votes.len() {
            self.settle(place);
        }
    }

    /// Lets a store that granted know the token, if there is one and its own is smaller.
    fn settle(&mut self, place: usize) {
        let (Vote::Granted(own), Some(token)) = (&self.votes[place], self.token) else { return };
        if *own >= token {
            return;
        }
        let mend = self.members[place].store.mend(&self.request, token, Duration::ZERO);
        self.answers.push(Box::pin(async move { (place, Said::Mend(token, mend.await)) }));
    }

    fn take(&mut self, place: usize, said: Said) {
        self.votes[place] = match said {
            // It does not count any more.
            Said::Mend(..) if !matches!(self.votes[place], Vote::Granted(_)) => return,
            Said::Vote(Ok(Attempt::Granted { token })) => Vote::Granted(token),
            Said::Vote(Ok(refusal)) => Vote::Refused(refusal),
            Said::Vote(Err(error)) => {
                Vote::Failed(Failure::met(&error, error.outcome == Outcome::Unknown))
            }
            Said::Mend(_, Ok(Mended::Held { token })) => {
                self.is_known |= self.token.is_some_and(|sought| token >= sought);
                Vote::Granted(token)
            }
            Said::Mend(_, Ok(Mended::NotHeld)) => {
                Vote::Failed(Failure::said("it lost the lease at once".to_owned()))
            }
            // Of a token that is not sought any more.
            Said::Mend(asked, Ok(Mended::Behind(_))) if self.token != Some(asked) => return,
            Said::Mend(_, Ok(Mended::Behind(time))) => {
                if self.do_without_who_is_ahead(time) {
                    return;
                }
                Vote::Failed(Failure::said(format!(
                    "its clock is {time:.1?} too far behind; set clocks by NTP"
                )))
            }
            Said::Mend(_, Err(error)) => Vote::Failed(Failure::met(&error, true)),
        };
        self.settle(place);
    }

    /// Where one clock is too far ahead of another, the one that is ahead does not count,
    /// and the token is sought anew; if nobody took it yet.
    fn do_without_who_is_ahead(&mut self, time: Duration) -> bool {
        let Some(token) = self.token.filter(|_| !self.is_known) else { return false };
        for vote in &mut self.votes {
            if matches!(vote, Vote::Granted(own) if *own >= token) {
                let why = format!(
                    "its clock is {time:.1?} too far ahead of the others'; set clocks by NTP"
                );
                *vote = Vote::Failed(Failure::said(why));
            }
        }
        self.token = None;
        true
    }

    /// Takes the request back, and says why it was not granted.
    async fn give_up(self) -> Result<Attempt, StoreError> {
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
        self.answer()
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
        let (mut lefts, mut repaired, mut keep) = (Vec::new(), false, 0);
        for vote in &self.votes {
            match vote {
                Vote::Refused(Attempt::Busy { retry_after, repaired: is_repaired, kept }) => {
                    lefts.push(*retry_after);
                    repaired |= is_repaired;
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
        Ok(Attempt::Busy { retry_after, repaired, kept: keep >= needed })
    }

    fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.votes.iter().filter_map(|vote| match vote {
            Vote::Failed(failure) => Some(failure),
            _ => None,
        })
    }

    fn no_majority(&self) -> StoreError {
        let answer = |(member, vote): (&Arc<Member>, &Vote)| {
            let answer = match vote {
                Vote::Open => "no answer yet".to_owned(),
                Vote::Granted(_) => "granted, and taken back".to_owned(),
                Vote::Refused(refusal) => no_majority::attempt(refusal),
                Vote::Failed(failure) => failure.why.clone(),
            };
            (member.name.clone(), answer)
        };
        let answers = self.members.iter().zip(&self.votes).map(answer);
        let failures = self.failures().map(|failure| (failure.is_passing, failure.is_shut_down));
        // It is taken back wherever it may be held.
        no_majority::error(Outcome::NotRun, answers, failures)
    }
}
