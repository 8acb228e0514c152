//! Whoever is told that others have a lock is told so because of others: somebody else's request may have
//! held it or waited for it. What the process itself had given back before is no reason.
//!
//! A fault, or a process that stood still, may have kept the news of a release. Then nothing is said.

use super::waiting::{answered, may_hold};
use super::{AtOnce, Verdict, is_alone};
use crate::history::{History, Request};
use crate::line::Nanos;

/// The place of a dead waiter lasts for so long, and then it is offered the lock.
const PLACE: Nanos = 7_500_000_000;

pub(super) fn check(
    history: &History,
    of_lock: &[&Request],
    at_once: &AtOnce<'_>,
    verdict: &mut Verdict,
) {
    // A job asks before it says so.
    if of_lock.iter().any(|it| it.granted == Some(it.asked)) {
        return;
    }
    for refused in of_lock {
        let Some((at, why)) = &refused.refused else { continue };
        // Another lock of its set may be the reason.
        if !matches!(&**why, "busy" | "timed-out" | "wrong-kind")
            || refused.neglected.is_some()
            || !is_alone(at_once, refused)
        {
            continue;
        }
        let from = refused.asked;
        if history.troubles.excuse("refusals", refused.worker(), (from, *at)) {
            continue;
        }
        let is_own = |other: &Request| other.worker() == refused.worker();
        let gave_back = |other: &Request| {
            let how = other.freed.as_ref().filter(|(freed, _)| *freed < from);
            // One that is dropped may be kept.
            let is_kept = other.linger > 0;
            how.is_some_and(|(_, how)| match &**how {
                "dropped" => !is_kept,
                how => matches!(how, "free" | "lingers"),
            })
        };
        let is_reason = |other: &&&Request| {
            let (start, end) = may_wait_or_hold(history, other);
            other.id != refused.id
                && start <= *at
                && from <= end
                && !(is_own(other) && gave_back(other))
        };
        let wrong = of_lock.iter().find(is_reason).is_none().then(|| {
            format!(
                "{} was told that `{}` is {why}, and nobody else had it",
                refused.id, refused.lock
            )
        });
        verdict.note("refusals", wrong);
    }
}

/// From its question to the end of what it may have held.
fn may_wait_or_hold(history: &History, request: &Request) -> (Nanos, Nanos) {
    let (_, end) = may_hold(history, request);
    let is_open = request.granted.is_none() && request.refused.is_none();
    let place = if is_open { PLACE } else { 0 };
    (request.asked, end.max(answered(history, request) + place))
}
