//! The work of a tick succeeds once, and a detached lease is adopted once.
//!
//! If the server has forgotten something between two successes, or two adoptions, it may have
//! forgotten the first. Somebody may have let the work run again.
//!
//! Work without ticks counts as done for each request by its own time, from the last success; but no
//! longer than the server remembers that success, which is the time of the request that succeeded. It
//! remembers the last one alone, whoever has succeeded meanwhile for a shorter time.

use std::collections::HashMap;

use crate::history::{History, Request};

pub(super) fn check(history: &History, of_lock: &[&Request]) -> Vec<String> {
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
    let (mut wrong, mut seen) = (Vec::new(), HashMap::<String, &Request>::new());
    for (at, what, request) in all {
        if let Some(first) = seen.insert(what.clone(), request)
            && !history.may_have_forgotten(first.asked, at)
            && !history.may_run_again(&request.lock, first.asked, at)
        {
            wrong.push(format!(
                "once: {} and {} both {what} of `{}`",
                first.id, request.id, request.lock
            ));
        }
    }
    wrong.extend(too_soon(history, of_lock));
    wrong
}

/// Those that got work which counted as done for them. When it was completed is known to lie between
/// the call and its answer.
fn too_soon(history: &History, of_lock: &[&Request]) -> Vec<String> {
    let done: Vec<_> = of_lock
        .iter()
        .filter_map(|it| Some((it.ended?, it.done?.0, *it)))
        .filter(|(.., it)| it.lasts.is_some())
        .collect();
    let mut wrong = Vec::new();
    for request in of_lock {
        let (Some(granted), Some(lasts)) = (request.granted, request.lasts) else { continue };
        let counts = done.iter().find(|(called, answered, it)| {
            let is_between = |at: u64| *answered < at && at < granted;
            *answered <= request.asked
                && granted < called + it.lasts.map_or(lasts, |remembered| remembered.min(lasts))
                && !history.may_have_forgotten(it.asked, granted)
                && !history.may_run_again(&it.lock, it.asked, granted)
                && !of_lock.iter().any(|other| other.granted.is_some_and(is_between))
        });
        if let Some((called, _, it)) = counts {
            wrong.push(format!(
                "once: {} got the work of `{}`, which {} had completed {} ms before",
                request.id,
                request.lock,
                it.id,
                (granted - called) / 1_000_000
            ));
        }
    }
    wrong
}
