//! A holder never believes in a lease for longer than its `max_hold`. That the lock then is free is
//! the rule of waiting.

use crate::history::History;

pub(super) fn check(history: &History) -> Vec<String> {
    let limited = history.requests.iter().filter_map(|it| Some((it, it.granted?, it.max_hold?)));
    limited
        .filter(|(request, granted, most)| request.deadline > granted + most)
        .map(|(request, granted, most)| {
            format!(
                "max-hold: {} believed to hold `{}` for {} ms longer than its `max_hold`",
                request.id,
                request.lock,
                (request.deadline - granted - most) / 1_000_000
            )
        })
        .collect()
}
