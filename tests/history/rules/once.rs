//! The work of a tick succeeds once, and a detached lease is adopted once.
//!
//! If the server has forgotten something between two successes, or two adoptions, it may have
//! forgotten the first. Somebody may have let the work run again.
//!
//! Work without ticks counts as done for each request by its own time, from the last success; but no
//! longer than the server remembers that success, which is the time of the request that succeeded. It
//! remembers the last one alone, whoever has succeeded meanwhile for a shorter time.

use std::collections::HashMap;

use super::Verdict;
use crate::history::{History, Request};

pub(super) fn check(history: &History, of_lock: &[&Request], verdict: &mut Verdict) {
    let succeeded = of_lock.iter().filter_map(|request| {
        let (at, tick) = request.done.filter(|_| request.lasts.is_none())?;
        Some((at, format!("succeeded in tick {tick}"), *request))
    });
    let adopted = of_lock.iter().filter_map(|request| {
        let (at, of) = (request.granted?, request.adopts.as_ref()?);
        Some((at, format!("adopted the lease of {of}"), *request))
    });
    let mut all: Vec<_> = succeeded.chain(adopted).collect();
    all.sort_unstable_by_key(|(at, ..)| *at);
    let mut seen = HashMap::<String, &Request>::new();
    for (at, what, request) in all {
        let first = seen.insert(what.clone(), request);
        let is_excused = |first: &&Request| {
            history.may_have_forgotten(first.asked, at)
                || history.may_run_again(&request.lock, first.asked, at)
        };
        if first.as_ref().is_some_and(is_excused) {
            continue;
        }
        let wrong = first.map(|first| {
            format!("{} and {} both {what} of `{}`", first.id, request.id, request.lock)
        });
        verdict.note("once", wrong);
    }
    too_soon(history, of_lock, verdict);
}

/// Those that got work which counted as done for them. When it was completed is known to lie between
/// the call and its answer.
fn too_soon(history: &History, of_lock: &[&Request], verdict: &mut Verdict) {
    let done: Vec<_> = of_lock
        .iter()
        .filter_map(|it| Some((it.ended?, it.done?.0, *it)))
        .filter(|(.., it)| it.lasts.is_some())
        .collect();
    for request in of_lock {
        let (Some(granted), Some(lasts)) = (request.granted, request.lasts) else { continue };
        // The last success before it that the server remembers for sure.
        let last = done.iter().find(|(_, answered, it)| {
            let is_between = |at: u64| *answered < at && at < granted;
            *answered <= request.asked
                && !history.may_have_forgotten(it.asked, granted)
                && !history.may_run_again(&it.lock, it.asked, granted)
                && !of_lock.iter().any(|other| other.granted.is_some_and(is_between))
        });
        let Some((called, _, it)) = last else { continue };
        let remembered = it.lasts.map_or(lasts, |remembered| remembered.min(lasts));
        let wrong = (granted < called + remembered).then(|| {
            format!(
                "{} got the work of `{}`, which {} had completed {} ms before",
                request.id,
                request.lock,
                it.id,
                (granted - called) / 1_000_000
            )
        });
        verdict.note("once: lasts", wrong);
    }
}
