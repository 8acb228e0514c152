//! Releases and cancels: on all stores, answered for by a majority. What the others do
//! not answer is taken back from them when they do.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::runtime::Handle;

use super::pending_cancels::{Member, owe};
use super::{Asked, ask, majority, no_majority};
use crate::core::error::LossReason;
use crate::store::{Ended, Request, StoreError, StoreFuture};

/// Ends a lease.
pub(super) fn release(
    members: &Arc<[Arc<Member>]>,
    request: &Request,
    keep: Duration,
    runtime: &Handle,
) -> StoreFuture<Ended> {
    let asked = ask(members, |member| member.store.release(request, keep));
    let (request, runtime, members) = (request.clone(), runtime.clone(), members.clone());
    Box::pin(async move {
        let (mut tally, mut asked) = (Tally::new(&members), asked);
        let (mut released, mut lost, mut ended) = (0, 0, Ended::Released);
        let mut reason = LossReason::Expired;
        let needed = majority(&members);
        while released < needed
            && lost < needed
            && let Some((place, answer)) = asked.next().await
        {
            match tally.take(place, answer) {
                Some(Ended::NotHeld(why)) => {
                    lost += 1;
                    if why != LossReason::Expired {
                        reason = why;
                    }
                }
                Some(answer) => (released, ended) = (released + 1, answer),
                None => {}
            }
        }
        if lost >= needed {
            ended = Ended::NotHeld(reason);
        } else if released < needed {
            return Err(no_majority::among(&members, &tally.answers, |ended| match ended {
                Ended::NotHeld(reason) => reason.to_string(),
                _ => "released".to_owned(),
            }));
        }
        tally.settle(asked, &request, &runtime, |ended| matches!(ended, Ended::NotHeld(_)));
        Ok(ended)
    })
}

/// Takes an acquisition back.
pub(super) fn cancel(
    members: &Arc<[Arc<Member>]>,
    request: &Request,
    runtime: &Handle,
) -> StoreFuture<bool> {
    let asked = ask(members, |member| member.store.cancel(request));
    let (request, runtime, members) = (request.clone(), runtime.clone(), members.clone());
    Box::pin(async move {
        let (mut tally, mut asked) = (Tally::new(&members), asked);
        let (mut answered, mut was_granted) = (0, false);
        while answered < majority(&members)
            && let Some((place, answer)) = asked.next().await
        {
            let answer = tally.take(place, answer);
            answered += usize::from(answer.is_some());
            was_granted |= answer == Some(true);
        }
        if answered < majority(&members) {
            let taken_back = |_: bool| "taken back".to_owned();
            return Err(no_majority::among(&members, &tally.answers, taken_back));
        }
        tally.settle(asked, &request, &runtime, |_| false);
        Ok(was_granted)
    })
}

/// What the stores answered, by place.
struct Tally<T> {
    members: Arc<[Arc<Member>]>,
    answers: Vec<Option<Result<T, StoreError>>>,
}

impl<T: Copy + Send + 'static> Tally<T> {
    fn new(members: &Arc<[Arc<Member>]>) -> Self {
        Self { members: members.clone(), answers: members.iter().map(|_| None).collect() }
    }

    fn take(&mut self, place: usize, answer: Result<T, StoreError>) -> Option<T> {
        let said = answer.as_ref().ok().copied();
        self.answers[place] = Some(answer);
        said
    }

    /// Sees to it that those who failed, or have not answered yet, do it later; and so do
    /// those who did not have it: what was to give it to them may come late, and find no
    /// trace of the release.
    fn settle(
        self,
        mut asked: Asked<Result<T, StoreError>>,
        request: &Request,
        runtime: &Handle,
        had_it_not: fn(&T) -> bool,
    ) {
        let is_owed =
            move |answer: &Result<T, StoreError>| answer.as_ref().map_or(true, had_it_not);
        for (member, answer) in self.members.iter().zip(&self.answers) {
            if answer.as_ref().is_some_and(is_owed) {
                owe(member, request, runtime);
            }
        }
        if asked.is_empty() {
            return;
        }
        let (members, request, within) = (self.members, request.clone(), runtime.clone());
        runtime.spawn(async move {
            while let Some((place, answer)) = asked.next().await {
                if is_owed(&answer) {
                    owe(&members[place], &request, &within);
                }
            }
        });
    }
}
