//! How commands become calls of scripts, and how the answer of a call becomes theirs.
//!
//! Several commands of the same script become one call. An error of such a call as a whole (a
//! missing right for one key, a forgotten script) means that none of its commands has run. Then
//! each is sent alone, and has its own answer.

use std::time::{Duration, Instant};

use redis::{Cmd, RedisError, Value};
use tokio::sync::oneshot;

use super::answer::{PendingAnswer, unreadable};
use super::encoded::{Encoded, pack};
use super::errors;
use super::errors::LinkOutcome;
use super::script::Form;
use super::script_errors::refuses_flags;
use crate::store::StoreError;

/// The most commands of a call: while a script runs, the server does nothing else.
pub(super) const MAX_PER_CALL: usize = 16;

/// A command in the queue, and where its answer goes.
pub(super) struct Queued {
    pub(super) command: Encoded,
    answer: oneshot::Sender<Result<Value, StoreError>>,
    pub(super) limit: Duration,
}

impl Queued {
    /// A command that must be answered within `limit`.
    pub(super) fn new(command: Encoded, limit: Duration) -> (Self, PendingAnswer) {
        let (answer, receiver) = oneshot::channel();
        (Self { command, answer, limit }, PendingAnswer::InBatch(receiver))
    }

    pub(super) fn settle(self, answer: Result<Value, StoreError>) {
        // Whoever asked may be gone; the command has run all the same.
        let _ = self.answer.send(answer);
    }
}

/// One call of a script, for these commands. There is at least one, and all have one time limit.
pub(super) struct ScriptCall {
    commands: Vec<Queued>,
    /// The whole body is sent, for a server that has forgotten the script.
    with_body: bool,
    /// The form of the script that was sent last.
    form: Form,
    /// When it counts as unanswered.
    pub(super) deadline: Instant,
}

impl ScriptCall {
    fn new(commands: Vec<Queued>, deadline: Instant) -> Self {
        Self { commands, with_body: false, form: Form::default(), deadline }
    }

    /// The command for the driver, for a server that takes scripts in this form.
    pub(super) fn pack(&mut self, form: Form) -> Cmd {
        self.form = form;
        let commands: Vec<_> = self.commands.iter().map(|it| &it.command).collect();
        pack(&commands, form, self.with_body)
    }

    pub(super) fn count(&self) -> usize {
        self.commands.len()
    }

    pub(super) fn is_asking(&self) -> bool {
        self.commands[0].command.is_asking
    }

    /// Answers all commands with an error.
    pub(super) fn fail(self, error: impl Fn() -> StoreError) {
        for queued in self.commands {
            queued.settle(Err(error()));
        }
    }

    /// Answers its commands, and returns the calls that have to be sent because of the answer.
    /// Before that, it calls `leave_out_flags` if the server refuses flags.
    pub(super) fn settle(
        mut self,
        answer: Value,
        leave_out_flags: impl FnOnce(),
    ) -> (LinkOutcome, Vec<ScriptCall>) {
        let error = match answer {
            Value::ServerError(error) => RedisError::from(error),
            Value::Array(answers) if self.commands.len() > 1 => {
                if answers.len() != self.commands.len() {
                    self.fail(|| unreadable(&Value::Array(answers.clone())));
                    return (LinkOutcome::Answered, Vec::new());
                }
                let outcomes = self.commands.into_iter().zip(answers).map(settle_one);
                return (outcomes.max().unwrap_or(LinkOutcome::Answered), Vec::new());
            }
            answer if self.commands.len() > 1 => {
                self.fail(|| unreadable(&answer));
                return (LinkOutcome::Answered, Vec::new());
            }
            answer => {
                let outcome = self.commands.pop().map(|queued| settle_one((queued, answer)));
                return (outcome.unwrap_or(LinkOutcome::Answered), Vec::new());
            }
        };
        if error.code() == Some("NOSCRIPT") && !self.with_body {
            // To load the script and call it again takes two commands, and the server may
            // forget it in between.
            return (LinkOutcome::Answered, vec![ScriptCall { with_body: true, ..self }]);
        }
        if self.with_body && self.form == Form::Flagged && refuses_flags(&error) {
            leave_out_flags();
            return (LinkOutcome::Answered, vec![self]);
        }
        if self.commands.len() == 1 {
            let (outcome, _) = errors::classify(error.clone());
            self.fail(|| errors::classify(error.clone()).1);
            return (outcome, Vec::new());
        }
        let Self { with_body, form, deadline, .. } = self;
        let alone = |queued| ScriptCall { commands: vec![queued], with_body, form, deadline };
        (LinkOutcome::Answered, self.commands.into_iter().map(alone).collect())
    }
}

fn settle_one((queued, answer): (Queued, Value)) -> LinkOutcome {
    let (outcome, answer) = errors::classify_answer(Ok(answer));
    queued.settle(answer);
    outcome
}

/// Divides commands into calls. The commands of a lock keep their order, unless the server has
/// forgotten a script: a call runs its commands one after the other, and none joins a call before
/// that of an earlier command of its lock. Commands with different time limits do not share a call: those of a short TTL give
/// up early, and the others need not.
pub(super) fn plan(commands: Vec<Queued>, max_per_call: usize, now: Instant) -> Vec<ScriptCall> {
    if let [only] = &commands[..] {
        let deadline = now + only.limit;
        return vec![ScriptCall::new(commands, deadline)];
    }
    let count = commands.len();
    let mut calls: Vec<ScriptCall> = Vec::with_capacity(1);
    // By index of the command: its lock, and its call.
    let mut before: Vec<(u64, usize)> = Vec::with_capacity(commands.len());
    for queued in commands {
        let last = |lock| before.iter().rfind(|(other, _)| *other == lock).map(|(_, call)| *call);
        let first = queued.command.locks().filter_map(last).max().unwrap_or(0);
        let has_room = |call: &ScriptCall| {
            let other = &call.commands[0];
            call.commands.len() < max_per_call
                && other.limit == queued.limit
                && queued.command.can_share_call(&other.command)
        };
        let at = calls[first..].iter().rposition(has_room).map_or(calls.len(), |at| first + at);
        debug_assert!(at >= first, "a command overtakes another of its lock");
        before.extend(queued.command.locks().map(|lock| (lock, at)));
        if let Some(call) = calls.get_mut(at) {
            call.commands.push(queued);
        } else {
            let deadline = now + queued.limit;
            calls.push(ScriptCall::new(vec![queued], deadline));
        }
    }
    debug_assert_eq!(calls.iter().map(ScriptCall::count).sum::<usize>(), count);
    calls
}
