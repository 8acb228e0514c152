//! Every answer is one that the faults of a soak can explain, and no process ends by itself.

use std::collections::HashMap;

use super::Verdict;
use crate::history::{History, Request};
use crate::line::Kind;
use crate::troubles::Effect;

const REFUSALS: [&str; 9] = [
    "busy",
    "timed-out",
    "store",
    "quorum",
    "gave-up",
    "shut-down",
    "done",
    "ticket-ended",
    "closed",
];

const RELEASES: [&str; 9] =
    ["free", "still", "kept", "lingers", "lost", "store", "quorum", "dropped", "detached"];

pub(super) fn check(history: &History, verdict: &mut Verdict) {
    verdict.wrong.extend(history.broken.iter().cloned());
    let mut first = HashMap::<&str, &Request>::new();
    let mut confused = HashMap::<&str, u64>::new();
    for request in &history.requests {
        let known = first.entry(&request.lock).or_insert(request);
        if !request.kind.is_compatible(known.kind) {
            let since = confused.entry(&request.lock).or_insert(request.asked);
            *since = request.asked.min(*since);
        }
    }
    // An owner that has the lock, or had it a moment ago, is not to wait for itself.
    let mut owners = HashMap::<(&str, &str), u32>::new();
    for request in history.requests.iter().filter(|it| it.is_named) {
        *owners.entry((&request.lock, &request.owner)).or_default() += 1;
    }
    // Another server may have a lease of it that it has given back.
    let may_have_revived = history.troubles.of(Effect::Replaced).next().is_some();
    let is_own = |request: &Request, why: &str| {
        let known = owners.get(&(&*request.lock, &*request.owner));
        why == "would-deadlock"
            && request.kind == Kind::Write
            && request.is_named
            && (known.is_some_and(|count| *count > 1) || may_have_revived)
    };
    // A name is of another kind if somebody had asked for it as one.
    let is_confused = |request: &Request, at: u64, why: &str| {
        why == "wrong-kind" && confused.get(&*request.lock).is_some_and(|since| *since <= at)
    };
    for request in &history.requests {
        let id = &request.id;
        if let Some((at, why)) = &request.refused {
            let is_known = REFUSALS.contains(&&**why)
                || is_confused(request, *at, why)
                || is_own(request, why);
            verdict.note("answer", (!is_known).then(|| format!("{id} was refused: {why}")));
        }
        if let Some((_, how)) = &request.freed {
            let is_known = RELEASES.contains(&&**how);
            verdict.note("answer", (!is_known).then(|| format!("{id} was released: {how}")));
        }
        if request.granted.is_some() {
            let is_both = request.refused.is_some();
            verdict.note("answer", is_both.then(|| format!("{id} was granted and refused")));
            if request.kind.is_fenced() && request.lost.is_none() {
                let has_none = request.token.is_none();
                verdict.note("answer", has_none.then(|| format!("{id} has no token")));
            }
        }
    }
}
