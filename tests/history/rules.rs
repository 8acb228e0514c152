//! The rules. Each gives its violations, in words.

mod answers;
mod exclusion;
mod loss;
mod max_hold;
mod once;
mod order;
mod refusals;
mod tokens;
mod turns;
mod waiting;

use std::collections::{BTreeMap, HashMap};

use crate::history::{History, Request};
use crate::judged::Judged;
use crate::line::Nanos;

/// What is wrong in a history, and how much of it was judged.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Each violation, in words; the name of its rule comes first.
    pub wrong: Vec<String>,
    /// How often each rule has judged something.
    pub judged: Judged,
}

impl Verdict {
    /// A rule has judged something, and this is wrong with it.
    pub fn note(&mut self, rule: &'static str, wrong: Option<String>) {
        self.judged.note(rule);
        self.wrong.extend(wrong.map(|it| format!("{rule}: {it}")));
    }
}

/// Checks a history by all rules. A request is in the server's queue `queued` after it was asked for, at the
/// latest. Where servers vote there is no queue, and no order is promised.
#[must_use]
pub fn check(history: &History, queued: Option<Nanos>) -> Verdict {
    let mut verdict = Verdict::default();
    answers::check(history, &mut verdict);
    loss::check(history, &mut verdict);
    max_hold::check(history, &mut verdict);
    let at_once = at_once(history);
    for of_lock in by_lock(history).values() {
        exclusion::check(history, of_lock, &mut verdict);
        once::check(history, of_lock, &mut verdict);
        if let Some(queued) = queued {
            order::check(history, of_lock, (&at_once, queued), &mut verdict);
        }
        refusals::check(history, of_lock, &at_once, &mut verdict);
        tokens::check(history, of_lock, &mut verdict);
        turns::check(history, of_lock, &at_once, &mut verdict);
        waiting::check(history, of_lock, &mut verdict);
    }
    verdict
}

fn by_lock(history: &History) -> BTreeMap<&str, Vec<&Request>> {
    let mut locks = BTreeMap::<&str, Vec<&Request>>::new();
    for request in &history.requests {
        locks.entry(&request.lock).or_default().push(request);
    }
    locks
}

/// How many requests each worker made at each time: those of one time are asked for together.
type AtOnce<'a> = HashMap<(&'a str, Nanos), u32>;

fn at_once(history: &History) -> AtOnce<'_> {
    let mut at_once = AtOnce::new();
    for request in &history.requests {
        *at_once.entry((request.worker(), request.asked)).or_default() += 1;
    }
    at_once
}

fn is_alone(at_once: &AtOnce<'_>, request: &Request) -> bool {
    at_once[&(request.worker(), request.asked)] == 1
}
