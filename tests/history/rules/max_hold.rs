//! A holder never believes in a lease for longer than its `max_hold`. That the lock then is free is
//! the rule of waiting.

use super::Verdict;
use crate::history::History;

pub(super) fn check(history: &History, verdict: &mut Verdict) {
    let limited = history.requests.iter().filter_map(|it| Some((it, it.granted? + it.max_hold?)));
    for (request, most) in limited {
        let wrong = (request.deadline > most).then(|| {
            format!(
                "{} believed to hold `{}` for {} ms longer than its `max_hold`",
                request.id,
                request.lock,
                (request.deadline - most) / 1_000_000
            )
        });
        verdict.note("max-hold", wrong);
    }
}
