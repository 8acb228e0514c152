//! Entering a local queue, and waiting in it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;

use super::admission::Admission;
use super::queue::{AdmissionState, Admitted, LeaseSpec, QueueName, QueuedWaiter, name};
use super::queues::LocalQueues;
use crate::store::{LIVE, RequestSpec};

/// How much more patience each waiter has than the one before it.
const PATIENCE_STEP: Duration = Duration::from_millis(100);

/// The result of entering a queue: an acquisition is admitted at once, or waits.
pub(crate) enum Entry {
    /// It may ask the store.
    Admitted(Admission),
    /// It waits behind others.
    Waiter(Waiter),
}

impl LocalQueues {
    /// Enters a lock's queue, for a lease of this TTL.
    pub(crate) fn enter(self: &Arc<Self>, request: &RequestSpec, ttl: Duration) -> Entry {
        let name = name(&request.key, request.kind, request.owner.as_ref());
        let spec = (request.kind, request.owner.clone());
        let now = self.now();
        let mut queues = self.lock();
        let queue = self.queue(&mut queues, &name, now);
        if queue.waiting.is_empty() && queue.has_room(spec.0) {
            queue.admit(spec.0, now);
            let asks = AdmissionState::Asks(queue.generation);
            return Entry::Admitted(Admission::new(self, name, spec, asks.into()));
        }
        let (admit, admitted) = oneshot::channel();
        let number = self.number();
        queue.waiting.push_back(QueuedWaiter { number, spec: spec.clone(), ttl, admit });
        Entry::Waiter(Waiter { queues: self.clone(), name, number, spec, admitted })
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
    /// queue is gone.
    ///
    /// # Cancel safety
    ///
    /// Safe: an admission that arrives meanwhile is returned by the next call, or goes to the
    /// next waiter when this one is dropped.
    pub(crate) async fn admission(&mut self) -> Option<Admission> {
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
                () = sleep(patience.max(PATIENCE_STEP)) => {}
            }
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
        drop((gone, turns));
        Some(self.admission_to(asks.into()))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // From here on nothing can be sent to it.
        self.admitted.close();
        match self.admitted.try_recv() {
            Ok(admitted) => self.queues.withdraw(&self.name, &self.spec, admitted),
            Err(_) => {
                drop(self.queues.change(&self.name, None, |queue| queue.leave(self.number)));
            }
        }
    }
}
