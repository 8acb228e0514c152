//! A task gets an admission when its turn in the local queue comes.

use std::sync::Arc;
use std::time::Duration;

use super::queue::{AdmissionState, Admitted};
use super::queues::LocalQueues;
use super::spec::{LeaseSpec, QueueName};
use super::turns::TakenUp;
use super::turns::TurnId;
use crate::client::not_granted::DoneWork;
use crate::client::pending::PendingRequest;
use crate::store::Kind;

/// The right to ask the store for a lock, or to take over a lease from a task of this process.
/// When it is dropped, it goes to the next waiter.
pub(crate) struct Admission {
    queues: Arc<LocalQueues>,
    name: QueueName,
    spec: LeaseSpec,
    admitted: Admitted,
}

impl Admission {
    pub(super) fn new(
        queues: &Arc<LocalQueues>,
        name: QueueName,
        spec: LeaseSpec,
        admitted: Admitted,
    ) -> Self {
        Self { queues: queues.clone(), name, spec, admitted }
    }

    /// The lease that was handed over. `None` if there is none, or none any more: then the caller
    /// asks the store.
    pub(crate) fn take_up(&mut self) -> Option<TakenUp> {
        let AdmissionState::InTurn(turn) = self.admitted.state else { return None };
        self.admitted.state = AdmissionState::Served;
        let Some((grant, activity)) = self.queues.take_up(&self.name, turn) else {
            self.ask_instead();
            return None;
        };
        Some(TakenUp { grant, turn, activity })
    }

    /// Asks the store after all, because the lease that was handed over had ended. It asks
    /// beside the other askers.
    pub(crate) fn ask_instead(&mut self) {
        let now = self.queues.now();
        let mut queues = self.queues.lock();
        let queue = self.queues.queue(&mut queues, &self.name, now);
        queue.admit(self.spec.0, now);
        self.admitted.state = AdmissionState::Asks(queue.generation);
    }

    /// The request that an earlier acquisition has begun and left.
    pub(crate) fn inherit(&mut self) -> Option<Box<PendingRequest>> {
        self.admitted.inherited.take()
    }

    /// Its work is done, as another task of this process has heard.
    pub(crate) fn done(&self) -> Option<DoneWork> {
        if let AdmissionState::Done(done) = self.admitted.state { Some(done) } else { None }
    }

    /// A number for an ask that is sent now: those who come to wait later have greater ones. Only
    /// work that is to succeed once has one.
    pub(crate) fn number(&self) -> Option<u64> {
        matches!(self.spec.0, Kind::Once(_)).then(|| self.queues.number())
    }

    /// Tells all that waited here for the same work when the ask of this number was sent that it is done.
    /// None of them asks.
    pub(crate) fn tell_done(&self, asked: u64, done: DoneWork) {
        self.queues.tell_done(&self.name, self.spec.0, asked, done);
    }

    /// Notes whether the store has answered its ask.
    pub(crate) fn note_answer(&self, is_answered: bool) {
        if let Some(queue) = self.queues.lock().by_name.get_mut(&self.name) {
            queue.is_answered = is_answered;
        }
    }

    /// Notes that it has just asked the store.
    pub(crate) fn note_activity(&self) {
        if let Some(queue) = self.queues.lock().by_name.get_mut(&self.name) {
            queue.last_activity = self.queues.now();
        }
    }

    /// Notes that the store has granted its request with this TTL. If a turn begins, waiters
    /// here may have the lease next.
    pub(crate) fn granted(mut self, ttl: Duration) -> Option<TurnId> {
        let AdmissionState::Asks(generation) = self.admitted.state else { return None };
        self.admitted.state = AdmissionState::Served;
        self.queues.begin_turn(&self.name, &self.spec, ttl, generation)
    }

    /// Leaves the request to the next waiter: its place in the store's queue belongs to the
    /// client.
    pub(crate) fn leave_behind(mut self, pending: PendingRequest) {
        self.admitted.inherited = Some(Box::new(pending));
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if self.queues.is_forked() {
            return;
        }
        let admitted = std::mem::replace(&mut self.admitted, AdmissionState::Served.into());
        self.queues.withdraw(&self.name, &self.spec, admitted);
    }
}
