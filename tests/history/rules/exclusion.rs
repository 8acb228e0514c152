//! Holders that exclude each other never hold at the same time, and permits never exceed their
//! limit.
//!
//! A server that forgets ends what was promised to the requests before: such a lease counts until
//! the server begins to forget. A request that was under way meanwhile does not count at all,
//! because nobody knows whether it was granted before. Of a server that took over it is known which
//! grants it lacked, if they have a token.

use crate::history::{History, Request};
use crate::line::{Effect, Kind, Nanos};

/// The time in which a lease is promised to its holder.
pub(super) fn promised(history: &History, request: &Request) -> Option<(Nanos, Nanos)> {
    let (start, mut end) = request.held()?;
    for fault in history.faults(Effect::Forgets) {
        if request.asked <= fault.to {
            end = end.min(fault.from);
        }
    }
    if request.token.is_some() {
        end = end.min(history.forgotten(request).unwrap_or(Nanos::MAX));
    } else {
        // Nobody knows which server granted it.
        for fault in history.faults(Effect::Replaced).filter(|it| request.asked <= it.to) {
            end = end.min(fault.from);
        }
    }
    (start < end).then_some((start, end))
}

fn excludes(one: &Request, other: &Request) -> bool {
    match one.kind {
        Kind::Mutex | Kind::Once => true,
        Kind::Reentrant => one.owner != other.owner,
        Kind::Permits => false,
        Kind::Read | Kind::Write => one.kind == Kind::Write || other.kind == Kind::Write,
    }
}

pub(super) fn check(history: &History, of_lock: &[&Request]) -> Vec<String> {
    let mut spans: Vec<_> = of_lock
        .iter()
        .filter_map(|request| promised(history, request).map(|(start, end)| (start, end, *request)))
        .collect();
    spans.sort_unstable_by_key(|(start, ..)| *start);
    let (mut wrong, mut active) = (Vec::new(), Vec::<(Nanos, &Request)>::new());
    for (start, end, request) in spans {
        active.retain(|(end, _)| *end > start);
        for (until, other) in &active {
            if excludes(request, other) {
                wrong.push(format!(
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
        if request.kind == Kind::Permits && taken > request.limit {
            wrong.push(format!(
                "limit: {} is granted, and {taken} of {} permits of `{}` are taken",
                request.id, request.limit, request.lock,
            ));
        }
    }
    wrong
}
