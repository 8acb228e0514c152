//! Asks one server questions, each with a time limit.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::timeout;

use super::super::connection::Connection;
use super::super::encoded::{Encoded, pack};
use super::super::errors;
use super::super::errors::LinkOutcome;
use super::super::link::Link;
use super::super::script::Form;
use super::material::{Refusal, Reply};
use crate::store::StoreError;
use crate::system;

/// A link to a server, which it shares with the commands of locks.
pub(super) struct Asker {
    connection: Arc<Connection>,
    link: Link,
    /// The most time that an answer may take.
    pub(super) limit: Duration,
}

/// A command of these words.
pub(super) fn words(words: &[&str]) -> Cmd {
    let mut command = Cmd::new();
    command.arg(words);
    command
}

impl Asker {
    pub(super) fn new(connection: Arc<Connection>, link: Link, limit: Duration) -> Self {
        Self { connection, link, limit }
    }

    /// Asks, and keeps the error. It notes how the link did, as for any command; but a refusal
    /// is no reason to abandon the link.
    pub(super) async fn try_ask(&self, command: &Cmd) -> Result<Value, StoreError> {
        let (mut link, sent) = (self.link.clone(), system::now());
        let (outcome, answer) = match timeout(self.limit, link.send(command)).await {
            Ok(answer) => match answer.and_then(Value::extract_error) {
                Ok(answer) => (LinkOutcome::Answered, Ok(answer)),
                Err(error) if error.code().is_some() => {
                    (LinkOutcome::Answered, Err(errors::not_run(error)))
                }
                Err(error) => (LinkOutcome::Broken, Err(errors::not_run(error))),
            },
            Err(_) => (LinkOutcome::Silent, Err(errors::timed_out())),
        };
        self.connection.record(&self.link, sent, outcome);
        answer
    }

    /// Asks.
    pub(super) async fn ask(&self, command: &Cmd) -> Reply<Value> {
        match self.try_ask(command).await {
            Ok(answer) => Reply::Got(answer),
            Err(error) => match errors::redis_error(&error) {
                Some(refusal) if refusal.code().is_some() => Reply::Refused(Refusal::new(refusal)),
                _ => Reply::Missing,
            },
        }
    }

    /// Calls a script, in the form that the server takes.
    pub(super) async fn call(&self, command: &Encoded) -> Reply<Value> {
        let form = self.link.state.form();
        let reply = self.ask(&pack(&[command], form, true)).await;
        if form == Form::Flagged && reply.refusal().is_some_and(Refusal::is_of_flags) {
            self.leave_out_flags();
            return self.ask(&pack(&[command], Form::Plain, true)).await;
        }
        reply
    }

    /// Notes that the server refuses flags of scripts.
    pub(super) fn leave_out_flags(&self) {
        self.connection.connector().leave_out_flags(&self.link.state);
    }

    /// Subscribes to the client's own channel, where it is subscribed already if it may.
    pub(super) async fn subscribe(&self) -> Reply<()> {
        let mut link = self.link.clone();
        let channel = &self.connection.server().hints.channel;
        match timeout(self.limit, link.subscribe(channel)).await {
            Ok(Ok(())) => Reply::Got(()),
            Ok(Err(error)) if error.code().is_some() => Reply::Refused(Refusal::new(&error)),
            Ok(Err(_)) | Err(_) => Reply::Missing,
        }
    }
}
