//! A process hands a lock on to its own tasks for the time of a turn, and then others have theirs. Its leases
//! of one turn have tokens one after the other.
//!
//! Idle leases stay for longer, and go when somebody asks for them: of these nothing is said.

use std::collections::HashMap;

use super::{AtOnce, Verdict, is_alone};
use crate::history::{History, Request};
use crate::line::Nanos;

/// How long a turn lasts, and how late the last of its leases may be taken up.
const TURN: Nanos = 20_000_000 + 30_000_000;

pub(super) fn check(
    history: &History,
    of_lock: &[&Request],
    at_once: &AtOnce<'_>,
    verdict: &mut Verdict,
) {
    let mut fenced: Vec<_> =
        of_lock.iter().filter_map(|it| Some((it.worker(), it.token?, it.granted?, *it))).collect();
    fenced.sort_unstable_by_key(|(worker, token, granted, _)| (*worker, *token, *granted));
    // When the turn of a lease began, if nothing is said of it.
    let mut began = HashMap::<(&str, u64), Option<Nanos>>::new();
    for (worker, token, granted, request) in fenced {
        let before = token.checked_sub(1).and_then(|before| began.get(&(worker, before)).copied());
        let is_idle = request.linger > 0 || request.adopts.is_some();
        let since = before.unwrap_or(Some(granted)).filter(|_| !is_idle);
        began.insert((worker, token), since);
        // A set has its answer once it has all of them.
        let is_told_at_once = request.neglected.is_none() && is_alone(at_once, request);
        let Some(since) = since.filter(|_| before.is_some() && is_told_at_once) else { continue };
        if history.troubles.excuse("turns", worker, (since, granted)) {
            continue;
        }
        let took = granted.saturating_sub(since);
        let wrong = (took > TURN).then(|| {
            format!(
                "{} has `{}` from its own process, {} ms after that began its turn",
                request.id,
                request.lock,
                took / 1_000_000
            )
        });
        verdict.note("turns", wrong);
    }
}
