//! A store whose commands can be made to fail: what [`Faults`](crate::Faults) are
//! planned for.

mod store;

use std::collections::VecDeque;
use std::future::pending;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::time::sleep;

use super::{Answer, Command, Hint, Listener, Store, StoreError, StoreFuture, at_once};
use crate::core::error::{Outcome, Step};
use crate::core::sync::lock;
use crate::core::timers::runtime_with_timers;

/// A failure of one command, planned with [`Faults`](crate::Faults).
///
/// The client retries after a failure that may be temporary: an acquisition for its wait,
/// and for at least a second; a release three times, and then in the background; a renewal
/// until the lease ends. So a single such fault goes unnoticed, as in production. To see
/// the error, plan the fault with [`always`](crate::Faults::always).
///
/// # Examples
///
/// ```
/// use leasehold::{Fault, Locks};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// let (locks, faults) = Locks::in_memory_with_faults();
/// faults.next(Fault::LoseReply);
/// let lease = locks.mutex("order:42").lock().await?; // asked twice, granted once
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The store can't be reached, so the command certainly does not run. Temporary.
    Unreachable,
    /// The store refuses for good, such as for a missing permission. The command does not
    /// run, and an acquisition or a release returns the error at once.
    Refuse,
    /// The command is lost on its way. It does not run, but the client can't know.
    /// Temporary.
    LoseCommand,
    /// The command runs, but its reply is lost, so the client can't know. Temporary.
    LoseReply,
    /// The command runs, and the client gives its reply up after this time, as after a
    /// time-out.
    LoseReplyAfter(Duration),
    /// The command runs at once, and its reply takes this long.
    Delay(Duration),
    /// The command runs, and neither a reply nor an error comes. No real server does that,
    /// because commands to it have a time-out. It is for callers with a time-out of their
    /// own.
    Hang,
}

/// How many commands are remembered until somebody looks.
const LOGGED: usize = 10_000;

/// Another store, with faults for the commands to come.
#[derive(Debug)]
pub struct FaultInjector {
    inner: Arc<dyn Store>,
    plan: Mutex<Plan>,
    ears: Mutex<Vec<Arc<Ear>>>,
    suspended: Mutex<Duration>,
}

/// A client's listener, and the hints that are held back from it.
#[derive(Debug)]
struct Ear {
    listener: Weak<dyn Listener>,
    /// Hints that are held back, if they are.
    held: Mutex<Option<Vec<Hint>>>,
}

impl Listener for Ear {
    fn hear(&self, hint: Hint) {
        if let Some(held) = lock(&self.held).as_mut() {
            held.push(hint);
        } else if let Some(listener) = self.listener.upgrade() {
            listener.hear(hint);
        }
    }
}

#[derive(Debug, Default)]
struct Plan {
    of_all: Planned,
    of_one: Vec<(Step, Planned)>,
    log: Vec<&'static str>,
}

#[derive(Debug, Default)]
struct Planned {
    /// Nothing for a command that passes.
    next: VecDeque<Option<Fault>>,
    always: Option<Fault>,
}

impl Plan {
    /// The plan for all commands, or for those of one step.
    fn of(&mut self, only: Option<Step>) -> &mut Planned {
        let Some(step) = only else { return &mut self.of_all };
        let known = self.of_one.iter().position(|(of, _)| *of == step);
        let place = known.unwrap_or_else(|| {
            self.of_one.push((step, Planned::default()));
            self.of_one.len() - 1
        });
        &mut self.of_one[place].1
    }

    /// Takes the fault for the command that comes now. A fault for one command goes before a
    /// lasting one, and a fault for its step before one for all.
    fn take(&mut self, step: Option<Step>) -> Option<Fault> {
        let of_step = self.of_one.iter_mut().find(|(of, _)| Some(*of) == step);
        let mut plans: Vec<_> = of_step.map(|(_, plan)| plan).into_iter().collect();
        plans.push(&mut self.of_all);
        let next = plans.iter_mut().find_map(|plan| plan.next.pop_front());
        next.unwrap_or_else(|| plans.iter().find_map(|plan| plan.always))
    }
}

impl FaultInjector {
    /// Another store, without faults yet.
    #[must_use]
    pub fn over(inner: Arc<dyn Store>) -> Self {
        Self { inner, plan: Mutex::default(), ears: Mutex::default(), suspended: Mutex::default() }
    }

    /// Plans one command: the next that has no plan, of all or of one step.
    pub fn next(&self, only: Option<Step>, fault: Option<Fault>) {
        lock(&self.plan).of(only).next.push_back(fault);
    }

    /// Plans all commands that have no plan of their own.
    pub fn always(&self, only: Option<Step>, fault: Fault) {
        lock(&self.plan).of(only).always = Some(fault);
    }

    /// Forgets what is planned: everything, or what is for one step alone.
    pub fn heal(&self, only: Option<Step>) {
        let mut plan = lock(&self.plan);
        *plan.of(only) = Planned::default();
        if only.is_none() {
            plan.of_one.clear();
        }
    }

    /// Lets the holder's clock go on for a time in which no timer did, as when the system
    /// was suspended.
    pub fn suspend(&self, time: Duration) {
        *lock(&self.suspended) += time;
    }

    /// The commands that were sent since the last call, by name.
    pub fn log(&self) -> Vec<&'static str> {
        std::mem::take(&mut lock(&self.plan).log)
    }

    /// Holds all hints back from now on.
    pub fn hold_hints(&self) {
        for ear in &*lock(&self.ears) {
            *lock(&ear.held) = Some(Vec::new());
        }
    }

    /// Drops the hints that were held back, and holds no more.
    pub fn drop_hints(&self) {
        for ear in &*lock(&self.ears) {
            *lock(&ear.held) = None;
        }
    }

    /// Lets go of the hints that were held back, and holds no more.
    pub fn deliver_hints(&self) {
        for ear in &*lock(&self.ears) {
            let held = lock(&ear.held).take();
            for hint in held.unwrap_or_default() {
                ear.hear(hint);
            }
        }
    }

    /// Does a command, or what is planned for it. Only a plan for all is for one that
    /// is no step of a caller's.
    fn answer(&self, name: &'static str, command: Command<'_>) -> StoreFuture<Answer> {
        let fault = {
            let mut plan = lock(&self.plan);
            if plan.log.len() < LOGGED {
                plan.log.push(name);
            }
            plan.take(command.step())
        };
        let Some(fault) = fault else { return self.inner.send(command) };
        match fault {
            Fault::Unreachable => {
                let error = failure(Outcome::NotRun, true, "the store cannot be reached");
                at_once(Err(error))
            }
            Fault::Refuse => {
                let error = failure(Outcome::NotRun, false, "the store refuses the command");
                at_once(Err(error))
            }
            Fault::LoseCommand => at_once(Err(unanswered("the command was lost"))),
            Fault::LoseReply => {
                let done = self.inner.send(command);
                Box::pin(async move {
                    done.await?;
                    Err(unanswered("the reply was lost"))
                })
            }
            Fault::LoseReplyAfter(time) => {
                drop(self.inner.send(command));
                Box::pin(async move {
                    pass(time).await;
                    Err(unanswered("the reply was lost"))
                })
            }
            Fault::Delay(time) => {
                let done = self.inner.send(command);
                Box::pin(async move {
                    pass(time).await;
                    done.await
                })
            }
            Fault::Hang => {
                drop(self.inner.send(command));
                Box::pin(pending())
            }
        }
    }
}

fn failure(outcome: Outcome, is_passing: bool, problem: &str) -> StoreError {
    let source = format!("injected fault: {problem}").into();
    StoreError { outcome, is_passing, is_shut_down: false, source }
}

fn unanswered(problem: &str) -> StoreError {
    failure(Outcome::Unknown, true, &format!("no answer: {problem}"))
}

/// A lease may be dropped where there are no timers, so that nothing can wait.
async fn pass(time: Duration) {
    if runtime_with_timers().is_some() {
        sleep(time).await;
    }
}
