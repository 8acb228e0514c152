//! One command: what a script is asked, and how its answer is read.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::time::Duration;

use redis::{Cmd, ErrorKind, RedisError, Value};

use super::args::Words;
use super::errors;
use super::script::Script;
use crate::core::error::Outcome;
use crate::core::key::LockKey;
use crate::store::{Request, StoreError};

/// What a script is asked: its keys and its arguments.
#[derive(Clone, Debug)]
pub(super) struct Command {
    script: &'static Script,
    /// The keys, then the arguments.
    words: Words,
    keys: usize,
    /// Stands for the lock: all commands of one have the same.
    pub(super) lock: u64,
    /// On a cluster: the slot that its keys are in.
    slot: u16,
    /// On a cluster: its slot is on the way to the node that it is sent to.
    pub(super) is_asking: bool,
}

impl Command {
    pub(super) fn new(script: &'static Script) -> Self {
        Self { script, words: Words::new(), keys: 0, lock: 0, slot: 0, is_asking: false }
    }

    /// Adds the script's keys of a lock.
    pub(super) fn keys(mut self, key: &LockKey, prefix: &str) -> Self {
        for role in self.script.keys {
            self.words.push_parts(&key.parts_in_store(prefix, role).map(str::as_bytes));
        }
        self.keys = self.words.len();
        self.lock = number_of(key);
        self
    }

    /// Adds a key that is no lock's.
    pub(super) fn key(mut self, key: &str) -> Self {
        self.words.push(key.as_bytes());
        self.keys = self.words.len();
        self
    }

    pub(super) fn arg(mut self, arg: impl AsRef<[u8]>) -> Self {
        self.words.push(arg.as_ref());
        self
    }

    pub(super) fn number(mut self, number: impl Into<u64>) -> Self {
        self.words.push_number(number.into());
        self
    }

    pub(super) fn millis(self, time: Duration) -> Self {
        self.number(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    /// Whether it may grant what was not granted before.
    pub(super) fn grants(&self) -> bool {
        self.script.grants
    }

    /// Whether one call takes this and the other.
    pub(super) fn goes_with(&self, other: &Self) -> bool {
        self.script.takes_several
            && std::ptr::eq(self.script, other.script)
            && (self.slot, self.is_asking) == (other.slot, other.is_asking)
    }

    /// The first of its keys: all of them are in its slot.
    #[cfg(feature = "cluster")]
    pub(super) fn first_key(&self) -> &[u8] {
        self.words.iter().next().unwrap_or_default()
    }

    /// The same for a node of a cluster.
    #[cfg(feature = "cluster")]
    pub(super) fn to(&self, slot: u16, is_asking: bool) -> Self {
        Self { slot, is_asking, ..self.clone() }
    }
}

/// What stands for a lock.
pub(super) fn number_of(key: &LockKey) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// One call of the script of these commands: by its hash, or with the whole body, for
/// a server that has forgotten it.
pub(super) fn call(commands: &[&Command], with_body: bool) -> Cmd {
    let sum = |size: fn(&Words) -> usize| commands.iter().map(|it| size(&it.words)).sum::<usize>();
    let mut cmd = Cmd::with_capacity(3 + sum(Words::len), 64 + sum(Words::size));
    if let Some(first) = commands.first() {
        if with_body {
            cmd.arg("EVAL").arg(first.script.body());
        } else {
            cmd.arg("EVALSHA").arg(first.script.hash());
        }
    }
    cmd.arg(commands.iter().map(|command| command.keys).sum::<usize>());
    for command in commands {
        command.words.iter().take(command.keys).for_each(|key| _ = cmd.arg(key));
    }
    for command in commands {
        command.words.iter().skip(command.keys).for_each(|arg| _ = cmd.arg(arg));
    }
    cmd
}

/// The least that a command may take: a third of the shortest TTL. The rest of a lease
/// that is not to be held for longer may be shorter than that.
pub(super) const LEAST: Duration = Duration::from_millis(33);

/// The time a command has: enough for a slow answer, and little enough that a
/// lease outlives two of them.
pub(super) fn limit(request: &Request, most: Duration) -> Duration {
    limit_of(request.ttl, most)
}

/// The same for a request of this TTL.
pub(super) fn limit_of(ttl: Duration, most: Duration) -> Duration {
    (ttl / 3).min(most).max(LEAST)
}

/// The integers of an answer: few have their place here, and need no memory.
pub(super) enum Integers {
    Few([u64; 4], usize),
    Many(Vec<u64>),
}

impl Deref for Integers {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        match self {
            Self::Few(numbers, count) => &numbers[..*count],
            Self::Many(numbers) => numbers,
        }
    }
}

/// A script's answer: an integer, or some in an array. What can't be one of ours
/// is empty.
pub(super) fn integers(answer: &Value) -> Integers {
    let integer = |value: &Value| match *value {
        Value::Int(number) => u64::try_from(number).ok(),
        _ => None,
    };
    let values = match answer {
        Value::Array(values) => values,
        value => std::slice::from_ref(value),
    };
    let mut few = [0; 4];
    if values.len() > few.len() {
        return Integers::Many(
            values.iter().map(integer).collect::<Option<_>>().unwrap_or_default(),
        );
    }
    for (place, value) in few.iter_mut().zip(values) {
        let Some(number) = integer(value) else { return Integers::Few(few, 0) };
        *place = number;
    }
    Integers::Few(few, values.len())
}

/// A value of another type stands under a key of the lock.
pub(super) fn is_wrong_type(error: &StoreError) -> bool {
    errors::of(error).is_some_and(|error| error.code() == Some("WRONGTYPE"))
}

/// A server of the same protocol whose scripts are not ours can't answer so.
pub(super) fn unreadable(answer: &Value) -> StoreError {
    let error = (ErrorKind::UnexpectedReturnType, "unexpected answer", format!("{answer:?}"));
    StoreError {
        outcome: Outcome::Unknown,
        is_passing: false,
        is_shut_down: false,
        source: Box::new(RedisError::from(error)),
    }
}
