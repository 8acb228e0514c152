//! Renewals: a lease goes on as long as a majority still has it.
//!
//! A member may have lost the lease: it was restarted, or it could not be reached when the
//! lease was acquired. The client then repairs it there, for as long as the holder may rely on
//! the lease. Without repairs, members restarted one after another would end a lease that a
//! majority had all the time. A repair is no vote for this renewal, only for later ones.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::StreamExt;
use futures_util::future::join_all;
use tokio::runtime::Handle;

use super::members::{Member, ask};
use super::no_majority;
use crate::core::error::LossReason;
use crate::store::{Ask, Renewal, Renewals, Repaired, Request, Store, StoreError, validity};

/// The answers for one lease, in the members' order.
type Votes = Vec<Option<Result<Renewal, StoreError>>>;

/// Renews leases on all members, and answers when a majority has decided on each.
pub(super) fn renew_all(
    members: &Arc<[Arc<Member>]>,
    requests: &[Request],
    runtime: &Handle,
) -> Renewals {
    let Some(first) = members.first() else { return Box::pin(async { Vec::new() }) };
    // Read before anything is sent: a repaired lease may not outlast the renewed ones.
    let sent = first.store.now();
    let mut asked = ask(members, |member| member.store.renew_all(requests));
    let (members, requests, runtime) = (members.clone(), requests.to_vec(), runtime.clone());
    Box::pin(async move {
        let mut votes: Vec<Votes> =
            requests.iter().map(|_| members.iter().map(|_| None).collect()).collect();
        while votes.iter().any(|of_one| verdict(of_one).is_none())
            && let Some((index, answers)) = asked.next().await
        {
            note(&mut votes, index, answers);
        }
        let judge = |of_one| match verdict(of_one) {
            Some(Ok(renewal)) => Ok(renewal),
            _ => Err(no_majority::among(&members, of_one, no_majority::renewal)),
        };
        let verdicts = votes.iter().map(judge).collect();
        if !asked.is_empty() || votes.iter().any(needs_repair) {
            runtime.spawn(
                async move {
                    // A slow member may have lost the lease as well.
                    while let Some((index, answers)) = asked.next().await {
                        note(&mut votes, index, answers);
                    }
                    let lost = requests.iter().zip(&votes).filter(|(_, it)| needs_repair(it));
                    join_all(lost.map(|(request, it)| repair(&members, request, it, sent))).await;
                }
                .boxed(),
            );
        }
        verdicts
    })
}

fn note(votes: &mut [Votes], index: usize, answers: Vec<Result<Renewal, StoreError>>) {
    for (of_one, answer) in votes.iter_mut().zip(answers) {
        of_one[index] = Some(answer);
    }
}

/// Returns true if a majority has the lease, and some member lost it.
fn needs_repair(votes: &Votes) -> bool {
    let is_lost = |vote: &Option<_>| matches!(vote, Some(Ok(Renewal::NotHeld(_))));
    matches!(verdict(votes), Some(Ok(Renewal::Renewed))) && votes.iter().any(is_lost)
}

/// The majority's answer; an error if there can't be a majority any more; `None` while it is
/// open.
fn verdict(votes: &Votes) -> Option<Result<Renewal, ()>> {
    let needed = votes.len() / 2 + 1;
    let (mut renewed, mut lost, mut open, mut reason) = (0, 0, 0, LossReason::Expired);
    for vote in votes {
        match vote {
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

/// Gives a lease back to the members that lost it.
async fn repair(members: &[Arc<Member>], request: &Request, votes: &Votes, sent: Instant) {
    let stores = |which: fn(&Renewal) -> bool| {
        let chosen = members.iter().zip(votes).filter(move |(_, vote)| {
            vote.as_ref().is_some_and(|vote| vote.as_ref().is_ok_and(which))
        });
        chosen.map(|(member, _)| &member.store)
    };
    let is_fenced = request.kind.is_fenced();
    let healthy = stores(|answer| *answer == Renewal::Renewed);
    let known = healthy.map(|store| store.repair(request, 0, Duration::ZERO));
    let mut tokens: Vec<_> = join_all(known)
        .await
        .into_iter()
        .filter_map(|answer| match answer {
            // A reader needs no token.
            Ok(Repaired::Held { token }) => (token > 0 || !is_fenced).then_some(token),
            _ => None,
        })
        .collect();
    // Without a token, the lease was released meanwhile.
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
        let lost = stores(|answer| *answer != Renewal::Renewed);
        join_all(lost.map(|store| repair_one(store, request, &tokens, lasts))).await;
    }
}

/// Gives a lease back to one member, with the greatest of these tokens that its clock is not
/// too far behind: one of them may come from a clock that is wrong.
async fn repair_one(store: &Arc<dyn Store>, request: &Request, tokens: &[u64], lasts: Duration) {
    for token in tokens.iter().rev() {
        match store.repair(request, *token, lasts).await {
            Ok(Repaired::Behind(_)) => {}
            _ => return,
        }
    }
}
