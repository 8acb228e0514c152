//! A quorum in memory. A test can stop, freeze or empty each of its stores, make it lose or delay
//! commands, or set its clock.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use leasehold::store::memory::{Clock, MemoryStore};
use leasehold::store::quorum::Quorum;
use leasehold::store::{
    Answer, ClientId, Command, Listener, Request, RequestCommand, Store, StoreError, StoreFuture,
    Subscription, renew_each,
};
use leasehold::{Locks, Outcome, QuorumLocks};
use tokio::runtime::Handle;

use crate::waiting::work_for;

/// The time-out of a command.
pub const TIME_OUT: Duration = Duration::from_millis(50);

/// The start of all clocks, in microseconds.
pub const BEGINNING: u64 = 1 << 50;

/// The stores of a quorum.
#[derive(Clone, Debug)]
pub struct Members {
    members: Vec<Arc<Member>>,
    longest_ttl: Duration,
}

impl Members {
    /// Starts this many, empty. After a restart each grants nothing for `counts_after`.
    #[must_use]
    pub fn start(count: usize, longest_ttl: Duration, counts_after: Duration) -> Self {
        let member = |_| Arc::new(Member::new(counts_after));
        Self { members: (0..count).map(member).collect(), longest_ttl }
    }

    /// The quorum of all of them.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        let name = |place: usize| format!("server {place}");
        let nodes = self.members.iter().enumerate();
        let nodes = nodes.map(|(place, it)| (name(place), it.clone() as Arc<dyn Store>));
        Arc::new(Quorum::new(nodes, self.longest_ttl, Handle::current()))
    }

    /// A new client.
    #[must_use]
    pub fn locks(&self) -> QuorumLocks {
        QuorumLocks::of(Locks::over(self.store()))
    }

    /// One of them.
    #[must_use]
    pub fn member(&self, place: usize) -> &Member {
        &self.members[place]
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().map(|member| &**member)
    }
}

/// One store, as it is reached over a network.
pub struct Member {
    counts_after: Duration,
    clock: Arc<Clock>,
    state: Mutex<State>,
}

struct State {
    store: Arc<MemoryStore>,
    is_dead: bool,
    /// Commands that arrive while it is frozen, in order.
    backlog: Option<Vec<Command<'static>>>,
    restarted: Option<Instant>,
    /// The fates of the next commands, in order.
    faults: Vec<Fault>,
    log: Vec<&'static str>,
}

/// The fate of a command.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// It never arrives.
    LoseCommand,
    /// It runs, and its reply is lost.
    LoseReply,
    /// It runs at once, and the answer takes this long.
    Slow(Duration),
    /// It arrives this much later, even after its time-out.
    Late(Duration),
}

impl Member {
    fn new(counts_after: Duration) -> Self {
        let clock = Arc::new(Clock::new(BEGINNING));
        let state = State {
            store: Arc::new(MemoryStore::by(clock.clone())),
            is_dead: false,
            backlog: None,
            restarted: None,
            faults: Vec::new(),
            log: Vec::new(),
        };
        Self { counts_after, clock, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store itself, without the network.
    #[must_use]
    pub fn store(&self) -> Arc<MemoryStore> {
        self.state().store.clone()
    }

    /// Makes it unreachable. It keeps its data.
    pub fn kill(&self) {
        self.state().is_dead = true;
    }

    /// Makes it reachable again.
    pub fn revive(&self) {
        self.state().is_dead = false;
    }

    /// Freezes it: it answers nothing.
    pub fn freeze(&self) {
        self.state().backlog.get_or_insert_default();
    }

    /// Runs the commands that arrived meanwhile, and answers again.
    pub fn thaw(&self) {
        let mut state = self.state();
        for command in state.backlog.take().unwrap_or_default() {
            drop(state.store.send(command));
        }
    }

    /// Deletes all data, and the commands that arrived while it was frozen. Its clock goes on.
    pub fn restart_empty(&self) {
        let mut state = self.state();
        state.store = Arc::new(MemoryStore::by(self.clock.clone()));
        state.backlog = None;
        state.is_dead = false;
        state.restarted = Some(tokio::time::Instant::now().into_std());
    }

    /// Moves its clock by this many microseconds. Its leases end and its tokens grow by that clock.
    pub fn jump(&self, micros: i64) {
        self.clock.jump(micros);
    }

    /// Plans the fate of the next command that has none yet.
    pub fn plan(&self, fault: Fault) {
        self.state().faults.insert(0, fault);
    }

    /// The names of the commands that arrived since the last call.
    pub fn log(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.state().log)
    }

    /// True if it started a moment ago, and grants nothing yet.
    fn is_new(&self) -> bool {
        self.state().restarted.is_some_and(|at| self.now() < at + self.counts_after)
    }
}

fn no_answer() -> StoreFuture<Answer> {
    Box::pin(async {
        work_for(TIME_OUT).await;
        Err(failure(Outcome::Unknown, "no answer in time"))
    })
}

fn failure(outcome: Outcome, why: &str) -> StoreError {
    StoreError { outcome, is_passing: true, is_shut_down: false, source: why.into() }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").finish_non_exhaustive()
    }
}

impl Store for Member {
    fn send(&self, command: Command<'_>) -> StoreFuture<Answer> {
        match command {
            Command::RenewAll(requests) => return renew_each(self, &requests),
            Command::Request(_, RequestCommand::Vote(_)) if self.is_new() => {
                return Box::pin(async {
                    Err(failure(
                        Outcome::NotRun,
                        "it started a moment ago, and may have lost locks",
                    ))
                });
            }
            Command::Request(..) => {}
            _ => return self.store().send(command),
        }
        let mut state = self.state();
        state.log.push(command.name());
        if state.is_dead {
            return Box::pin(async { Err(failure(Outcome::NotRun, "is it running?")) });
        }
        if let Some(backlog) = &mut state.backlog {
            backlog.push(command.into_owned());
            return no_answer();
        }
        // In memory a command is done when its future is made.
        match state.faults.pop() {
            None => return state.store.send(command),
            Some(Fault::LoseCommand) => {}
            Some(Fault::LoseReply) => drop(state.store.send(command)),
            Some(Fault::Slow(time)) => {
                let answer = state.store.send(command);
                return Box::pin(async move {
                    work_for(time).await;
                    answer.await
                });
            }
            Some(Fault::Late(time)) => {
                let (store, command) = (state.store.clone(), command.into_owned());
                tokio::spawn(async move {
                    work_for(time).await;
                    drop(store.send(command));
                });
            }
        }
        no_answer()
    }

    fn can(&self, command: &Command<'_>) -> bool {
        self.store().can(command)
    }

    fn listen(&self, _: ClientId, _: Weak<dyn Listener>) {}

    fn gives_hints(&self) -> bool {
        false
    }

    fn subscribe(&self, _: &Request) -> Option<StoreFuture<Subscription>> {
        None
    }

    fn has_queue(&self) -> bool {
        true
    }

    fn longest_ttl(&self) -> Duration {
        Duration::MAX
    }

    fn fails_as_one(&self) -> bool {
        true
    }

    fn answers_within(&self, _: Duration) -> Option<Duration> {
        None
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}
