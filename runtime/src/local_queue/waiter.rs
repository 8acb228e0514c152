//! Entering a local queue, and waiting in it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::sleep;

use super::admission::Admission;
use super::idle::Idle;
use super::queue::{AdmissionState, Admitted, LocalQueue, QueuedWaiter};
use super::queues::LocalQueues;
#[cfg(feature = "tower")]
use super::spec::RequestName;
use super::spec::{LeaseSpec, Need, QueueName, name};
use super::turns::{TakenUp, cancel};
#[cfg(feature = "tower")]
use crate::core::key::LockKey;
use crate::state::telemetry::{MeasuredAttempt, SHOWN_AFTER};
#[cfg(feature = "tower")]
use crate::store::Kind;
use crate::store::{LIVE, RequestSpec, Usage};

/// How much more patience each waiter has than the one before it.
const PATIENCE_STEP: Duration = Duration::from_millis(100);

/// The result of entering a queue: an acquisition is admitted at once, or waits.
pub(crate) enum Entry {
    /// It takes up an idle lease.
    Idle(TakenUp),
    /// It may ask the store.
    Admitted(Admission),
    /// It waits behind others.
    Waiter(Waiter),
}

/// What an acquisition that does not wait finds in this process.
pub(crate) enum TryEntry {
    /// It takes up an idle lease.
    Idle(TakenUp),
    /// The store has not said yet whether a lease that nobody uses stays here.
    Soon(Waiter),
    /// Others wait.
    Busy,
    /// It asks the store.
    Ask,
}

impl LocalQueues {
    /// Enters a lock's queue, for a lease of this TTL, which must be `whole` if nobody renews it.
    pub(crate) fn enter(
        self: &Arc<Self>,
        request: &RequestSpec,
        (ttl, whole): (Duration, bool),
        now: Instant,
    ) -> Entry {
        let name = name(&request.key, request.kind, request.owner.as_ref());
        let spec = (request.kind, request.owner.clone());
        let mut unsuitable = Vec::new();
        let mut queues = self.lock();
        let since = queues.doubted.confirmed_since(now);
        let need = |spec| Need { spec, ttl, whole, since };
        let queue = self.queue(&mut queues, &name, now);
        if queue.waiting.is_empty() {
            match queue.take_idle(&need(&spec), now) {
                Idle::TakenUp(idle) => return Entry::Idle(idle),
                Idle::Doubtful(question) => {
                    let waiter = self.wait_in(queue, name.clone(), spec, (ttl, whole));
                    drop(queues);
                    self.ask(&name, question, Usage::Ended);
                    return Entry::Waiter(waiter);
                }
                Idle::None => {}
            }
            unsuitable = queue.end_idle();
            if queue.has_room(spec.0) {
                queue.admit(spec.0, now);
                let asks = AdmissionState::Asks(queue.generation);
                drop(queues);
                cancel(unsuitable);
                return Entry::Admitted(Admission::new(self, name, spec, asks.into()));
            }
        }
        let lingers = !queue.turns.lingering().is_empty();
        let waiter = self.wait_in(queue, name, spec, (ttl, whole));
        drop(queues);
        cancel(unsuitable);
        if lingers {
            self.be_patient(&waiter.name, waiter.number);
        }
        Entry::Waiter(waiter)
    }

    /// Takes an idle lease without an owner, if there is one and nobody waits. `None` also if the
    /// store has to be asked first.
    #[cfg(feature = "tower")]
    pub(crate) fn take_idle(
        &self,
        key: &LockKey,
        kind: Kind,
        (ttl, whole): (Duration, bool),
        now: Instant,
    ) -> Option<TakenUp> {
        let mut queues = self.lock();
        let since = queues.doubted.confirmed_since(now);
        let queue = Self::queue_of(&mut queues, &RequestName(key, kind, None))
            .filter(|queue| queue.waiting.is_empty())?;
        let need = Need { spec: &(kind, None), ttl, whole, since };
        let id = queue.last_idle(&need, now)?;
        if queue.is_doubtful(id, &need) { None } else { queue.take_up_idle(id, now) }
    }

    /// Returns true if the store has answered those who ask for this lock, so that a waiter whose wait
    /// is over knows that others hold it.
    pub(crate) fn is_answered(&self, request: &RequestSpec) -> bool {
        let name = name(&request.key, request.kind, request.owner.as_ref());
        self.lock().by_name.get(&name).is_some_and(|queue| queue.is_answered)
    }

    /// Looks for an idle lease, for an acquisition that does not wait.
    pub(crate) fn try_enter(
        self: &Arc<Self>,
        request: &RequestSpec,
        (ttl, whole): (Duration, bool),
        now: Instant,
    ) -> TryEntry {
        let name = name(&request.key, request.kind, request.owner.as_ref());
        let mut queues = self.lock();
        let since = queues.doubted.confirmed_since(now);
        let Some(queue) = queues.by_name.get_mut(&name) else { return TryEntry::Ask };
        if !queue.waiting.is_empty() {
            let is_silent = now >= queue.last_activity + LIVE;
            let is_busy = !is_silent && queue.is_answered && !queue.waits_for_an_answer();
            return if is_busy { TryEntry::Busy } else { TryEntry::Ask };
        }
        let spec = (request.kind, request.owner.clone());
        match queue.take_idle(&Need { spec: &spec, ttl, whole, since }, now) {
            Idle::TakenUp(idle) => return TryEntry::Idle(idle),
            Idle::Doubtful(question) => {
                let waiter = self.wait_in(queue, name.clone(), spec, (ttl, whole));
                drop(queues);
                self.ask(&name, question, Usage::Ended);
                return TryEntry::Soon(waiter);
            }
            Idle::None => {}
        }
        let unsuitable = queue.end_idle();
        let entry = if !queue.has_room(spec.0) && queue.turns.is_asking() {
            TryEntry::Soon(self.wait_in(queue, name, spec, (ttl, whole)))
        } else {
            TryEntry::Ask
        };
        drop(queues);
        cancel(unsuitable);
        entry
    }

    fn wait_in(
        self: &Arc<Self>,
        queue: &mut LocalQueue,
        name: QueueName,
        spec: LeaseSpec,
        (ttl, whole): (Duration, bool),
    ) -> Waiter {
        let (admit, admitted) = oneshot::channel();
        let number = self.number();
        let is_last = queue.waiting.back().is_none_or(|last| last.number < number);
        debug_assert!(is_last, "a waiter that can't be found by its number");
        queue.waiting.push_back(QueuedWaiter { number, spec: spec.clone(), ttl, whole, admit });
        Waiter { queues: self.clone(), name, number, spec, admitted }
    }
}

/// A task that waits in a queue. It leaves the queue when dropped.
pub(crate) struct Waiter {
    queues: Arc<LocalQueues>,
    name: QueueName,
    number: u64,
    spec: LeaseSpec,
    admitted: oneshot::Receiver<Admitted>,
}

impl Waiter {
    /// Resolves when its turn comes, or when the askers are silent for too long. `None` if the
    /// queue is gone. A wait that lasts is shown as that of `attempt`.
    ///
    /// # Cancel safety
    ///
    /// Safe: an admission that arrives meanwhile is returned by the next call, or goes to the
    /// next waiter when this one is dropped.
    pub(crate) async fn admission(&mut self, attempt: &mut MeasuredAttempt) -> Option<Admission> {
        let mut longest = SHOWN_AFTER;
        loop {
            let patience = self.patience();
            if patience.is_zero()
                && let Some(admission) = self.overtake()
            {
                return Some(admission);
            }
            tokio::select! {
                biased;
                admitted = &mut self.admitted => return Some(self.admission_to(admitted.ok()?)),
                () = sleep(patience.max(PATIENCE_STEP).min(longest)) => {}
            }
            attempt.waits(|| self.queues.now());
            longest = Duration::MAX;
        }
    }

    fn admission_to(&self, admitted: Admitted) -> Admission {
        Admission::new(&self.queues, self.name.clone(), self.spec.clone(), admitted)
    }

    /// How long it still waits for a sign of life from the askers. Each waiter is more patient
    /// than the one before it, so that the first has the first chance.
    fn patience(&self) -> Duration {
        let queues = self.queues.lock();
        let Some(queue) = queues.by_name.get(&self.name) else { return LIVE };
        let before = queue.waiting.partition_point(|waiter| waiter.number < self.number);
        let patience = LIVE + PATIENCE_STEP * u32::try_from(before).unwrap_or(u32::MAX);
        (queue.last_activity + patience).saturating_duration_since(self.queues.now())
    }

    /// Asks the store beside the silent askers, which no longer count. `None` if its turn has
    /// come at this moment.
    fn overtake(&mut self) -> Option<Admission> {
        let now = self.queues.now();
        let mut queues = self.queues.lock();
        let queue = queues.by_name.get_mut(&self.name)?;
        let gone = queue.leave(self.number)?;
        let turns = queue.begin_generation(self.queues.number());
        queue.admit(self.spec.0, now);
        let asks = AdmissionState::Asks(queue.generation);
        drop(queues);
        drop(gone);
        cancel(turns);
        Some(self.admission_to(asks.into()))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if self.queues.is_forked() {
            return;
        }
        // From here on nothing can be sent to it.
        self.admitted.close();
        if let Ok(admitted) = self.admitted.try_recv() {
            self.queues.withdraw(&self.name, &self.spec, admitted);
        } else {
            drop(self.queues.change(&self.name, None, |queue| queue.leave(self.number)));
        }
    }
}
