//! First come, first served between processes: nobody is granted a lock past a waiter of another
//! process.
//!
//! A waiter may lose its place for a reason: its process was stopped or had no processor time, or it
//! could not reach the server, or the server forgot the queue, or nobody polls its future or that of a
//! neighbour in its process. Then nothing is said about it. Within
//! a process requests queue up before they ask the server, so one counts as a waiter only once all
//! earlier ones of its process have ended. One that gives up leaves its place to the next of its
//! process.

use std::collections::HashMap;

use super::waiting::answered;
use super::{AtOnce, Verdict, is_alone};
use crate::history::{History, Request};
use crate::line::{Kind, Nanos};

/// For so long an idle lease is taken up without asking the server.
const IDLE: Nanos = 1_000_000_000;

/// For so long a process waits for one of its futures that nobody polls, and then for its place in the queue.
const NEGLECTED: Nanos = 8_000_000_000;

/// A grant is heard of this much later at most, if nothing is wrong.
const NEWS: Nanos = 500_000_000;

/// A request is in the server's queue `queued` after it was asked for. Until then, those who had the lock
/// before may hand it on inside their process: they begin no later than 20 ms after the grant.
pub(super) fn check(
    history: &History,
    of_lock: &[&Request],
    (at_once, queued): (&AtOnce<'_>, Nanos),
    verdict: &mut Verdict,
) {
    let neglected: Vec<_> = of_lock.iter().filter(|it| it.neglected.is_some()).collect();
    // It returns to its place when it is polled again. A neighbour that is left alone is passed over.
    let was_neglected = |waiter: &Request, since: Nanos, until: Nanos| {
        neglected.iter().filter(|it| it.worker() == waiter.worker()).any(|it| {
            let (from, to, _) = it.neglected.expect("it is one of these");
            let to = if it.id == waiter.id { to + NEWS } else { to.min(from + NEGLECTED) };
            from <= until && since <= to
        })
    };
    let mut ended = HashMap::<&str, Nanos>::new();
    let mut by_time = of_lock.to_vec();
    by_time.sort_by_key(|request| request.asked);
    for (nth, waiter) in by_time.iter().enumerate() {
        let before = ended.entry(waiter.worker()).or_default();
        let queued = waiter.asked.max(*before) + queued;
        *before = (*before).max(waiter.last());
        // Its last question is a try: it may be answered later, as that waits for this client's releases.
        let in_queue = waiter.waits.map_or(Nanos::MAX, |time| waiter.asked.saturating_add(time));
        let end = answered(history, waiter).min(in_queue);
        // A set waits for one lock after the other.
        if !is_alone(at_once, waiter) || !waits(waiter) || queued >= end {
            continue;
        }
        // Where there are always faults, this spares most of the work.
        if was_disturbed(history, waiter, queued) {
            continue;
        }
        let later = by_time[nth + 1..].iter().skip_while(|it| it.asked <= queued);
        for other in later.take_while(|it| it.asked < end) {
            let Some(granted) = other.granted.filter(|_| other.worker() != waiter.worker()) else {
                continue;
            };
            // A name may be used as two kinds of lock. One has no place in the queue of the other.
            if other.adopts.is_some()
                || may_go_ahead(other)
                || !other.kind.is_compatible(waiter.kind)
            {
                continue;
            }
            if has_place_since(history, &by_time, other) <= queued
                || may_be_unaware(history, &by_time, other)
                || was_disturbed(history, waiter, granted.min(end))
                || was_neglected(waiter, other.asked, granted.min(end))
            {
                continue;
            }
            let wrong = (granted + NEWS < end).then(|| {
                format!(
                    "{} got `{}` past {}, which had asked {} ms earlier",
                    other.id,
                    other.lock,
                    waiter.id,
                    (other.asked - waiter.asked) / 1_000_000
                )
            });
            if wrong.is_some() || granted >= end && waiter.granted.is_some() {
                verdict.note("order", wrong);
            }
        }
    }
}

/// True if an owner may go ahead of others because it has the lock already.
fn may_go_ahead(request: &Request) -> bool {
    request.is_named && matches!(request.kind, Kind::Read | Kind::Write)
}

/// True if it waits in the queue until it is answered. An owner does not queue behind others if it
/// holds the lock already, and work that is done in this tick waits for the next in no queue.
fn waits(request: &Request) -> bool {
    let why = request.refused.as_ref().map(|(_, why)| &**why);
    let is_answered = request.granted.is_some() || matches!(why, Some("timed-out" | "gave-up"));
    !matches!(request.kind, Kind::Reentrant | Kind::Once)
        && !may_go_ahead(request)
        && request.adopts.is_none()
        && is_answered
}

/// When somebody in its process joined the queue who may have left the place to it, or handed it the
/// lease.
fn has_place_since(history: &History, of_lock: &[&Request], request: &Request) -> Nanos {
    let mut since = request.asked;
    for before in of_lock.iter().rev().filter(|it| it.worker() == request.worker()) {
        let until = answered(history, before).max(before.ended.unwrap_or_default());
        if before.asked < since && since <= until {
            since = before.asked;
        }
    }
    since
}

/// True if its process stood still, and may have had an idle lease: for a second it takes up such a lease
/// without asking, and what would tell it of a waiter has not been read yet.
fn may_be_unaware(history: &History, of_lock: &[&Request], request: &Request) -> bool {
    let is_own = |it: &&&Request| it.worker() == request.worker();
    let since = request.asked.saturating_sub(IDLE);
    history.troubles.stood_still(request.worker(), (since, request.asked)) > 0
        && of_lock.iter().filter(is_own).any(|it| it.linger > 0 && it.asked < request.asked)
}

fn was_disturbed(history: &History, waiter: &Request, until: Nanos) -> bool {
    history.troubles.excuse("order", waiter.worker(), (waiter.asked, until))
}
