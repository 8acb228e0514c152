//! The batcher's hand-off: a caller sends its command itself, or the task does. The queue is the
//! client's; a server with a thread of its own stands for the connection.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Waker};

use shuttle::future::block_on;
use shuttle::sync::{Condvar, Mutex};
use shuttle::{rand, thread};
use tokio::sync::oneshot;

use super::explore::{check, finds};
use super::store::redis::work_queue::{Left, WorkQueue};

const CALLERS: u32 = 2;
const EACH: u32 = 2;

/// A command: whose it is, and which of his.
struct Command {
    number: (u32, u32),
    answer: oneshot::Sender<()>,
}

/// The commands without an answer, as `Calls` has them.
#[derive(Default)]
struct Calls {
    in_flight: VecDeque<Command>,
    answered: usize,
    task: Option<Waker>,
}

impl Calls {
    fn send(&mut self, server: &Server, commands: Vec<Command>) {
        for command in commands {
            server.receive(command.number);
            self.in_flight.push_back(command);
        }
    }

    fn take_answers(&mut self, server: &Server, waker: &Waker) {
        let answered = server.answered(waker);
        while self.answered < answered
            && let Some(command) = self.in_flight.pop_front()
        {
            self.answered += 1;
            // Whoever asked may be gone.
            let _ = command.answer.send(());
        }
    }
}

/// A server that answers in order.
#[derive(Default)]
struct Server {
    state: Mutex<ServerState>,
    changed: Condvar,
}

#[derive(Default)]
struct ServerState {
    received: Vec<(u32, u32)>,
    answered: usize,
    waker: Option<Waker>,
    is_down: bool,
}

impl Server {
    fn receive(&self, number: (u32, u32)) {
        self.state.lock().unwrap().received.push(number);
        self.changed.notify_all();
    }

    /// How many are answered. The waker is woken when there are more.
    fn answered(&self, waker: &Waker) -> usize {
        let mut state = self.state.lock().unwrap();
        state.waker = Some(waker.clone());
        state.answered
    }

    fn run(&self) {
        loop {
            let is_idle =
                |state: &mut ServerState| state.answered == state.received.len() && !state.is_down;
            let mut state = self.changed.wait_while(self.state.lock().unwrap(), is_idle).unwrap();
            if state.is_down {
                return;
            }
            state.answered += 1;
            let waker = state.waker.take();
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    fn stop(&self) {
        self.state.lock().unwrap().is_down = true;
        self.changed.notify_all();
    }
}

type Queue = Arc<WorkQueue<Command, Calls>>;

/// Pushes a command, as `Batcher::push` does.
fn push(queue: &Queue, server: &Server, number: (u32, u32)) -> oneshot::Receiver<()> {
    let (answer, answered) = oneshot::channel();
    queue.push([Command { number, answer }], |calls| {
        let Some(task) = calls.task.clone().filter(|_| calls.in_flight.is_empty()) else {
            return false;
        };
        calls.send(server, queue.take());
        calls.take_answers(server, &task);
        true
    });
    answered
}

/// Polls the queue, as the batcher's task does.
fn poll(queue: &Queue, server: &Server, context: &mut Context<'_>) -> std::task::Poll<()> {
    queue.poll(context, |calls, commands, context| {
        calls.task = Some(context.waker().clone());
        calls.send(server, commands);
        calls.take_answers(server, context.waker());
        if calls.in_flight.is_empty() { Left::Nothing } else { Left::Later }
    })
}

/// Callers that send at the same time: the first all at once, the others one after the other. Each
/// says which were answered.
fn callers(queue: &Queue, server: &Arc<Server>) -> Vec<thread::JoinHandle<Vec<bool>>> {
    let callers = (0..CALLERS).map(|caller| {
        let (queue, server) = (queue.clone(), server.clone());
        thread::spawn(move || {
            let pushed = (0..EACH).map(|number| push(&queue, &server, (caller, number)));
            let is_answered = |answer: oneshot::Receiver<()>| block_on(answer).is_ok();
            if caller == 0 {
                pushed.collect::<Vec<_>>().into_iter().map(is_answered).collect()
            } else {
                pushed.map(is_answered).collect()
            }
        })
    });
    callers.collect()
}

fn every_command_is_sent_once_in_order_and_answered() {
    let (queue, server) = (Queue::default(), Arc::<Server>::default());
    let task = {
        let (queue, server) = (queue.clone(), server.clone());
        thread::spawn(move || block_on(poll_fn(|context| poll(&queue, &server, context))))
    };
    let answers = {
        let server = server.clone();
        thread::spawn(move || server.run())
    };
    for caller in callers(&queue, &server) {
        assert_eq!(caller.join().unwrap(), [true; EACH as usize], "all are answered");
    }
    queue.close();
    task.join().unwrap();
    server.stop();
    answers.join().unwrap();
    let received = std::mem::take(&mut server.state.lock().unwrap().received);
    assert_eq!(received.len(), (CALLERS * EACH) as usize, "each is sent once");
    for caller in 0..CALLERS {
        let sent = received.iter().filter(|(by, _)| *by == caller).map(|(_, number)| *number);
        assert!(sent.eq(0..EACH), "a caller's commands are sent in its order");
    }
}

/// The task's runtime goes away at any time, and nobody wakes it any more.
fn an_abandoned_command_fails() {
    let (queue, server) = (Queue::default(), Arc::<Server>::default());
    let task = {
        let (queue, server) = (queue.clone(), server.clone());
        thread::spawn(move || {
            use rand::Rng;

            for _ in 0..rand::thread_rng().gen_range(0..3) {
                let _ = poll(&queue, &server, &mut Context::from_waker(Waker::noop()));
            }
            queue.abandon();
        })
    };
    for caller in callers(&queue, &server) {
        // It ends: that is all.
        caller.join().unwrap();
    }
    task.join().unwrap();
}

#[test]
fn commands_are_handed_off() {
    check(every_command_is_sent_once_in_order_and_answered);
}

#[test]
fn commands_of_a_task_that_is_gone_are_not_waited_for() {
    check(an_abandoned_command_fails);
}

#[test]
fn a_sleeping_task_is_found() {
    finds(
        "the task sleeps although something came after its last look",
        "deadlock",
        every_command_is_sent_once_in_order_and_answered,
    );
}

#[test]
fn an_item_that_nobody_takes_is_found() {
    finds(
        "a caller leaves its item to whoever is at work",
        "deadlock",
        every_command_is_sent_once_in_order_and_answered,
    );
}

#[test]
fn an_item_behind_the_end_is_found() {
    finds("the queue is emptied before it is closed", "deadlock", an_abandoned_command_fails);
}

#[test]
fn a_call_that_nobody_ends_is_found() {
    finds("an answer of an abandoned call is waited for", "deadlock", an_abandoned_command_fails);
}
