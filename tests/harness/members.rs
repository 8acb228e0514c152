//! A quorum in memory. A test can stop, freeze or empty each of its stores, make it lose or delay
//! commands, or set its clock.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::store::memory::{Clock, MemoryStore};
use leasehold::store::quorum::Quorum;
use leasehold::store::{
    Adoption, All, Attempt, ClientId, ClientInfo, Detached, Diagnosis, Ended, Forced, Listener,
    LockInfo, Owner, QuorumMember, Renewal, Renewals, Repaired, Request, Store, StoreError,
    StoreFuture, Waiting,
};
use leasehold::{LockKey, Locks, Outcome, QuorumLocks};
use tokio::runtime::Handle;
use tokio::time::sleep;

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
        let nodes = nodes.map(|(place, it)| (name(place), it.clone() as Arc<dyn QuorumMember>));
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
    backlog: Option<Vec<Late>>,
    restarted: Option<Instant>,
    /// The fates of the next commands, in order.
    faults: Vec<Fault>,
    log: Vec<&'static str>,
}

type Late = Box<dyn FnOnce(&MemoryStore) + Send>;

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
            command(&state.store);
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

    fn ask<T: Send + 'static>(
        &self,
        name: &'static str,
        command: impl FnOnce(&MemoryStore) -> StoreFuture<T> + Send + 'static,
    ) -> StoreFuture<T> {
        let mut state = self.state();
        state.log.push(name);
        if state.is_dead {
            return Box::pin(async { Err(failure(Outcome::NotRun, "is it running?")) });
        }
        if let Some(backlog) = &mut state.backlog {
            // In memory a command is done when its future is made.
            backlog.push(Box::new(|store| drop(command(store))));
            return no_answer();
        }
        match state.faults.pop() {
            None => return command(&state.store),
            Some(Fault::LoseCommand) => {}
            Some(Fault::LoseReply) => drop(command(&state.store)),
            Some(Fault::Slow(time)) => {
                let answer = command(&state.store);
                return Box::pin(async move {
                    sleep(time).await;
                    answer.await
                });
            }
            Some(Fault::Late(time)) => {
                let store = state.store.clone();
                tokio::spawn(async move {
                    sleep(time).await;
                    drop(command(&store));
                });
            }
        }
        no_answer()
    }
}

fn no_answer<T: Send + 'static>() -> StoreFuture<T> {
    Box::pin(async {
        sleep(TIME_OUT).await;
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

impl QuorumMember for Member {
    fn vote(&self, request: &Request, again: Duration) -> StoreFuture<Attempt> {
        let restarted = self.state().restarted;
        if restarted.is_some_and(|at| self.now() < at + self.counts_after) {
            return Box::pin(async {
                Err(failure(Outcome::NotRun, "it started a moment ago, and may have lost locks"))
            });
        }
        let request = request.clone();
        self.ask("vote", move |store| store.vote(&request, again))
    }

    fn repair(&self, request: &Request, token: u64, lasts: Duration) -> StoreFuture<Repaired> {
        let request = request.clone();
        self.ask("repair", move |store| store.repair(&request, token, lasts))
    }
}

impl Store for Member {
    fn acquire(&self, _: &Request, _: Option<Waiting>) -> StoreFuture<Attempt> {
        unreachable!("it is one of several")
    }

    fn acquire_all(&self, _: &[Request]) -> Option<StoreFuture<All>> {
        None
    }

    fn renew(&self, request: &Request) -> StoreFuture<Renewal> {
        let request = request.clone();
        self.ask("renew", move |store| store.renew(&request))
    }

    fn renew_all(&self, requests: &[Request]) -> Renewals {
        Box::pin(join_all(requests.iter().map(|request| self.renew(request)).collect::<Vec<_>>()))
    }

    fn adopt(&self, _: Detached, _: &Request) -> StoreFuture<Adoption> {
        unreachable!("it is one of several")
    }

    fn release(&self, request: &Request, keep: Duration) -> StoreFuture<Ended> {
        let request = request.clone();
        self.ask("release", move |store| store.release(&request, keep))
    }

    fn cancel(&self, request: &Request) -> StoreFuture<bool> {
        let request = request.clone();
        self.ask("cancel", move |store| store.cancel(&request))
    }

    fn inspect(&self, key: &LockKey) -> StoreFuture<LockInfo> {
        self.store().inspect(key)
    }

    fn diagnose(&self) -> StoreFuture<Diagnosis> {
        self.store().diagnose()
    }

    fn is_held_by(&self, _: &LockKey, _: &Owner) -> StoreFuture<bool> {
        unreachable!("it is one of several")
    }

    fn force_release(&self, _: &LockKey) -> StoreFuture<Forced> {
        unreachable!("it is one of several")
    }

    fn was_forced(&self, _: &Request) -> StoreFuture<bool> {
        unreachable!("it is one of several")
    }

    fn introduce(&self, client: &ClientInfo, lasts: Duration) -> StoreFuture<()> {
        self.store().introduce(client, lasts)
    }

    fn listen(&self, _: ClientId, _: Weak<dyn Listener>) {}

    fn gives_hints(&self) -> bool {
        false
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}
