//! Entering a queue, and waiting in it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;

use super::admission::Admission;
use super::queue::{Admitted, Name, Place, Standing, What, name};
use super::queues::LocalQueues;
use crate::store::{LIVE, Wanted};

/// By how much longer each waiter than the one before it waits for a sign.
const A_LITTLE: Duration = Duration::from_millis(100);

/// What entering a queue gives.
pub(crate) enum Entry {
    /// It may ask the store.
    Admitted(Admission),
    /// Others are before it.
    Waiter(Waiter),
}

impl LocalQueues {
    /// Enters the queue of a lock, for a lease of this TTL.
    pub(crate) fn enter(self: &Arc<Self>, wanted: &Wanted, ttl: Duration) -> Entry {
        let name = name(&wanted.key, wanted.kind, wanted.owner.as_ref());
        let what = (wanted.kind, wanted.owner.clone());
        let now = self.now();
        let mut all = self.all();
        let queue = self.queue(&mut all, &name, now);
        if queue.waiting.is_empty() && queue.has_room(what.0) {
            queue.admit(what.0, now);
            let asks = Standing::Asks(queue.generation);
            return Entry::Admitted(Admission::new(self, name, what, asks.into()));
        }
        let (admit, admitted) = oneshot::channel();
        let number = self.number();
        queue.waiting.push_back(Place { number, what: what.clone(), ttl, admit });
        Entry::Waiter(Waiter { queues: self.clone(), name, number, what, admitted })
    }
}

/// Waits in a queue, and leaves it when dropped.
pub(crate) struct Waiter {
    queues: Arc<LocalQueues>,
    name: Name,
    number: u64,
    what: What,
    admitted: oneshot::Receiver<Admitted>,
}

impl Waiter {
    /// Resolves when it is its turn, or when those before it are silent for too long.
    /// Nothing if the queue is gone.
    ///
    /// # Cancel safety
    ///
    /// Safe: an admission that came meanwhile is there the next time, or goes to the next
    /// waiter when this one is dropped.
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
                admitted = &mut self.admitted => return Some(self.admission_to(admitted.ok()?)),
                () = sleep(patience.max(A_LITTLE)) => {}
            }
        }
    }

    fn admission_to(&self, admitted: Admitted) -> Admission {
        Admission::new(&self.queues, self.name.clone(), self.what.clone(), admitted)
    }

    /// How long it still waits for a sign: a little longer for each waiter before it, so
    /// that those have the first chance.
    fn patience(&self) -> Duration {
        let all = self.queues.all();
        let Some(queue) = all.queues.get(&self.name) else { return LIVE };
        let before = queue.waiting.partition_point(|place| place.number < self.number);
        let patience = LIVE + A_LITTLE * u32::try_from(before).unwrap_or(u32::MAX);
        (queue.sign + patience).saturating_duration_since(self.queues.now())
    }

    /// Asks the store past those that have the right to: they count no more. Nothing if its
    /// turn has come at the same moment.
    fn go_past(&mut self) -> Option<Admission> {
        let now = self.queues.now();
        let mut all = self.queues.all();
        let queue = all.queues.get_mut(&self.name)?;
        let gone = queue.leave(self.number)?;
        let turns = queue.begin_generation(self.queues.number());
        queue.admit(self.what.0, now);
        let asks = Standing::Asks(queue.generation);
        drop(all);
        drop((gone, turns));
        Some(self.admission_to(asks.into()))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // From here on nothing can be sent to it.
        self.admitted.close();
        match self.admitted.try_recv() {
            Ok(admitted) => self.queues.withdraw(&self.name, &self.what, admitted),
            Err(_) => {
                drop(self.queues.change(&self.name, None, |queue| queue.leave(self.number)));
            }
        }
    }
}
