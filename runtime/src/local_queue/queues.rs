//! All local queues of a client. This finds and changes a queue, and admits the waiters that a
//! change makes room for. Nothing is dropped or sent while the queues are locked.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use super::idle_checks::IdleChecks;
use super::linger::Doubted;
use super::queue::{AdmissionState, Admitted, LocalQueue, QueuedWaiter};
use super::recalls::Recalls;
use super::spec::{LeaseSpec, NameParts, QueueName, RequestName, is_of_permits, name};
use super::turns::{TurnId, cancel};
use crate::client::Client;
use crate::client::not_granted::DoneWork;
use crate::client::pending::PendingRequest;
use crate::core::sync::lock;
use crate::store::{Kind, LIVE, RequestSpec};

/// The local queues of a client, one for each lock that is being acquired.
// Apart from the count of its `Arc`, which every lease changes on some core.
#[repr(align(64))]
pub(crate) struct LocalQueues {
    pub(super) client: Arc<Client>,
    queues: Mutex<Queues>,
    /// Numbers generations, turns and waiters. No number is used twice.
    numbers: AtomicU64,
    pub(super) hands_over: bool,
    /// No lease lingers any more: the client was shut down, or the process ends.
    pub(super) has_stopped: AtomicBool,
}

#[derive(Default)]
pub(super) struct Queues {
    pub(super) by_name: HashMap<QueueName, LocalQueue>,
    pub(super) ends: TurnEnds,
    pub(super) checks: IdleChecks,
    pub(super) recalls: Recalls,
    pub(super) doubted: Doubted,
}

/// When turns end, and when waiters lose patience, in all queues. Both last for a turn's time, so
/// the first to begin is the first to end. Some have ended early.
#[derive(Default)]
pub(super) struct TurnEnds {
    pub(super) in_order: VecDeque<(Instant, QueueName, End)>,
    /// A task runs that ends them.
    pub(super) is_timed: bool,
}

/// What ends.
#[derive(Clone, Copy)]
pub(super) enum End {
    Turn(TurnId),
    /// The time for which the waiter of this number waits for a lease that lingers here.
    Patience(u64),
}

impl LocalQueues {
    /// `hands_over` lets leases go from one waiter to the next without the store.
    pub(crate) fn new(client: Arc<Client>, hands_over: bool) -> Self {
        let (queues, numbers) = (Mutex::default(), AtomicU64::new(0));
        Self { client, queues, numbers, hands_over, has_stopped: AtomicBool::new(false) }
    }

    /// Returns true if tasks of this process wait: then a try must not overtake them.
    pub(crate) fn has_waiters(&self, request: &RequestSpec) -> bool {
        let name = name(&request.key, request.kind, request.owner.as_ref());
        let queues = self.lock();
        let queue = queues.by_name.get(&name).filter(|queue| !queue.waiting.is_empty());
        queue.is_some_and(|queue| self.now() < queue.last_activity + LIVE)
    }

    /// The queue of a lock; a new one if there is none.
    pub(super) fn queue<'a>(
        &self,
        queues: &'a mut Queues,
        name: &QueueName,
        now: Instant,
    ) -> &'a mut LocalQueue {
        let queue = queues.by_name.entry(name.clone());
        queue.or_insert_with(|| LocalQueue::new(self.number(), now, self.is_limited(name)))
    }

    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn now(&self) -> Instant {
        self.client.store.now()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Queues> {
        lock(&self.queues)
    }

    /// Returns true in a process that was forked off: there the queues may stay locked, and
    /// what is dropped is a copy.
    pub(super) fn is_forked(&self) -> bool {
        self.client.keeper.is_forked()
    }

    /// The queue of a request, if there is one.
    pub(super) fn queue_of<'a>(
        queues: &'a mut Queues,
        name: &RequestName<'_>,
    ) -> Option<&'a mut LocalQueue> {
        queues.by_name.get_mut(name as &dyn NameParts)
    }

    /// Changes a queue, if there is one, and admits the waiters that there is room for now. The
    /// first of them that asks for the same inherits the request.
    pub(super) fn change<T>(
        &self,
        name: &QueueName,
        mut inherited: Option<(&LeaseSpec, Box<PendingRequest>)>,
        change: impl FnOnce(&mut LocalQueue) -> Option<T>,
    ) -> Option<T> {
        let mut admitted = Vec::new();
        let (generation, result);
        {
            let mut queues = self.lock();
            let queue = queues.by_name.get_mut(name)?;
            result = change(queue);
            generation = queue.generation;
            while let Some(waiter) = queue.admit_first(self.now()) {
                admitted.push(waiter);
            }
            if queue.is_idle() {
                debug_assert!(queue.waiting.is_empty(), "waiters whom nobody wakes");
                queues.by_name.remove(name);
            }
        }
        for waiter in admitted {
            let same = inherited.take_if(|(spec, _)| **spec == waiter.spec);
            let inherited = same.map(|(_, pending)| pending);
            let state = AdmissionState::Asks(generation);
            self.admit(name, waiter, Admitted { state, inherited });
        }
        result
    }

    /// Returns true if an operator has set a limit for the semaphore of this queue.
    pub(super) fn is_limited(&self, name: &QueueName) -> bool {
        is_of_permits(name) && self.client.limits.are_set_for(&name.0)
    }

    /// Tells the waiters for a lease of this kind that their work is done, if they came before this
    /// number: an older answer says nothing of their tick.
    pub(super) fn tell_done(&self, name: &QueueName, kind: Kind, before: u64, done: DoneWork) {
        let waiters = self.lock().by_name.get_mut(name).map(|queue| queue.all_of(kind, before));
        for waiter in waiters.into_iter().flatten() {
            self.admit(name, waiter, AdmissionState::Done(done).into());
        }
    }

    /// Wakes a waiter. If it is gone, the next waiter is admitted instead.
    pub(super) fn admit(&self, name: &QueueName, waiter: QueuedWaiter, admitted: Admitted) {
        if let Err(admitted) = waiter.admit.send(admitted) {
            self.withdraw(name, &waiter.spec, admitted);
        }
    }

    /// Gives an unused admission to the next waiter.
    pub(super) fn withdraw(&self, name: &QueueName, spec: &LeaseSpec, admitted: Admitted) {
        match admitted.state {
            AdmissionState::Asks(generation) => {
                let inherited = admitted.inherited.map(|pending| (spec, pending));
                self.change(name, inherited, |queue| {
                    queue.dismiss(spec.0, generation);
                    None::<()>
                });
            }
            AdmissionState::InTurn(turn) => self.pass_on(name, spec, turn),
            AdmissionState::Done(_) | AdmissionState::Served => {}
        }
    }

    /// Hands a lease that its waiter did not take up to the next one, or cancels it.
    fn pass_on(&self, name: &QueueName, spec: &LeaseSpec, turn: TurnId) {
        let waiter = self.change(name, None, |queue| {
            let handoff = queue.turns.find(turn)?.handoff()?;
            let (ttl, times) = (handoff.ttl()?, handoff.times());
            let Some(waiter) = queue.next_in_turn(turn, spec, (ttl, &times), self.now()) else {
                return Some(Err(queue.turns.end(turn)));
            };
            queue.turns.find(turn)?.set_needs_whole(waiter.whole);
            Some(Ok(waiter))
        });
        match waiter {
            Some(Ok(waiter)) => self.admit(name, waiter, AdmissionState::InTurn(turn).into()),
            Some(Err(ended)) => cancel(ended),
            None => {}
        }
    }
}
