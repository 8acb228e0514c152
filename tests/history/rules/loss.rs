//! A lease that its client is to renew is lost for a reason alone: something is wrong with a server or a
//! link, or its process or its future stands still. And it is not lost sooner than its holder was told,
//! unless a server forgets it; so a message that anybody may have sent ends none.

use std::collections::HashMap;

use super::Verdict;
use crate::history::{History, Request};
use crate::line::Nanos;

/// How far two readings of a deadline may be apart: timers count milliseconds.
const ROUNDED: Nanos = 1_000_000;

pub(super) fn check(history: &History, verdict: &mut Verdict) {
    let mut at_once = HashMap::<(&str, Nanos), u32>::new();
    for request in &history.requests {
        *at_once.entry((request.worker(), request.asked)).or_default() += 1;
    }
    let neglected: Vec<_> = history.requests.iter().filter(|it| it.neglected.is_some()).collect();
    for request in history.requests.iter().filter(|it| it.is_renewed && it.granted.is_some()) {
        // The answer to the release of a set says nothing of each lease.
        let is_alone = at_once[&(request.worker(), request.asked)] == 1;
        let lost = lost(history, request, is_alone);
        let until = lost.unwrap_or_else(|| request.last());
        let excuse =
            |rule: &str| history.troubles.excuse(rule, request.worker(), (request.asked, until));
        let is_excused = excuse("loss") || was_neglected(&neglected, request);
        // A deadline that was told long before is as exact as the process's clock.
        let inexact = ROUNDED + request.ttl / 100;
        let wrong = match lost {
            Some(lost)
                if request.seen.is_some()
                    && lost + inexact < request.deadline
                    && !excuse("loss: sooner") =>
            {
                Some(format!(
                    "{} has lost `{}` {} ms sooner than it was told, and no server forgot it",
                    request.id,
                    request.lock,
                    (request.deadline - lost) / 1_000_000
                ))
            }
            Some(_) if !is_excused => Some(format!(
                "{} has lost `{}`, which its client was to renew, and nothing was wrong",
                request.id, request.lock
            )),
            _ => None,
        };
        if wrong.is_some() || !is_excused {
            verdict.note("loss", wrong);
        }
    }
}

/// When the holder learned that its lease was lost.
fn lost(history: &History, request: &Request, is_alone: bool) -> Option<Nanos> {
    let freed = request.freed.as_ref().filter(|(_, how)| is_alone && how == "lost");
    // A release whose answer was lost is sent again. By then the server may remember it no more: others
    // had the lock since, or the work counted as done for a moment alone.
    let is_forgotten = |at: Nanos| {
        let Some(end) = request.ended else { return false };
        let had_it = |other: &Request| {
            let is_other = other.id != request.id && other.lock == request.lock;
            is_other && other.granted.is_some_and(|it| end <= it && it <= at)
        };
        request.lasts.is_some_and(|it| end + it < at) || history.requests.iter().any(had_it)
    };
    let by_release = freed.filter(|(at, _)| !is_forgotten(*at));
    request.lost.or(by_release.map(|(at, _)| *at))
}

/// True if its future stood still meanwhile, or that of a neighbour, which may have left it a lease that was
/// granted long ago.
fn was_neglected(neglected: &[&Request], request: &Request) -> bool {
    let until = request.last();
    neglected.iter().any(|it| {
        let meanwhile =
            it.neglected.is_some_and(|(from, to, _)| from <= until && request.asked <= to);
        meanwhile && it.lock == request.lock && it.worker() == request.worker()
    })
}
