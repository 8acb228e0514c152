//! The work of a tick succeeds once, and a detached lease is adopted once.
//!
//! If the server has forgotten something between two successes, or two adoptions, it may have
//! forgotten the first.

use std::collections::HashMap;

use crate::history::{History, Request};

pub(super) fn check(history: &History, of_lock: &[&Request]) -> Vec<String> {
    let succeeded = of_lock.iter().filter_map(|request| {
        let (at, tick) = request.done?;
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
        {
            wrong.push(format!(
                "once: {} and {} both {what} of `{}`",
                first.id, request.id, request.lock
            ));
        }
    }
    wrong
}
