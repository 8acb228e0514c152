//! Renewals: a lease goes on where a majority still has it.
//!
//! A store that lost it (it was restarted, or could not be reached when it was acquired)
//! is given it again, for as long as the holder may rely on it: else one after another
//! could be restarted, and take the lease with it, though a majority had it all the time.
//! That is no vote for this renewal, only for those to come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use tokio::runtime::Handle;

use super::pending_cancels::Member;
use super::{ask, no_majority};
use crate::core::error::LossReason;
use crate::store::{QuorumMember, Renewal, Renewals, Repaired, Request, StoreError, validity};

/// What the stores answered for one lease, by place.
type Answers = Vec<Option<Result<Renewal, StoreError>>>;

/// Renews leases on all stores, and answers when a majority has decided on each.
pub(super) fn renew_all(
    members: &Arc<[Arc<Member>]>,
    requests: &[Request],
    runtime: &Handle,
) -> Renewals {
    let Some(first) = members.first() else { return Box::pin(async { Vec::new() }) };
    // Before anything is sent: what is given back may not outlast what this renews.
    let sent = first.store.now();
    let mut asked = ask(members, |member| member.store.renew_all(requests));
    let (members, requests, runtime) = (members.clone(), requests.to_vec(), runtime.clone());
    Box::pin(async move {
        let mut answers: Vec<Answers> =
            requests.iter().map(|_| members.iter().map(|_| None).collect()).collect();
        while answers.iter().any(|of_one| verdict(of_one).is_none())
            && let Some((place, said)) = asked.next().await
        {
            note(&mut answers, place, said);
        }
        let judge = |of_one| match verdict(of_one) {
            Some(Ok(renewal)) => Ok(renewal),
            _ => Err(no_majority::among(&members, of_one, no_majority::renewal)),
        };
        let verdicts = answers.iter().map(judge).collect();
        if !asked.is_empty() || answers.iter().any(is_to_be_healed) {
            runtime.spawn(async move {
                // A slow one may have lost it as well.
                while let Some((place, said)) = asked.next().await {
                    note(&mut answers, place, said);
                }
                let lost = requests.iter().zip(&answers).filter(|(_, it)| is_to_be_healed(it));
                join_all(lost.map(|(request, it)| heal(&members, request, it, sent))).await;
            });
        }
        verdicts
    })
}

fn note(answers: &mut [Answers], place: usize, said: Vec<Result<Renewal, StoreError>>) {
    for (of_one, answer) in answers.iter_mut().zip(said) {
        of_one[place] = Some(answer);
    }
}

/// Whether a majority has it, and somebody lost it.
fn is_to_be_healed(answers: &Answers) -> bool {
    let is_lost = |answer: &Option<_>| matches!(answer, Some(Ok(Renewal::NotHeld(_))));
    matches!(verdict(answers), Some(Ok(Renewal::Renewed))) && answers.iter().any(is_lost)
}

/// What a majority says, or that there will be none; nothing as long as it is open.
fn verdict(answers: &Answers) -> Option<Result<Renewal, ()>> {
    let needed = answers.len() / 2 + 1;
    let (mut renewed, mut lost, mut open, mut reason) = (0, 0, 0, LossReason::Expired);
    for answer in answers {
        match answer {
            Some(Ok(Renewal::Renewed)) => renewed += 1,
            Some(Ok(Renewal::NotHeld(why))) => {
                lost += 1;
                if *why != LossReason::Expired {
                    reason = *why;
                }
            }
            Some(Err(_)) => {}
            None => open += 1,
        }
    }
    if renewed >= needed {
        Some(Ok(Renewal::Renewed))
    } else if lost >= needed {
        Some(Ok(Renewal::NotHeld(reason)))
    } else if renewed + open < needed && lost + open < needed {
        Some(Err(()))
    } else {
        None
    }
}

/// Gives a lease back to those who lost it.
async fn heal(members: &[Arc<Member>], request: &Request, answers: &Answers, sent: Instant) {
    let said = |which: fn(&Renewal) -> bool| {
        let said = members.iter().zip(answers).filter(move |(_, answer)| {
            answer.as_ref().is_some_and(|answer| answer.as_ref().is_ok_and(which))
        });
        said.map(|(member, _)| &member.store)
    };
    let is_fenced = request.kind.is_fenced();
    let healthy = said(|answer| *answer == Renewal::Renewed);
    let known = healthy.map(|store| store.repair(request, 0, Duration::ZERO));
    let mut tokens: Vec<_> = join_all(known)
        .await
        .into_iter()
        .filter_map(|answer| match answer {
            // A reader needs none.
            Ok(Repaired::Held { token }) => (token > 0 || !is_fenced).then_some(token),
            _ => None,
        })
        .collect();
    // None: it was released meanwhile.
    if tokens.is_empty() {
        return;
    }
    if !is_fenced {
        tokens.push(0);
    }
    tokens.sort_unstable();
    let now = members[0].store.now();
    let lasts = validity(request.ttl).saturating_sub(now.saturating_duration_since(sent));
    if lasts >= Duration::from_millis(1) {
        let lost = said(|answer| *answer != Renewal::Renewed);
        join_all(lost.map(|store| give_back(store, request, &tokens, lasts))).await;
    }
}

/// Gives a lease back to a store, with the greatest of these tokens that its clock is not
/// too far behind: one may be of a clock that is wrong.
async fn give_back(
    store: &Arc<dyn QuorumMember>,
    request: &Request,
    tokens: &[u64],
    lasts: Duration,
) {
    for token in tokens.iter().rev() {
        match store.repair(request, *token, lasts).await {
            Ok(Repaired::Behind(_)) => {}
            _ => return,
        }
    }
}
