//! The rules. Each gives its violations, in words.

mod answers;
mod exclusion;
mod loss;
mod max_hold;
mod once;
mod order;
mod tokens;
mod waiting;

use std::collections::BTreeMap;

use crate::history::{History, Request};

/// The number of leases that nobody else may hold at the same time. Others were forgotten by their
/// server, or their holder never got to look at them.
#[must_use]
pub fn counted(history: &History) -> u64 {
    let is_promised = |request: &&Request| exclusion::promised(history, request).is_some();
    history.requests.iter().filter(is_promised).count() as u64
}

/// The number of grants that came after one to somebody who had waited for longer.
#[must_use]
pub fn in_order(history: &History) -> u64 {
    by_lock(history).values().map(|of_lock| order::pairs(history, of_lock).0).sum()
}

/// All violations of a history.
#[must_use]
pub fn check(history: &History) -> Vec<String> {
    let mut wrong = answers::check(history);
    wrong.extend(loss::check(history));
    wrong.extend(max_hold::check(history));
    for of_lock in by_lock(history).values() {
        wrong.extend(exclusion::check(history, of_lock));
        wrong.extend(once::check(history, of_lock));
        wrong.extend(order::pairs(history, of_lock).1);
        wrong.extend(tokens::check(history, of_lock));
        wrong.extend(waiting::check(history, of_lock));
    }
    wrong
}

fn by_lock(history: &History) -> BTreeMap<&str, Vec<&Request>> {
    let mut locks = BTreeMap::<&str, Vec<&Request>>::new();
    for request in &history.requests {
        locks.entry(&request.lock).or_default().push(request);
    }
    locks
}
