//! Releases and cancels go to all members, and a majority decides the answer. A member that
//! does not answer in time gets a cancel until it does.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::StreamExt;
use tokio::runtime::Handle;

use super::members::{Answers, Member, ask, majority};
use super::no_majority;
use super::pending_cancels::cancel_later;
use crate::core::error::LossReason;
use crate::store::{Answer, Ask, Ended, Request, StoreError, StoreFuture};

/// Ends a lease.
pub(super) fn release(
    members: &Arc<[Arc<Member>]>,
    request: &Request,
    keep: Duration,
    runtime: &Handle,
) -> StoreFuture<Answer> {
    let asked = ask(members, |member| member.store.release(request, keep));
    let (request, runtime, members) = (request.clone(), runtime.clone(), members.clone());
    Box::pin(async move {
        let (mut tally, mut asked) = (Tally::new(&members), asked);
        let (mut released, mut lost, mut ended) = (0, 0, Ended::Released);
        let mut reason = LossReason::Expired;
        let needed = majority(&members);
        while released < needed
            && lost < needed
            && let Some((index, answer)) = asked.next().await
        {
            match tally.take(index, answer) {
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
        Ok(Answer::Ended(ended))
    })
}

/// Takes an acquisition back.
pub(super) fn cancel(
    members: &Arc<[Arc<Member>]>,
    request: &Request,
    runtime: &Handle,
) -> StoreFuture<Answer> {
    let asked = ask(members, |member| member.store.cancel(request));
    let (request, runtime, members) = (request.clone(), runtime.clone(), members.clone());
    Box::pin(async move {
        let (mut tally, mut asked) = (Tally::new(&members), asked);
        let (mut answered, mut was_granted) = (0, false);
        while answered < majority(&members)
            && let Some((index, answer)) = asked.next().await
        {
            let answer = tally.take(index, answer);
            answered += usize::from(answer.is_some());
            was_granted |= answer == Some(true);
        }
        if answered < majority(&members) {
            let taken_back = |_: bool| "taken back".to_owned();
            return Err(no_majority::among(&members, &tally.answers, taken_back));
        }
        tally.settle(asked, &request, &runtime, |_| false);
        Ok(Answer::Flag(was_granted))
    })
}

/// The answers so far, in the members' order.
struct Tally<T> {
    members: Arc<[Arc<Member>]>,
    answers: Vec<Option<Result<T, StoreError>>>,
}

impl<T: Copy + Send + 'static> Tally<T> {
    fn new(members: &Arc<[Arc<Member>]>) -> Self {
        Self { members: members.clone(), answers: members.iter().map(|_| None).collect() }
    }

    fn take(&mut self, index: usize, answer: Result<T, StoreError>) -> Option<T> {
        let known = answer.as_ref().ok().copied();
        self.answers[index] = Some(answer);
        known
    }

    /// Sends a cancel later to every member that failed or has not answered yet. Members
    /// without the lease (`was_not_held`) get one too: a late vote or repair may still give
    /// it to them, and would find no trace of this release.
    fn settle(
        self,
        mut asked: Answers<Result<T, StoreError>>,
        request: &Request,
        runtime: &Handle,
        was_not_held: fn(&T) -> bool,
    ) {
        let needs_cancel =
            move |answer: &Result<T, StoreError>| answer.as_ref().map_or(true, was_not_held);
        for (member, answer) in self.members.iter().zip(&self.answers) {
            if answer.as_ref().is_some_and(needs_cancel) {
                cancel_later(member, request, runtime);
            }
        }
        if asked.is_empty() {
            return;
        }
        let (members, request, handle) = (self.members, request.clone(), runtime.clone());
        runtime.spawn(
            async move {
                while let Some((index, answer)) = asked.next().await {
                    if needs_cancel(&answer) {
                        cancel_later(&members[index], &request, &handle);
                    }
                }
            }
            .boxed(),
        );
    }
}
