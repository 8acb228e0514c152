//! One local queue: which acquisitions ask the store, which wait behind them, and which turns
//! run.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::idle_checks::IdleCheck;
use super::spec::{LeaseSpec, weight};
use super::turns::{EndedTurn, TurnId, Turns};
use crate::client::not_granted::DoneWork;
use crate::client::pending::PendingRequest;
use crate::state::lease::GrantTimes;
use crate::store::Kind;

/// How many acquisitions may ask the store, however large a semaphore's limit is. Each sends a
/// command every two seconds to stay alive in the queue.
const MAX_ASKERS: u32 = 64;

/// The queue of one lock in this process.
pub(super) struct LocalQueue {
    /// How many acquisitions ask the store, and their weight.
    pub(super) askers: u32,
    asking_weight: u64,
    /// When one of them last asked, or a lease was handed over or became idle.
    pub(super) last_activity: Instant,
    /// The store has answered the last question, or this process has the lock. If not, a waiter does
    /// not know whether anybody holds it.
    pub(super) is_answered: bool,
    /// An operator has set a limit: it may be greater than that of the code.
    pub(super) is_limited: bool,
    /// Askers of earlier generations were silent for too long and do not count.
    pub(super) generation: u64,
    pub(super) turns: Turns,
    pub(super) waiting: VecDeque<QueuedWaiter>,
    /// Lingering turns whose lease is idle, in the order in which they became so. Some have
    /// ended.
    pub(super) idle: VecDeque<TurnId>,
    /// When the timer looks at the idle leases, if it does.
    pub(super) checked: Option<IdleCheck>,
}

/// A waiter as the queue keeps it. Its task holds a `Waiter`.
pub(super) struct QueuedWaiter {
    /// Unique in the client, since a task may look for its number in a queue that was made anew.
    /// Later waiters have greater ones.
    pub(super) number: u64,
    pub(super) spec: LeaseSpec,
    pub(super) ttl: Duration,
    /// Nobody renews its lease, so it needs the whole TTL.
    pub(super) whole: bool,
    pub(super) admit: oneshot::Sender<Admitted>,
}

/// An admission on its way to a waiter.
pub(super) struct Admitted {
    pub(super) state: AdmissionState,
    /// A request that another acquisition has begun and left.
    pub(super) inherited: Option<Box<PendingRequest>>,
}

/// The state of an admitted acquisition.
#[derive(Clone, Copy)]
pub(super) enum AdmissionState {
    /// It asks the store, as an asker of this generation.
    Asks(u64),
    /// It takes up the lease that is handed over in this turn.
    InTurn(TurnId),
    /// It needs no lease: another task has heard that the work is done.
    Done(DoneWork),
    /// It has its lease, or needs nothing any more.
    Served,
}

impl From<AdmissionState> for Admitted {
    fn from(state: AdmissionState) -> Self {
        Self { state, inherited: None }
    }
}

impl LocalQueue {
    pub(super) fn new(generation: u64, now: Instant, is_limited: bool) -> Self {
        Self {
            askers: 0,
            asking_weight: 0,
            last_activity: now,
            is_answered: false,
            is_limited,
            generation,
            turns: Turns::default(),
            waiting: VecDeque::new(),
            idle: VecDeque::new(),
            checked: None,
        }
    }

    /// Returns true if no acquisition asks and no turn runs.
    pub(super) fn is_idle(&self) -> bool {
        self.askers == 0 && self.turns.is_empty()
    }

    /// Returns true if another acquisition may ask. If none asks and no turn runs, one always may,
    /// even if its weight is greater than the limit: the store refuses it.
    pub(super) fn has_room(&self, kind: Kind) -> bool {
        let capacity = match kind {
            Kind::Mutex | Kind::Once(_) | Kind::Write => 1,
            // The store knows how many an operator allows.
            Kind::Semaphore { .. } if self.is_limited => MAX_ASKERS.into(),
            Kind::Semaphore { limit, .. } => limit.into(),
            // Readers share a lock, and so do the holds of an owner, who has a queue of its own.
            Kind::Read | Kind::Reentrant => MAX_ASKERS.into(),
        };
        let taken = self.asking_weight + self.turns.weight();
        taken == 0 || self.askers < MAX_ASKERS && taken + weight(kind) <= capacity
    }

    /// Returns true if the first waiter has room, and only waits to hear whether an idle lease is still
    /// there.
    pub(super) fn waits_for_an_answer(&self) -> bool {
        let has_room = |first: &QueuedWaiter| self.has_room(first.spec.0);
        self.turns.is_asking() && self.waiting.front().is_some_and(has_room)
    }

    /// Takes a waiter out of the queue. `None` if it was admitted before.
    pub(super) fn leave(&mut self, number: u64) -> Option<QueuedWaiter> {
        let at = self.waiting.binary_search_by_key(&number, |waiter| waiter.number).ok()?;
        self.waiting.remove(at)
    }

    /// Takes the waiters for a lease of this kind out of the queue that came before this number.
    pub(super) fn all_of(&mut self, kind: Kind, before: u64) -> VecDeque<QueuedWaiter> {
        let (told, others) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|it| it.spec.0 == kind && it.number < before);
        self.waiting = others;
        told
    }

    /// Returns true if this waiter was not admitted yet.
    pub(super) fn waits(&self, number: u64) -> bool {
        self.waiting.binary_search_by_key(&number, |waiter| waiter.number).is_ok()
    }

    /// Admits the first waiter if there is room: it asks from now on.
    pub(super) fn admit_first(&mut self, now: Instant) -> Option<QueuedWaiter> {
        let kind = self.waiting.front()?.spec.0;
        if !self.has_room(kind) {
            return None;
        }
        self.admit(kind, now);
        self.waiting.pop_front()
    }

    /// Counts one more asker.
    pub(super) fn admit(&mut self, kind: Kind, now: Instant) {
        self.askers += 1;
        self.asking_weight += weight(kind);
        self.last_activity = now;
    }

    /// Counts an asker out. Askers of earlier generations do not count.
    pub(super) fn dismiss(&mut self, kind: Kind, generation: u64) {
        if self.generation == generation {
            debug_assert!(self.askers > 0 && self.asking_weight >= weight(kind), "out twice");
            self.askers -= 1;
            self.asking_weight -= weight(kind);
        }
    }

    /// Begins a new generation: present askers no longer count, and no turn runs.
    pub(super) fn begin_generation(&mut self, generation: u64) -> Vec<EndedTurn> {
        (self.generation, self.askers, self.asking_weight) = (generation, 0, 0);
        self.turns.end_all()
    }

    /// Returns true if the first waiter asks for exactly this lease and TTL; and if it needs the whole
    /// TTL, only if the lease has it.
    pub(super) fn first_suits(&self, spec: &LeaseSpec, ttl: Duration, whole: bool) -> bool {
        self.waiting
            .front()
            .is_some_and(|first| first.spec == *spec && first.ttl == ttl && (whole || !first.whole))
    }

    /// Takes the next waiter of a turn out of the queue, if the turn goes on and enough is left of
    /// its lease.
    pub(super) fn next_in_turn(
        &mut self,
        id: TurnId,
        spec: &LeaseSpec,
        (ttl, times): (Duration, &GrantTimes),
        now: Instant,
    ) -> Option<QueuedWaiter> {
        self.turns.find(id).filter(|turn| turn.left > 0 && now < turn.ends)?;
        let suits = times.may_be_handed_over(ttl, now)
            && self.first_suits(spec, ttl, times.is_whole(ttl, now));
        if suits { self.waiting.pop_front() } else { None }
    }
}
