//! Waiting in a line.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;

use super::{Admission, LocalQueues, Name, What};
use crate::store::LIVE;

/// By how much later each of those behind loses its patience.
const A_LITTLE: Duration = Duration::from_millis(100);

/// Waits in a line; leaves it when dropped.
pub(crate) struct Waiter {
    queues: Arc<LocalQueues>,
    name: Name,
    number: u64,
    what: What,
    admitted: oneshot::Receiver<Admission>,
}

impl Waiter {
    pub(super) fn new(
        queues: &Arc<LocalQueues>,
        name: Name,
        what: What,
        number: u64,
        admitted: oneshot::Receiver<Admission>,
    ) -> Self {
        Self { queues: queues.clone(), name, number, what, admitted }
    }

    /// Resolves when it is its turn, or when those who have theirs are silent for
    /// too long. Nothing if there is no line any more.
    pub(crate) async fn admission(&mut self) -> Option<Admission> {
        loop {
            let patience = self.patience();
            if patience.is_zero()
                && let Some(admission) = self.go_past()
            {
                return Some(admission);
            }
            tokio::select! {
                biased;
                admission = &mut self.admitted => return admission.ok(),
                () = sleep(patience.max(A_LITTLE)) => {}
            }
        }
    }

    /// How long it waits yet for a sign: a little longer for each who is before it,
    /// who so has the first chance.
    fn patience(&self) -> Duration {
        let all = self.queues.all();
        let Some(queue) = all.queues.get(&self.name) else { return LIVE };
        let before = queue.waiting.partition_point(|place| place.number < self.number);
        let patience = LIVE + A_LITTLE * u32::try_from(before).unwrap_or(u32::MAX);
        (queue.sign + patience).saturating_duration_since(self.queues.now())
    }

    /// Those who ask count no more; it asks itself. Nothing if its turn has come
    /// at the same moment.
    fn go_past(&mut self) -> Option<Admission> {
        let now = self.queues.now();
        let mut all = self.queues.all();
        let queue = all.queues.get_mut(&self.name)?;
        let gone = queue.leave(self.number)?;
        queue.generation = self.queues.number();
        (queue.askers, queue.pending) = (0, 0);
        let turns = std::mem::take(&mut queue.turns);
        queue.admit(self.what.0, now);
        let generation = queue.generation;
        drop(all);
        drop((gone, turns));
        Some(Admission::asker(&self.queues, self.name.clone(), self.what.clone(), generation))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        drop(self.queues.change(&self.name, None, |queue| queue.leave(self.number)));
    }
}
