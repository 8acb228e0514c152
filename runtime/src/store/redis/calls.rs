//! The calls of one batcher that have no answer yet.
//!
//! The batcher's task polls them, and so may a caller that sends a command while none is in
//! flight. All calls share one timer: each new one would be the next to fire, and so would wake
//! the runtime. Answers of a connection come in the order of its calls, so only the first call of
//! each is polled, once all are sent.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use redis::{RedisResult, Value};

use super::batch::{MAX_PER_CALL, Queued, ScriptCall, plan};
use super::connection::Connection;
use super::errors;
use super::errors::LinkOutcome;
use super::link::Link;
use crate::system;

/// The most commands that are divided into calls together: each is compared with those before it.
const MAX_COMMANDS: usize = 100;

/// The calls in flight.
#[derive(Default)]
pub(super) struct Calls {
    /// By connection. There is more than one only while calls of a lost one are unanswered.
    by_link: Vec<(Link, VecDeque<SentCall>)>,
    /// An empty one, which has its memory.
    spare: VecDeque<SentCall>,
    /// How many commands were answered last, at the same time.
    last_answered: usize,
    /// How many batches wait for a connection.
    pub(super) connecting: usize,
    /// When to look for calls that have had no answer in time. It is never later than the first
    /// deadline, and may be earlier.
    pub(super) look_at: Option<Instant>,
    /// Wakes the batcher's task, once that has begun.
    pub(super) task: Option<Waker>,
}

impl Calls {
    /// Returns true if no command is in flight, and none waits for a connection.
    pub(super) fn is_empty(&self) -> bool {
        self.connecting == 0 && self.by_link.is_empty()
    }

    /// Returns true if many commands were answered at the same time: their callers will soon send
    /// the next ones, and one call for several costs the server less than each alone.
    pub(super) fn expect_many(&self) -> bool {
        self.last_answered > MAX_PER_CALL
    }

    /// Sends commands, in this order.
    pub(super) fn send(
        &mut self,
        connection: &Connection,
        link: &Link,
        mut queued: Vec<Queued>,
        context: &mut Context<'_>,
    ) {
        if let Some(refusal) = connection.server().refusal_to_grant(&link.state) {
            for queued in queued.extract_if(.., |queued| queued.command.grants()) {
                queued.settle(Err(errors::not_sent(&refusal)));
            }
        }
        let (max, now) = (if link.is_direct() { MAX_PER_CALL } else { 1 }, system::now());
        let mut queued = queued.into_iter();
        // Some are written while others are still packed: the server begins earlier. With many,
        // that gains nothing, and each write has its price.
        let at_once = if queued.len() > MAX_COMMANDS { MAX_COMMANDS } else { MAX_PER_CALL };
        while queued.len() > 0 {
            let some = queued.by_ref().take(MAX_COMMANDS).collect();
            let mut calls = plan(some, max, now).into_iter().peekable();
            while calls.peek().is_some() {
                link.drive(|| {
                    let mut count = 0;
                    while count < at_once
                        && let Some(call) = calls.next()
                    {
                        count += call.count();
                        self.send_call(link, call, now, context);
                    }
                });
            }
        }
    }

    fn send_call(
        &mut self,
        link: &Link,
        call: ScriptCall,
        now: Instant,
        context: &mut Context<'_>,
    ) {
        self.look_at = Some(self.look_at.map_or(call.deadline, |at| at.min(call.deadline)));
        let mut in_flight = SentCall::new(link, call, now);
        // The first poll sends it. It stays ready if that fails at once.
        in_flight.poll(context);
        let is_same = |(other, _): &&mut (Link, _)| Arc::ptr_eq(&other.state, &link.state);
        if let Some((_, calls)) = self.by_link.iter_mut().find(is_same) {
            calls.push_back(in_flight);
        } else {
            let mut calls = std::mem::take(&mut self.spare);
            calls.push_back(in_flight);
            self.by_link.push((link.clone(), calls));
        }
    }

    /// Takes the answers that are there. The waker is woken when there are more.
    pub(super) fn take_answers(&mut self, connection: &Connection, context: &mut Context<'_>) {
        let (mut next, mut again, mut answered) = (0, Vec::new(), 0);
        while let Some((link, calls)) = self.by_link.get_mut(next) {
            if !link.has_room() {
                // Those behind the first may not be sent yet.
                for call in calls.iter_mut().skip(1) {
                    call.poll(context);
                }
            }
            while let Some(call) = calls.front_mut()
                && call.poll(context)
                && let Some(SentCall { call, sent, answer: Answer::Came(answer) }) =
                    calls.pop_front()
            {
                answered += call.count();
                let outcome = match answer {
                    Ok(answer) => {
                        let (outcome, calls) = call
                            .settle(answer, || connection.connector().leave_out_flags(&link.state));
                        again.extend(calls.into_iter().map(|call| (link.clone(), call)));
                        outcome
                    }
                    Err(error) => {
                        let name = &connection.server().name;
                        call.fail(|| errors::at_server(name, errors::classify(error.clone()).1));
                        errors::classify(error).0
                    }
                };
                connection.record(link, sent, outcome);
            }
            // A lost connection is closed when its last clone is dropped.
            if calls.is_empty() {
                self.spare = std::mem::take(calls);
                self.by_link.remove(next);
            } else {
                next += 1;
            }
        }
        debug_assert!(self.are_in_time(), "a call that nobody gives up");
        if answered > 0 {
            self.last_answered = answered;
        }
        if !again.is_empty() {
            let now = system::now();
            for (link, call) in again {
                self.send_call(&link, call, now, context);
            }
            // Its first poll may have failed, and has then registered no waker.
            context.waker().wake_by_ref();
        }
    }

    /// Gives up the calls whose deadline has passed. Their answers are ignored.
    pub(super) fn give_up_late(&mut self, connection: &Connection, now: Instant) {
        let mut look_at: Option<Instant> = None;
        for (link, calls) in &mut self.by_link {
            for in_flight in std::mem::take(calls) {
                let deadline = in_flight.call.deadline;
                if deadline <= now {
                    connection.record(link, in_flight.sent, LinkOutcome::Silent);
                    let name = &connection.server().name;
                    in_flight.call.fail(|| errors::at_server(name, errors::timed_out()));
                } else {
                    look_at = Some(look_at.map_or(deadline, |at| at.min(deadline)));
                    calls.push_back(in_flight);
                }
            }
        }
        self.by_link.retain(|(_, calls)| !calls.is_empty());
        self.look_at = look_at;
        debug_assert!(self.are_in_time(), "a call that nobody gives up");
    }

    /// Returns true if the timer is there in time for each call.
    fn are_in_time(&self) -> bool {
        let mut calls = self.by_link.iter().flat_map(|(_, calls)| calls);
        calls.all(|sent| self.look_at.is_some_and(|at| at <= sent.call.deadline))
    }
}

/// A call that was sent.
struct SentCall {
    call: ScriptCall,
    sent: Instant,
    answer: Answer,
}

enum Answer {
    Pending(Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>>),
    Came(RedisResult<Value>),
}

impl SentCall {
    fn new(link: &Link, mut call: ScriptCall, sent: Instant) -> Self {
        let (cmd, is_asking, mut link) =
            (call.pack(link.state.form()), call.is_asking(), link.clone());
        let answer = Box::pin(async move {
            if is_asking { link.send_asking(&cmd).await } else { link.send(&cmd).await }
        });
        Self { call, sent, answer: Answer::Pending(answer) }
    }

    /// Returns true if the answer is there.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        if let Answer::Pending(answer) = &mut self.answer
            && let Poll::Ready(answer) = answer.as_mut().poll(context)
        {
            self.answer = Answer::Came(answer);
        }
        matches!(self.answer, Answer::Came(_))
    }
}
