//! A flight: commands that are sent together, in one go, each with an answer of its own.
//!
//! Several of the same script are one call of it. What goes wrong with such a call as a
//! whole (a right that is missing for one key, a script that was forgotten) has run
//! nothing of it: each is then sent alone, and has its own answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{RedisError, RedisResult, Value};
use tokio::time::{Instant as Timer, timeout_at};

use super::batcher::Entry;
use super::command::{Command, unreadable};
use super::connection::{Connections, Link};
use super::errors::Fault;
use super::{command, errors};
use crate::store::StoreError;

/// The most commands of a flight: what comes later does not wait for more.
pub(super) const MOST: usize = 100;

/// The most requests of a call: while a script runs, the server does nothing else.
const TOGETHER: usize = 16;

/// Sends commands, and answers each within `limit`.
pub(super) async fn run(connections: Arc<Connections>, mut entries: Vec<Entry>, limit: Duration) {
    let deadline = Timer::now() + limit;
    let Ok(Ok(link)) = timeout_at(deadline, connections.get(limit)).await else {
        return Flight::new(entries).fail(|| connections.shared().no_connection());
    };
    if let Some(problem) = connections.shared().why_not_to_grant(&link.health) {
        for entry in entries.extract_if(.., |entry| entry.command.grants()) {
            let _ = entry.answer.send(Err(errors::not_yet(&problem)));
        }
    }
    let mut flight = Flight::new(entries);
    // That a connection had to be made first is not its silence.
    let sent = Instant::now();
    match timeout_at(deadline, flight.send(&connections, &link, sent)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            connections.judge(&link, sent, errors::sort(error.clone()).0);
            flight.fail(|| errors::sort(error.clone()).1);
        }
        Err(_) => {
            connections.judge(&link, sent, Fault::Silent);
            flight.fail(errors::silent);
        }
    }
}

/// Commands by their places, and those that have no answer yet.
struct Flight {
    commands: Vec<Command>,
    waiting: Vec<Option<Sender>>,
}

type Sender = tokio::sync::oneshot::Sender<Result<Value, StoreError>>;

/// One call of a script, for the commands of these places.
struct Call {
    places: Vec<usize>,
    /// With the whole body, for a server that has forgotten the script.
    with_body: bool,
}

impl Flight {
    fn new(entries: Vec<Entry>) -> Self {
        let split = |entry: Entry| (entry.command, Some(entry.answer));
        let (commands, waiting) = entries.into_iter().map(split).unzip();
        Self { commands, waiting }
    }

    /// Sends all, and again what needs it. An error is one of the connection; answers
    /// that came before it stand.
    async fn send(
        &mut self,
        connections: &Connections,
        link: &Link,
        sent: Instant,
    ) -> RedisResult<()> {
        let together = if link.is_direct() { TOGETHER } else { 1 };
        // They are sent in this order; who is answered first does not wait for the rest.
        let mut under_way: FuturesUnordered<_> =
            plan(&self.commands, together).into_iter().map(|call| self.start(link, call)).collect();
        while let Some((call, answer)) = under_way.next().await {
            let (fault, again) = self.take(call, answer?);
            connections.judge(link, sent, fault);
            under_way.extend(again.into_iter().map(|call| self.start(link, call)));
        }
        Ok(())
    }

    /// Sends a call.
    fn start(
        &self,
        link: &Link,
        call: Call,
    ) -> impl Future<Output = (Call, RedisResult<Value>)> + use<> {
        let commands: Vec<_> = call.places.iter().map(|place| &self.commands[*place]).collect();
        #[cfg(feature = "cluster")]
        let is_asking = commands[0].is_asking;
        let (mut link, cmd) = (link.clone(), command::call(&commands, call.with_body));
        async move {
            #[cfg(feature = "cluster")]
            if is_asking {
                let answer = link.send_asking(&cmd).await;
                return (call, answer);
            }
            let answer = link.send(&cmd).await;
            (call, answer)
        }
    }

    /// Gives an answer to those it is for, or says what is to be sent again.
    fn take(&mut self, call: Call, answer: Value) -> (Fault, Vec<Call>) {
        let Call { places, with_body } = call;
        let error = match (answer, &places[..]) {
            (Value::ServerError(error), _) => RedisError::from(error),
            (answer, [place]) => return (self.answer(*place, answer), Vec::new()),
            (Value::Array(answers), _) if answers.len() == places.len() => {
                let answers = places.into_iter().zip(answers);
                let faults = answers.map(|(place, answer)| self.answer(place, answer));
                return (faults.max().unwrap_or(Fault::Answered), Vec::new());
            }
            (answer, _) => {
                for place in places {
                    self.settle(place, Err(unreadable(&answer)));
                }
                return (Fault::Answered, Vec::new());
            }
        };
        if error.code() == Some("NOSCRIPT") && !with_body {
            // Loading and calling again would be two commands, and the server may
            // forget between them.
            return (Fault::Answered, vec![Call { places, with_body: true }]);
        }
        if let [place] = places[..] {
            let (fault, error) = errors::sort(error);
            self.settle(place, Err(error));
            return (fault, Vec::new());
        }
        let alone = places.into_iter().map(|place| Call { places: vec![place], with_body });
        (Fault::Answered, alone.collect())
    }

    fn answer(&mut self, place: usize, answer: Value) -> Fault {
        let (fault, answer) = errors::sorted(Ok(answer));
        self.settle(place, answer);
        fault
    }

    fn settle(&mut self, place: usize, answer: Result<Value, StoreError>) {
        if let Some(waiting) = self.waiting[place].take() {
            // Whoever asked may be gone; what was asked for is done all the same.
            let _ = waiting.send(answer);
        }
    }

    /// Answers all that have no answer yet.
    fn fail(&mut self, error: impl Fn() -> StoreError) {
        for waiting in self.waiting.iter_mut().filter_map(Option::take) {
            let _ = waiting.send(Err(error()));
        }
    }
}

/// Which commands are one call. Those of one lock stay in order: a call answers its
/// requests one behind the other, and takes none that would overtake an earlier call's.
fn plan(commands: &[Command], together: usize) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    // By place: the lock, and the call it is in.
    let mut locks: Vec<u64> = Vec::with_capacity(commands.len());
    let mut of: Vec<usize> = Vec::with_capacity(commands.len());
    for (place, command) in commands.iter().enumerate() {
        let before = locks.iter().rposition(|lock| *lock == command.lock).map(|last| of[last]);
        let first = before.unwrap_or(0);
        let joins = |call: &Call| {
            call.places.len() < together && command.goes_with(&commands[call.places[0]])
        };
        let at = calls[first..].iter().rposition(joins).map_or(calls.len(), |at| first + at);
        if at == calls.len() {
            calls.push(Call { places: Vec::new(), with_body: false });
        }
        calls[at].places.push(place);
        locks.push(command.lock);
        of.push(at);
    }
    calls
}
