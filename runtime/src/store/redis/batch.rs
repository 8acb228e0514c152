//! A batch: commands that are sent together, each with an answer of its own.
//!
//! Several of the same script become one call. An error of such a call as a whole (a missing
//! right for one key, a forgotten script) means that none of its commands has run. Then each is
//! sent alone, and has its own answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{RedisError, RedisResult, Value};
use tokio::sync::oneshot;
use tokio::time::{Instant as Timer, timeout_at};

use super::answer::{PendingAnswer, unreadable};
use super::command::{Command, pack};
use super::connection::Connection;
use super::errors;
use super::errors::LinkOutcome;
use super::link::Link;
use crate::store::StoreError;

/// The most commands of a batch. Further commands go into the next one.
pub(super) const MAX_COMMANDS: usize = 100;

/// The most commands of a call: while a script runs, the server does nothing else.
const MAX_PER_CALL: usize = 16;

type Sender = oneshot::Sender<Result<Value, StoreError>>;

/// A command in the queue, and where its answer goes.
pub(super) struct Queued {
    pub(super) command: Command,
    answer: Sender,
    pub(super) limit: Duration,
}

impl Queued {
    /// A command that must be answered within `limit`.
    pub(super) fn new(command: Command, limit: Duration) -> (Self, PendingAnswer) {
        let (answer, receiver) = oneshot::channel();
        (Self { command, answer, limit }, PendingAnswer::InBatch(receiver))
    }
}

/// Sends commands, and answers each within `limit`.
pub(super) async fn run(connection: Arc<Connection>, mut queued: Vec<Queued>, limit: Duration) {
    let deadline = Timer::now() + limit;
    let Ok(Ok(link)) = timeout_at(deadline, connection.link(limit)).await else {
        return Batch::new(queued).fail(|| connection.server().no_connection());
    };
    if let Some(refusal) = connection.server().refusal_to_grant(&link.state) {
        for queued in queued.extract_if(.., |queued| queued.command.grants()) {
            let _ = queued.answer.send(Err(errors::not_sent(&refusal)));
        }
    }
    let mut batch = Batch::new(queued);
    // From here on: the time to make a link is no silence of the link.
    let sent = Instant::now();
    match timeout_at(deadline, batch.send(&connection, &link, sent)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            connection.record(&link, sent, errors::classify(error.clone()).0);
            batch.fail(|| errors::classify(error.clone()).1);
        }
        Err(_) => {
            connection.record(&link, sent, LinkOutcome::Silent);
            batch.fail(errors::timed_out);
        }
    }
}

/// The commands of a batch, and where the answers go that have not come yet.
struct Batch {
    commands: Vec<Command>,
    pending: Vec<Option<Sender>>,
}

/// One call of a script, for the commands at these indexes.
struct Call {
    indexes: Vec<usize>,
    /// The whole body is sent, for a server that has forgotten the script.
    with_body: bool,
}

impl Batch {
    fn new(queued: Vec<Queued>) -> Self {
        let split = |queued: Queued| (queued.command, Some(queued.answer));
        let (commands, pending) = queued.into_iter().map(split).unzip();
        Self { commands, pending }
    }

    /// Sends all commands, and some of them again. It fails if the connection does; the
    /// answers that came before stand.
    async fn send(
        &mut self,
        connection: &Connection,
        link: &Link,
        sent: Instant,
    ) -> RedisResult<()> {
        let max = if link.is_direct() { MAX_PER_CALL } else { 1 };
        // They are sent in this order; an early answer does not wait for the rest.
        let mut in_flight: FuturesUnordered<_> =
            plan(&self.commands, max).into_iter().map(|call| self.start(link, call)).collect();
        while let Some((call, answer)) = in_flight.next().await {
            let (outcome, again) = self.take(call, answer?);
            connection.record(link, sent, outcome);
            in_flight.extend(again.into_iter().map(|call| self.start(link, call)));
        }
        Ok(())
    }

    /// Sends a call.
    fn start(
        &self,
        link: &Link,
        call: Call,
    ) -> impl Future<Output = (Call, RedisResult<Value>)> + use<> {
        let commands: Vec<_> = call.indexes.iter().map(|index| &self.commands[*index]).collect();
        let is_asking = commands[0].is_asking;
        let (mut link, cmd) = (link.clone(), pack(&commands, call.with_body));
        async move {
            let answer =
                if is_asking { link.send_asking(&cmd).await } else { link.send(&cmd).await };
            (call, answer)
        }
    }

    /// Takes the answer of a call, and returns the calls that have to be sent because of it.
    fn take(&mut self, call: Call, answer: Value) -> (LinkOutcome, Vec<Call>) {
        let Call { indexes, with_body } = call;
        let error = match (answer, &indexes[..]) {
            (Value::ServerError(error), _) => RedisError::from(error),
            (answer, [index]) => return (self.answer(*index, answer), Vec::new()),
            (Value::Array(answers), _) if answers.len() == indexes.len() => {
                let answers = indexes.into_iter().zip(answers);
                let outcomes = answers.map(|(index, answer)| self.answer(index, answer));
                return (outcomes.max().unwrap_or(LinkOutcome::Answered), Vec::new());
            }
            (answer, _) => {
                for index in indexes {
                    self.settle(index, Err(unreadable(&answer)));
                }
                return (LinkOutcome::Answered, Vec::new());
            }
        };
        if error.code() == Some("NOSCRIPT") && !with_body {
            // To load the script and call it again takes two commands, and the server may
            // forget it in between.
            return (LinkOutcome::Answered, vec![Call { indexes, with_body: true }]);
        }
        if let [index] = indexes[..] {
            let (outcome, error) = errors::classify(error);
            self.settle(index, Err(error));
            return (outcome, Vec::new());
        }
        let alone = indexes.into_iter().map(|index| Call { indexes: vec![index], with_body });
        (LinkOutcome::Answered, alone.collect())
    }

    fn answer(&mut self, index: usize, answer: Value) -> LinkOutcome {
        let (outcome, answer) = errors::classify_answer(Ok(answer));
        self.settle(index, answer);
        outcome
    }

    fn settle(&mut self, index: usize, answer: Result<Value, StoreError>) {
        if let Some(pending) = self.pending[index].take() {
            // Whoever asked may be gone; the command has run all the same.
            let _ = pending.send(answer);
        }
    }

    /// Answers every command that has no answer yet with an error.
    fn fail(&mut self, error: impl Fn() -> StoreError) {
        for pending in self.pending.iter_mut().filter_map(Option::take) {
            let _ = pending.send(Err(error()));
        }
    }
}

/// Divides commands into calls. The commands of a lock keep their order: a call runs its
/// commands one after the other, and none joins a call before that of an earlier command of
/// its lock.
fn plan(commands: &[Command], max_per_call: usize) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    // By index of the command: its lock, and its call.
    let mut locks: Vec<u64> = Vec::with_capacity(commands.len());
    let mut call_of: Vec<usize> = Vec::with_capacity(commands.len());
    for (index, command) in commands.iter().enumerate() {
        let before = locks.iter().rposition(|lock| *lock == command.lock).map(|last| call_of[last]);
        let first = before.unwrap_or(0);
        let has_room = |call: &Call| {
            call.indexes.len() < max_per_call && command.can_share_call(&commands[call.indexes[0]])
        };
        let at = calls[first..].iter().rposition(has_room).map_or(calls.len(), |at| first + at);
        if at == calls.len() {
            calls.push(Call { indexes: Vec::new(), with_body: false });
        }
        calls[at].indexes.push(index);
        locks.push(command.lock);
        call_of.push(at);
    }
    calls
}
