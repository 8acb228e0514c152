//! The keeper's work: a timetable of leases, and jobs.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::sync::Notify;

use super::jobs::{Job, JobLimit};
use super::timetable::{Timetable, slot_of};
use crate::core::sync::lock;
use crate::state::lease::{LocalLease, Slot};
use crate::state::shutdown::Shutdown;
use crate::store::{RequestId, Store};
use crate::system;

/// Within which time leases are renewed after a connection was lost.
const SOON: Duration = Duration::from_secs(1);

/// The number of a job. Later jobs have greater ones.
pub(super) type JobId = u64;

/// The state that the keeper's thread and its callers share.
#[derive(Debug)]
pub(super) struct KeeperState {
    pub(super) store: Arc<dyn Store>,
    pub(super) limit: JobLimit,
    pub(super) shutdown: Arc<Shutdown>,
    /// Tells the process in which the keeper's thread runs from those that it forks off.
    forks: forkguard::Guard,
    agenda: Mutex<Agenda>,
    /// An entry is due sooner than the keeper knew, or a job has come.
    pub(super) changed: Notify,
    /// A lease has a longer TTL than any before.
    pub(super) longer: Notify,
    /// The client has ended.
    pub(super) ended: Notify,
    /// A job has finished.
    finished: Condvar,
    /// What to do when the main thread ends, before the jobs are waited for.
    pub(super) at_exit: OnceLock<AtExit>,
}

/// Work for the end of the process.
pub(super) struct AtExit(pub(super) Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for AtExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AtExit")
    }
}

#[derive(Default)]
pub(super) struct Agenda {
    pub(super) timetable: Timetable,
    /// The longest TTL of any lease so far.
    longest_ttl: Duration,
    /// When a connection was last lost. The server may have forgotten what it knew before.
    doubted: Option<Instant>,
    jobs: Vec<(JobId, Job)>,
    /// Jobs that are queued or running.
    unfinished: BTreeSet<JobId>,
    numbers: u64,
    has_ended: bool,
}

impl std::fmt::Debug for Agenda {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agenda")
            .field("renewals", &self.timetable.len())
            .field("unfinished", &self.unfinished.len())
            .finish_non_exhaustive()
    }
}

impl KeeperState {
    pub(super) fn new(store: Arc<dyn Store>, limit: JobLimit, shutdown: Arc<Shutdown>) -> Self {
        Self {
            store,
            limit,
            shutdown,
            forks: forkguard::new(),
            agenda: Mutex::default(),
            changed: Notify::new(),
            longer: Notify::new(),
            ended: Notify::new(),
            finished: Condvar::new(),
            at_exit: OnceLock::new(),
        }
    }

    /// Returns true if the keeper's thread runs in this process. It does not in a process that
    /// was forked off.
    pub(super) fn is_here(&self) -> bool {
        !self.forks.clone().detected_fork()
    }

    pub(super) fn agenda(&self) -> MutexGuard<'_, Agenda> {
        lock(&self.agenda)
    }

    /// The longest TTL of any lease so far.
    pub(super) fn longest_ttl(&self) -> Duration {
        self.agenda().longest_ttl
    }

    /// Puts a lease into the timetable, unless its holder has ended it: into the place that an
    /// earlier lease has left to it, if that one was due at the same time.
    pub(super) fn schedule(&self, local: &Arc<LocalLease>, when: Instant, place: Option<Slot>) {
        let mut agenda = self.agenda();
        if local.request.ttl > agenda.longest_ttl {
            agenda.longest_ttl = local.request.ttl;
            self.longer.notify_one();
        }
        let when = agenda.doubted.map_or(when, |doubted| self.soon_if_before(doubted, local, when));
        let before = place.and_then(|place| {
            if place.0 == when {
                agenda.timetable.replace(place, local)
            } else {
                drop(agenda.timetable.take_out(place));
                None
            }
        });
        if before.is_some() {
            // It is not dropped under the lock.
            drop(agenda);
            return;
        }
        agenda.numbers += 1;
        let slot = (when, agenda.numbers);
        let is_sooner = agenda.timetable.put_in(local, slot);
        drop(agenda);
        if is_sooner {
            self.changed.notify_one();
        }
    }

    pub(super) fn unschedule(&self, local: &LocalLease) {
        let mut agenda = self.agenda();
        if let Some(slot) = slot_of(local).take() {
            agenda.timetable.take_out(slot);
        }
    }

    pub(super) fn give_up(&self, place: Slot) {
        self.agenda().timetable.take_out(place);
    }

    /// Lets all leases be due within a second, and those that begin later with an answer from before.
    /// Each at a random moment: other clients do the same.
    pub(super) fn renew_soon(&self) {
        let now = self.store.now();
        let mut agenda = self.agenda();
        agenda.doubted = Some(now);
        agenda.timetable.bring_forward(now, SOON);
        drop(agenda);
        self.changed.notify_one();
    }

    /// When a lease is due that is to be due then, unless what is known of it is from before this
    /// moment: a lease that was handed over meanwhile, or whose answer was on its way.
    fn soon_if_before(&self, doubted: Instant, local: &LocalLease, when: Instant) -> Instant {
        match local.confirmed() {
            Some(confirmed) if confirmed < doubted && local.needs_renewal() => {
                when.min(self.store.now() + system::full_jitter(SOON))
            }
            _ => when,
        }
    }

    /// The lease of a request. `None` while a renewal of it is in flight: if the server ran that
    /// one before the lock was taken by force, the next renewal finds out.
    pub(super) fn find(&self, id: RequestId) -> Option<Arc<LocalLease>> {
        self.agenda().timetable.find(id)
    }

    pub(super) fn push(&self, job: Job) {
        let id = self.agenda().begin_job();
        self.queue(id, job);
    }

    /// The same after a delay. The job counts as unfinished at once. Only to be called on the
    /// keeper's own runtime.
    pub(super) fn push_later(self: Arc<Self>, job: Job, after: Duration) {
        let id = self.agenda().begin_job();
        tokio::spawn(
            async move {
                tokio::time::sleep(after).await;
                self.queue(id, job);
            }
            .boxed(),
        );
    }

    fn queue(&self, id: JobId, job: Job) {
        self.agenda().jobs.push((id, job));
        self.changed.notify_one();
    }

    pub(super) fn end(&self) {
        self.agenda().has_ended = true;
        self.changed.notify_one();
        self.ended.notify_one();
    }

    /// How many jobs have not finished.
    pub(super) fn unfinished(&self) -> usize {
        self.agenda().unfinished.len()
    }

    /// Blocks until all present jobs have finished, for at most `bound`. Gives how many have
    /// not.
    pub(super) fn drain(&self, bound: Duration) -> usize {
        let last = self.agenda().numbers;
        self.drain_up_to(last, bound)
    }

    /// Waits for no later jobs: under load that would have no end.
    fn drain_up_to(&self, last: JobId, bound: Duration) -> usize {
        let is_left =
            |agenda: &mut Agenda| agenda.unfinished.first().is_some_and(|first| *first <= last);
        let waited = self.finished.wait_timeout_while(self.agenda(), bound, is_left);
        waited.unwrap_or_else(PoisonError::into_inner).0.unfinished.range(..=last).count()
    }
}

impl Agenda {
    /// Numbers a job and counts it as unfinished.
    fn begin_job(&mut self) -> JobId {
        self.numbers += 1;
        self.unfinished.insert(self.numbers);
        self.numbers
    }

    /// Takes the queued jobs.
    pub(super) fn take_jobs(&mut self) -> Vec<(JobId, Job)> {
        std::mem::take(&mut self.jobs)
    }

    /// Returns true if the client has ended and all work is done.
    pub(super) fn is_over(&self) -> bool {
        self.has_ended && self.timetable.is_empty() && self.unfinished.is_empty()
    }
}

/// Counts a job as finished, also if its runtime drops it.
pub(super) struct JobGuard {
    pub(super) shared: Arc<KeeperState>,
    pub(super) id: JobId,
}

impl Drop for JobGuard {
    fn drop(&mut self) {
        let was_unfinished = self.shared.agenda().unfinished.remove(&self.id);
        debug_assert!(was_unfinished, "a job finishes twice");
        self.shared.finished.notify_all();
    }
}

#[cfg(test)]
mod tests;
