//! The rules. Each gives its violations, in words.

mod answers;
mod exclusion;
mod tokens;
mod waiting;

use std::collections::BTreeMap;

use crate::history::{History, Request};

/// All violations of a history.
#[must_use]
pub fn check(history: &History) -> Vec<String> {
    let mut wrong = answers::check(history);
    let mut locks = BTreeMap::<&str, Vec<&Request>>::new();
    for request in &history.requests {
        locks.entry(&request.lock).or_default().push(request);
    }
    for of_lock in locks.values() {
        wrong.extend(exclusion::check(history, of_lock));
        wrong.extend(tokens::check(history, of_lock));
        wrong.extend(waiting::check(history, of_lock));
    }
    wrong
}
