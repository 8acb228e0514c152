//! The error for a command on which no majority agreed, with the answer of each member.

use std::sync::Arc;

use super::members::Member;
use crate::core::error::Outcome;
use crate::core::no_majority::NoMajority;
use crate::core::time_text::Short;
use crate::store::{Attempt, Renewal, StoreError};

/// The error. `failures` has a pair for each member whose answer does not count: whether the
/// failure may pass, and whether the client has been shut down.
pub(super) fn error(
    outcome: Outcome,
    answers: impl Iterator<Item = (String, String)>,
    failures: impl Iterator<Item = (bool, bool)>,
) -> StoreError {
    let source = NoMajority::of(answers);
    let (mut lasting, mut is_shut_down) = (0, false);
    for (is_passing, is_end) in failures {
        lasting += usize::from(!is_passing);
        is_shut_down |= is_end;
    }
    StoreError {
        outcome,
        is_passing: lasting < source.needed(),
        is_shut_down,
        source: Box::new(source),
    }
}

/// The error for a list of answers in the members' order; `in_words` describes one.
pub(super) fn among<T: Copy>(
    members: &[Arc<Member>],
    answers: &[Option<Result<T, StoreError>>],
    in_words: impl Fn(T) -> String,
) -> StoreError {
    let answer = |(member, answer): (&Arc<Member>, &Option<Result<T, StoreError>>)| {
        let answer = match answer {
            None => "no answer yet".to_owned(),
            Some(Ok(answer)) => in_words(*answer),
            Some(Err(error)) => error.source.to_string(),
        };
        (member.name.clone(), answer)
    };
    let failures = answers.iter().flatten().filter_map(|answer| answer.as_ref().err());
    error(
        Outcome::Unknown,
        members.iter().zip(answers).map(answer),
        failures.map(|error| (error.is_passing, error.is_shut_down)),
    )
}

/// An attempt in words.
pub(super) fn attempt(answer: &Attempt) -> String {
    match answer {
        Attempt::Granted { .. } | Attempt::GrantedTick { .. } => "granted".to_owned(),
        Attempt::Done { .. } => "done".to_owned(),
        Attempt::Busy { retry_after, .. } | Attempt::Recalled { retry_after, .. } => {
            format!("held by another for {}", Short(*retry_after))
        }
        Attempt::Queued { .. } => "queued".to_owned(),
        Attempt::Ended => "the request had ended".to_owned(),
        Attempt::WrongKind => "the name is in use by another kind of lock".to_owned(),
        Attempt::WouldDeadlock => "its owner has it already".to_owned(),
    }
}

/// A renewal in words.
pub(super) fn renewal(answer: Renewal) -> String {
    match answer {
        Renewal::Renewed => "renewed".to_owned(),
        Renewal::NotHeld(reason) => reason.to_string(),
    }
}
