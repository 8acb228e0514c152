//! One round: all members are asked for a lock, and the majority decides the answer.
//!
//! The round's token is the smallest that is not below the tokens of a majority. So it is
//! greater than all tokens before it, each of which a majority knew; and as long as most
//! clocks are right, it comes from one of them, or lies between two. A majority also has to
//! know it, or the next majority might grant a smaller one. A member knows it if it granted a
//! token as great or was told; but not if its own token is far greater, since its clock may
//! be set right.
//!
//! Each round is a request of its own. A request that is not granted is cancelled wherever
//! it may be held, and is never sent again. So a late cancel can't hit a later round, in
//! whatever order the commands arrive.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt};
use tokio::runtime::Handle;

use super::members::{Answers, CLOCK_DRIFT, Member, ask, majority};
use super::no_majority;
use super::pending_cancels::cancel_later;
use crate::core::error::Outcome;
use crate::core::time_text::Short;
use crate::store::{Ask, Attempt, Repaired, Request, StoreError};

/// The shortest pause before a retry when several clients split the vote.
const SHORTEST_RETRY: Duration = Duration::from_millis(20);

const BY_NTP: &str = "set clocks by NTP";

/// One member's vote, as far as it is known.
enum Vote {
    /// No answer yet.
    Open,
    /// Granted. All tokens that this member grants later are greater than this one.
    Granted(u64),
    Refused(Attempt),
    /// No answer in time, or an error.
    Failed(Failure),
}

struct Failure {
    why: String,
    /// The member may hold the lease all the same.
    may_hold: bool,
    /// True if a retry may succeed.
    is_passing: bool,
    is_shut_down: bool,
}

impl Failure {
    fn because(why: String) -> Self {
        Self { why, may_hold: true, is_passing: true, is_shut_down: false }
    }

    fn of(error: &StoreError, may_hold: bool) -> Self {
        let StoreError { is_passing, is_shut_down, .. } = *error;
        Self { why: error.source.to_string(), may_hold, is_passing, is_shut_down }
    }
}

/// Returns true if a member whose own token is `own` knows `token`.
fn knows(own: u64, token: u64) -> bool {
    own.checked_sub(token).is_some_and(|more| u128::from(more) <= 2 * CLOCK_DRIFT.as_micros())
}

/// A member's answer to one of the round's two commands.
enum Answer {
    Vote(Result<Attempt, StoreError>),
    Repair(Result<Repaired, StoreError>),
}

/// A round under way.
pub(super) struct Round {
    members: Arc<[Arc<Member>]>,
    request: Request,
    runtime: Handle,
    votes: Vec<Vote>,
    answers: Answers<Answer>,
    /// The tokens that members were told, each with the member's index.
    told: Vec<(usize, u64)>,
    /// For each member, how far its clock is behind a token that it was told.
    behind: Vec<Option<Duration>>,
}

impl Round {
    /// Asks all members.
    pub(super) fn begin(
        members: &Arc<[Arc<Member>]>,
        request: &Request,
        again: Duration,
        runtime: &Handle,
    ) -> Self {
        let vote = |member: &Member| member.store.vote(request, again).map(Answer::Vote);
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

    /// Waits until a majority has decided. If the request is not granted, members that granted
    /// it get a cancel before this returns; the others get one in the background.
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
                Some((index, answer)) => self.take(index, answer),
                None if self.tell_greatest() => {}
                None => return self.give_up().await,
            }
        }
    }

    fn count(&self, which: impl Fn(&Vote) -> bool) -> usize {
        self.votes.iter().filter(|vote| which(vote)).count()
    }

    /// The smallest token that is not below those of a majority, if a majority granted.
    fn token(&self) -> Option<u64> {
        let tokens = self.votes.iter().filter_map(|vote| match vote {
            Vote::Granted(own) => Some(*own),
            _ => None,
        });
        let mut tokens: Vec<_> = tokens.collect();
        tokens.sort_unstable();
        tokens.get(majority(&self.members) - 1).copied()
    }

    /// If members could not take the token, far greater tokens may come from clocks that were
    /// wrong. Tells the others the greatest token of a member whose clock is behind; false if
    /// that was no news to anybody.
    fn tell_greatest(&mut self) -> bool {
        let behind = self.votes.iter().zip(&self.behind).filter(|(_, behind)| behind.is_some());
        let tokens = behind.filter_map(|(vote, _)| match vote {
            Vote::Granted(own) => Some(*own),
            _ => None,
        });
        tokens.max().is_some_and(|token| self.tell(token))
    }

    /// Tells a token to the members that do not know it, and says whether there were any. A
    /// member takes it if its clock is not far behind it, or if its clock is far behind the
    /// member's own, greater token.
    fn tell(&mut self, token: u64) -> bool {
        let count = self.told.len();
        for (index, vote) in self.votes.iter().enumerate() {
            let is_news = matches!(vote, Vote::Granted(own) if !knows(*own, token));
            if is_news && !self.told.contains(&(index, token)) {
                self.told.push((index, token));
                let repair = self.members[index].store.repair(&self.request, token, Duration::ZERO);
                self.answers.push(Box::pin(async move { (index, Answer::Repair(repair.await)) }));
            }
        }
        self.told.len() > count
    }

    fn take(&mut self, index: usize, answer: Answer) {
        let is_first =
            !matches!(answer, Answer::Vote(_)) || matches!(self.votes[index], Vote::Open);
        debug_assert!(is_first, "a member votes twice");
        self.votes[index] = match answer {
            // The vote does not count any more.
            Answer::Repair(_) if !matches!(self.votes[index], Vote::Granted(_)) => return,
            Answer::Vote(Ok(Attempt::Granted { token }))
            | Answer::Repair(Ok(Repaired::Held { token })) => Vote::Granted(token),
            Answer::Vote(Ok(refusal)) => Vote::Refused(refusal),
            Answer::Vote(Err(error)) => {
                Vote::Failed(Failure::of(&error, error.outcome == Outcome::Unknown))
            }
            Answer::Repair(Ok(Repaired::NotHeld)) => {
                Vote::Failed(Failure::because("it lost the lease at once".to_owned()))
            }
            // The member has the lease all the same.
            Answer::Repair(Ok(Repaired::Behind(time))) => {
                self.behind[index] = Some(time);
                return;
            }
            Answer::Repair(Err(error)) => Vote::Failed(Failure::of(&error, true)),
        };
    }

    /// Cancels the request, and says why it was not granted.
    async fn give_up(mut self) -> Result<Attempt, StoreError> {
        let mut cancels = Vec::new();
        for (member, vote) in self.members.iter().zip(&self.votes) {
            match vote {
                Vote::Granted(_) => cancels.push(async {
                    if member.store.cancel(&self.request).await.is_err() {
                        cancel_later(member, &self.request, &self.runtime);
                    }
                }),
                Vote::Open | Vote::Failed(Failure { may_hold: true, .. }) => {
                    cancel_later(member, &self.request, &self.runtime);
                }
                Vote::Refused(_) | Vote::Failed(_) => {}
            }
        }
        join_all(cancels).await;
        self.count_fast_clocks_as_failed();
        self.answer()
    }

    /// If a majority granted but could not agree on a token, the members whose clocks are ahead
    /// of the others count as failed.
    fn count_fast_clocks_as_failed(&mut self) {
        let Some((token, time)) = self.token().zip(self.behind.iter().flatten().max()) else {
            return;
        };
        for vote in &mut self.votes {
            if matches!(vote, Vote::Granted(own) if *own >= token) {
                *vote = Vote::Failed(Failure::because(format!(
                    "its clock is {} too far ahead of another's; {BY_NTP}",
                    Short(*time)
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
            if self.count(|vote| matches!(vote, Vote::Refused(refusal) if *refusal == verdict))
                >= needed
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
        // This many of the members that refused have to become free before a majority can grant.
        lefts.sort_unstable();
        let missing =
            needed.saturating_sub(self.votes.len() - lefts.len() - self.failures().count());
        let retry_after = missing.checked_sub(1).and_then(|nth| lefts.get(nth).copied());
        // None: several clients asked at once, and each got some of the votes.
        let retry_after = retry_after.unwrap_or(SHORTEST_RETRY).max(SHORTEST_RETRY);
        // The lock counts as kept if a majority keeps it.
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
                    |time| {
                        format!("its clock is {} too far behind another's; {BY_NTP}", Short(time))
                    },
                ),
                Vote::Refused(refusal) => no_majority::attempt(refusal),
                Vote::Failed(failure) => failure.why.clone(),
            };
            (member.name.clone(), answer)
        };
        let answers = self.members.iter().zip(&self.votes).zip(&self.behind).map(answer);
        let failures = self.failures().map(|failure| (failure.is_passing, failure.is_shut_down));
        // Every member that may hold it gets a cancel.
        no_majority::error(Outcome::NotRun, answers, failures)
    }
}
