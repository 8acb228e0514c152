//! The token of a grant is greater than those of all grants before it.
//!
//! A grant is before another if its holder held it earlier. If the server forgot something while
//! the later one was asked for, the later one may have been granted first; then a grant is before
//! another only if it was granted before the other was asked for.
//!
//! A lease that lingered while the server forgot it may be taken up once more: its token is older than
//! those that the server gave since, as it should be. So is that of a lease which was asked for before
//! the server forgot it, and which another request of the same process then gets.
//!
//! After a server's clock has gone back, and until it has made up for that, a token may be smaller
//! than one of a lease that expired, or that the server has forgotten.

use std::collections::HashMap;

use super::Verdict;
use crate::history::{BLOCK, History, Request};
use crate::line::Nanos;
use crate::troubles::Effect;

/// A server forgets an expired mutex when its lease ends, and that may be this long before.
const LONGEST_LEASE: Nanos = 30_000_000_000;

/// No server was asked for a grant that took less time.
const AT_ONCE: Nanos = 1_000_000;

/// For the time between the change of the clock and its line.
const SLACK: Nanos = 500_000_000;

pub(super) fn check(history: &History, of_lock: &[&Request], verdict: &mut Verdict) {
    let mut fenced: Vec<_> = of_lock
        .iter()
        .filter_map(|request| Some((request.held()?.0, request.token?, *request)))
        .collect();
    fenced.sort_unstable_by_key(|(granted, ..)| *granted);
    let mut seen = HashMap::<u64, &Request>::new();
    // The greatest token up to each grant.
    let mut greatest = Vec::<(Nanos, u64, &Request)>::new();
    for (granted, token, request) in fenced {
        // A server that was replaced meanwhile grants on. Its tokens are to be old; and its heir does not
        // know them, so it may give older ones.
        let is_replaced = || history.forgotten(request).is_some_and(|until| until <= granted);
        let is_excused = || is_replaced() || is_behind(history, of_lock, request);
        if let Some(other) = seen.insert(token, request)
            && !is_same(other, request)
            && !is_excused()
        {
            verdict.wrong.push(format!(
                "token: {} and {} both have {token} of `{}`",
                other.id, request.id, request.lock
            ));
        }
        let may_be_earlier = history.may_have_forgotten(request.asked, granted);
        if may_be_earlier
            && (granted - request.asked < AT_ONCE || may_inherit(history, of_lock, request))
        {
            continue;
        }
        let before = if may_be_earlier {
            let count = greatest.partition_point(|(granted, ..)| *granted < request.asked);
            count.checked_sub(1).map(|last| greatest[last])
        } else {
            greatest.last().copied()
        };
        if let Some((_, most, other)) = before
            && !(if token < most { is_excused() } else { is_replaced() })
        {
            let wrong = (token < most).then(|| {
                format!(
                    "{} got {token} of `{}` after {} got {most}",
                    request.id, request.lock, other.id
                )
            });
            verdict.note("token", wrong);
        }
        if is_replaced() {
            continue;
        }
        let most = match greatest.last() {
            Some((_, most, other)) if *most >= token => (granted, *most, *other),
            _ => (granted, token, request),
        };
        greatest.push(most);
    }
}

/// True if another request of the process, which was asked for before the server forgot something, had a
/// token of the same grant.
fn may_inherit(history: &History, of_lock: &[&Request], request: &Request) -> bool {
    let (Some(granted), Some(token)) = (request.granted, request.token) else { return false };
    let is_of_grant = |first: u64| (first..first + BLOCK).contains(&token);
    let mut losses =
        history.losses().filter(|fault| fault.from <= granted && request.asked <= fault.to);
    losses.any(|fault| {
        of_lock.iter().any(|other| {
            other.worker() == request.worker()
                && other.asked <= fault.from
                && other.token.is_some_and(is_of_grant)
        })
    })
}

/// All holds of one owner may have one token.
fn is_same(one: &Request, other: &Request) -> bool {
    one.kind == crate::Kind::Reentrant && one.owner == other.owner
}

/// True if the server's clock was behind when a request was granted, and something had made the
/// server forget the last token: a lease that was not released, or a fault.
fn is_behind(history: &History, of_lock: &[&Request], request: &Request) -> bool {
    let granted = request.granted.unwrap_or(Nanos::MAX);
    let mut made_up = 0;
    history.troubles.of(Effect::Behind).any(|fault| {
        // What it has not made up for when it goes back again adds to that.
        made_up = fault.to.max(made_up) + fault.amount;
        let is_behind = fault.from <= granted && request.asked <= made_up + SLACK;
        let since = fault.from.saturating_sub(LONGEST_LEASE);
        let is_recent = |at: Nanos| since <= at && at <= granted;
        // It may have forgotten at any time of the fault.
        let forgets = history.losses().any(|fault| fault.from <= granted && since <= fault.to);
        let expires = || {
            of_lock.iter().any(|other| {
                let was_released = other.freed.as_ref().is_some_and(|(_, how)| how == "free")
                    && other.lost.is_none();
                let was_never_asked = other.refused.as_ref().is_some_and(|(_, why)| why == "busy");
                !was_released
                    && !was_never_asked
                    && other.id != request.id
                    && other.asked <= granted
                    && is_recent(other.last().max(since))
                    && other.last() >= since
            })
        };
        is_behind && (forgets || expires())
    })
}
