//! The answer of a script: how it arrives, and how its numbers are read.

use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use redis::{ErrorKind, RedisError, Value};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::errors;
use crate::core::error::Outcome;
use crate::store::StoreError;

/// The answer to a command that was sent. The command goes on if this is dropped.
pub(super) enum PendingAnswer {
    /// A batch carries the command.
    InBatch(oneshot::Receiver<Result<Value, StoreError>>),
    /// A task of its own carries it.
    InTask(JoinHandle<Result<Value, StoreError>>),
}

impl Future for PendingAnswer {
    type Output = Result<Value, StoreError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // There is no answer if the runtime has ended.
        match self.get_mut() {
            Self::InBatch(answer) => Pin::new(answer)
                .poll(context)
                .map(|it| it.unwrap_or_else(|_| Err(errors::shutdown()))),
            Self::InTask(answer) => Pin::new(answer)
                .poll(context)
                .map(|it| it.unwrap_or_else(|_| Err(errors::shutdown()))),
        }
    }
}

/// The numbers of an answer. Up to four need no allocation.
pub(super) enum Numbers {
    Few([u64; 4], usize),
    Many(Vec<u64>),
}

impl Deref for Numbers {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        match self {
            Self::Few(numbers, count) => &numbers[..*count],
            Self::Many(numbers) => numbers,
        }
    }
}

/// The numbers of an answer: of one integer, or of an array of them. No script of ours gives
/// any other, for which there are none.
pub(super) fn numbers(answer: &Value) -> Numbers {
    let number = |value: &Value| match *value {
        Value::Int(number) => u64::try_from(number).ok(),
        _ => None,
    };
    let values = match answer {
        Value::Array(values) => values,
        value => std::slice::from_ref(value),
    };
    let mut few = [0; 4];
    if values.len() > few.len() {
        return Numbers::Many(values.iter().map(number).collect::<Option<_>>().unwrap_or_default());
    }
    for (slot, value) in few.iter_mut().zip(values) {
        let Some(number) = number(value) else { return Numbers::Few(few, 0) };
        *slot = number;
    }
    Numbers::Few(few, values.len())
}

/// Decodes the numbers of an answer. It is `foreign` if one of the lock's keys holds a value
/// of another type.
pub(super) fn decode_numbers<T>(
    answer: Result<Value, StoreError>,
    foreign: T,
    read: impl FnOnce(&[u64]) -> Option<T>,
) -> Result<T, StoreError> {
    match answer {
        Err(error) if is_wrong_type(&error) => Ok(foreign),
        answer => {
            let answer = answer?;
            read(&numbers(&answer)).ok_or_else(|| unreadable(&answer))
        }
    }
}

/// Returns true if a key of the lock holds a value of another type.
pub(super) fn is_wrong_type(error: &StoreError) -> bool {
    errors::redis_error(error).is_some_and(|error| error.code() == Some("WRONGTYPE"))
}

/// The error for an answer that none of our scripts gives. A server that only speaks the
/// same protocol may give it.
pub(super) fn unreadable(answer: &Value) -> StoreError {
    let error = (ErrorKind::UnexpectedReturnType, "unexpected answer", format!("{answer:?}"));
    StoreError {
        outcome: Outcome::Unknown,
        is_passing: false,
        is_shut_down: false,
        source: Box::new(RedisError::from(error)),
    }
}
