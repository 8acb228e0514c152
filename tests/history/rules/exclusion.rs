//! Holders that exclude each other never hold at the same time, and permits never exceed their
//! limit. Leases of different kinds of lock exclude each other, where they have one name.
//!
//! Each request has a limit of its own, as processes of two versions have. The server compares it with
//! all permits, when it grants the request and never again. So the permits of those that hold at one
//! time are within the limit of the one that was granted last.
//!
//! A server that forgets ends what was promised to the requests before: such a lease counts until
//! the server begins to forget. A request that was under way meanwhile does not count at all,
//! because nobody knows whether it was granted before. Grants with a
//! token are known, if a server lacked them that took over.

use super::Verdict;
use crate::history::{History, Request};
use crate::line::{Kind, Nanos};
use crate::troubles::Effect;

/// The time in which a lease is promised to its holder.
pub(super) fn promised(history: &History, request: &Request) -> Option<(Nanos, Nanos)> {
    let (start, mut end) = request.held()?;
    for fault in history.troubles.of(Effect::Forgets) {
        if request.asked <= fault.to {
            end = end.min(fault.from);
        }
    }
    if request.token.is_some() {
        end = end.min(history.forgotten(request).unwrap_or(Nanos::MAX));
    } else {
        // Nobody knows which server granted it.
        for fault in history.troubles.of(Effect::Replaced).filter(|it| request.asked <= it.to) {
            end = end.min(fault.from);
        }
    }
    (start < end).then_some((start, end))
}

fn excludes(one: &Request, other: &Request) -> bool {
    if !one.kind.is_compatible(other.kind) {
        return true;
    }
    match one.kind {
        Kind::Mutex | Kind::Once => true,
        Kind::Reentrant => one.owner != other.owner,
        Kind::Permits => false,
        Kind::Read | Kind::Write => {
            let writers = [one, other].iter().filter(|it| it.kind == Kind::Write).count();
            let is_same = one.is_named && other.is_named && one.owner == other.owner;
            writers > usize::from(is_same)
        }
    }
}

pub(super) fn check(history: &History, of_lock: &[&Request], verdict: &mut Verdict) {
    let mut spans: Vec<_> = of_lock
        .iter()
        .filter_map(|request| promised(history, request).map(|(start, end)| (start, end, *request)))
        .collect();
    spans.sort_unstable_by_key(|(start, ..)| *start);
    let mut active = Vec::<(Nanos, &Request)>::new();
    for (start, end, request) in spans {
        active.retain(|(end, _)| *end > start);
        verdict.judged.note("exclusion");
        for (until, other) in &active {
            if excludes(request, other) {
                verdict.wrong.push(format!(
                    "exclusion: {} holds `{}` as {:?} beside {} ({:?}) for {} us",
                    request.id,
                    request.lock,
                    request.kind,
                    other.id,
                    other.kind,
                    (until.min(&end) - start) / 1_000,
                ));
            }
        }
        active.push((end, request));
        let taken: u32 = active.iter().map(|(_, other)| other.units).sum();
        if request.kind == Kind::Permits {
            // Nearly always its own is enough to know.
            let own = request.limit;
            let limit = if taken > own { limit_of_last(of_lock, &active) } else { own };
            let wrong = (taken > limit).then(|| {
                format!(
                    "{} is granted, and {taken} of {limit} permits of `{}` are taken",
                    request.id, request.lock,
                )
            });
            verdict.note("limit", wrong);
        }
    }
}

/// The limit of the permit that the server granted last; the greatest one of those that may be the
/// last.
fn limit_of_last(of_lock: &[&Request], active: &[(Nanos, &Request)]) -> u32 {
    let from_server = active.iter().filter(|(_, it)| is_from_server(of_lock, it));
    let last_asked = from_server.map(|(_, it)| it.asked).max().unwrap_or_default();
    let may_be_last = |it: &Request| {
        !is_from_server(of_lock, it) || it.granted.is_some_and(|granted| granted >= last_asked)
    };
    let limits = active.iter().filter(|(_, it)| may_be_last(it)).map(|(_, it)| it.limit);
    limits.max().unwrap_or_default()
}

/// True if the server has granted it for sure when it was asked for. Others may have had a permit that
/// another request had before them: one that was detached, or one of the same process.
fn is_from_server(of_lock: &[&Request], request: &Request) -> bool {
    let (since, until) = (request.asked, request.granted.unwrap_or_default());
    request.adopts.is_none()
        && !of_lock.iter().any(|other| {
            // Where nobody waited for the answer, it came before the lease had ended.
            let is_dropped = other.freed.as_ref().is_some_and(|(_, how)| how == "dropped");
            let answer = if is_dropped { other.ttl } else { 0 };
            let is_there = |at: Nanos| at <= until && since <= at + answer + other.linger;
            let gave_up = other.refused.as_ref().map(|(at, _)| *at);
            // It is idle from when the server says that it may linger.
            let freed = other.freed.as_ref().map(|(at, _)| *at);
            other.id != request.id
                && other.worker() == request.worker()
                && [other.ended, freed, gave_up].into_iter().flatten().any(is_there)
        })
}
