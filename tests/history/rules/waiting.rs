//! A lock that nobody can hold goes to whoever waits for it. So the lock of a dead holder is free
//! after its TTL.

use std::collections::HashSet;

use super::Verdict;
use crate::history::{History, Request};
use crate::line::Nanos;
use crate::troubles::Effect;

/// A waiter that is alone gets a free lock within this time: the place of a dead waiter costs six
/// seconds, and a question that was missed two.
const BOUND: Nanos = 15_000_000_000;

/// A grant is heard of this much later at most: an offer lasts a second, and a reply is waited for
/// less than that. Who is stopped or cut off meanwhile hears of it later, but then other times count.
const NEWS: Nanos = 3_000_000_000;

/// A future that nobody polls keeps others waiting for this long at most: for as long as the server
/// believes it to be alive, and as its offer lasts then.
const NEGLECTED: Nanos = 7_000_000_000;

pub(super) fn check(history: &History, of_lock: &[&Request], verdict: &mut Verdict) {
    for waiter in of_lock {
        let end = answered(history, waiter);
        if end.saturating_sub(waiter.asked) <= BOUND {
            continue;
        }
        let mut excuses: Vec<_> = history.troubles.excused("waiting", waiter.worker()).collect();
        // One of several together may have this lock, and waits for another.
        excuses.extend(of_lock.iter().filter_map(|it| {
            let (from, to, is_of_set) = it.neglected?;
            let is_own = it.id == waiter.id;
            Some((from, if is_own || is_of_set { to } else { to.min(from + NEGLECTED) }))
        }));
        if longest_gap((waiter.asked, end), excuses.clone()) <= BOUND {
            continue;
        }
        // It may wait for another lock of its set.
        let is_partner = |it: &&Request| it.asked == waiter.asked && it.worker() == waiter.worker();
        let together: HashSet<_> =
            history.requests.iter().filter(is_partner).map(|it| &it.lock).collect();
        let others = history.requests.iter().filter(|it| together.contains(&it.lock));
        let others =
            others.filter(|it| it.id != waiter.id && (it.lock == waiter.lock || !is_partner(it)));
        // A crowd that is refused hides no lock that stays away.
        let others = others.filter(|it| !is_gone(history, it));
        let covers = others.map(|other| may_hold(history, other)).chain(excuses).collect();
        let gap = longest_gap((waiter.asked, end), covers);
        let wrong = (gap > BOUND).then(|| {
            format!(
                "{} waited for `{}` while nobody could hold it for {} ms",
                waiter.id,
                waiter.lock,
                gap / 1_000_000
            )
        });
        verdict.note("waiting", wrong);
    }
}

/// When the caller had its answer, or could not have one any more.
pub(super) fn answered(history: &History, request: &Request) -> Nanos {
    let refused = request.refused.as_ref().map(|(at, _)| *at);
    let dead = history.dead.get(request.worker()).copied();
    request.granted.or(refused).or(dead).unwrap_or(request.asked)
}

/// Returns true if the server has refused it, and nothing was in the way: its client has cancelled it.
fn is_gone(history: &History, request: &Request) -> bool {
    let Some((at, why)) = &request.refused else { return false };
    let is_refusal = ["busy", "timed-out", "done", "closed"].contains(&&**why);
    let is_disturbed = history.troubles.excuse("waiting", request.worker(), (request.asked, *at))
        || history.dead.get(request.worker()).is_some_and(|died| *died <= at + NEWS)
        || request.neglected.is_some();
    is_refusal && !is_disturbed
}

/// The longest time in which the server may have regarded a request as a holder.
pub(super) fn may_hold(history: &History, request: &Request) -> (Nanos, Nanos) {
    let answered = answered(history, request);
    let start = request.asked.max(answered.saturating_sub(NEWS));
    let was_freed = request.freed.as_ref().is_some_and(|(_, how)| how == "free");
    let mut end = if was_freed {
        request.last()
    } else {
        let dead = history.dead.get(request.worker()).copied().unwrap_or_default();
        let last = if request.freed.is_some() || request.refused.is_some() {
            request.last()
        } else {
            request.last().max(dead)
        };
        (last + request.ttl).max(request.deadline) + request.linger
    };
    if let Some(most) = request.max_hold {
        end = end.min(answered + most + NEWS);
    }
    for fault in history.troubles.of(Effect::Behind) {
        if start <= fault.to && fault.from <= end {
            end += fault.amount;
        }
    }
    (start, end)
}

/// The longest part of a span that nothing covers.
fn longest_gap((start, end): (Nanos, Nanos), mut covers: Vec<(Nanos, Nanos)>) -> Nanos {
    covers.sort_unstable();
    let (mut reached, mut longest) = (start, 0);
    for (from, to) in covers {
        if reached >= end {
            break;
        }
        longest = longest.max(from.min(end).saturating_sub(reached));
        reached = reached.max(to);
    }
    longest.max(end.saturating_sub(reached))
}
