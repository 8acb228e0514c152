//! The keeper's work: a timetable of leases, and jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::jobs::{Job, Jobs};
use super::timetable::{Timetable, slot_of};
use crate::core::sync::lock;
use crate::state::lease::{LocalLease, Slot};
use crate::store::RequestId;
use crate::system;

/// Within which time leases are renewed after a connection was lost.
const SOON: Duration = Duration::from_secs(1);

/// The number of a job. Later jobs have greater ones.
pub(super) type JobId = u64;

/// The state that the keeper's thread and its callers share.
#[derive(Debug)]
pub(super) struct KeeperState {
    pub(super) jobs: Arc<Jobs>,
    /// Tells the process in which the keeper's thread runs from those that it forks off.
    forks: forkguard::Guard,
    agenda: Mutex<Agenda>,
    /// An entry is due sooner than the keeper knew, or a job has come.
    pub(super) changed: Notify,
    /// A lease has a longer TTL than any before.
    pub(super) longer: Notify,
    /// The client has ended.
    pub(super) ended: Notify,
    /// A job has finished, or a line is logged.
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
    /// The batches of leases that are being renewed.
    batches: BTreeMap<u64, Vec<Arc<LocalLease>>>,
    jobs: Vec<(JobId, Job)>,
    /// Jobs that are queued or running.
    unfinished: BTreeSet<JobId>,
    numbers: u64,
    /// Jobs up to this one were waited for in vain, and nobody waits for them again: by a shutdown, and by
    /// the end of a thread a moment ago.
    shut_down: JobId,
    given_up: JobId,
    /// How often the log was to say that, and how often it has.
    to_tell: u64,
    told: u64,
    has_ended: bool,
    /// The keeper's thread takes no more jobs.
    is_closed: bool,
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
    pub(super) fn new(jobs: Arc<Jobs>) -> Self {
        Self {
            jobs,
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
        let now = self.jobs.store.now();
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
                when.min(self.jobs.store.now() + system::full_jitter(SOON))
            }
            _ => when,
        }
    }

    /// The lease of a request. `None` while a renewal of it is in flight: if the server ran that
    /// one before the lock was taken by force, the next renewal finds out.
    pub(super) fn find(&self, id: RequestId) -> Option<Arc<LocalLease>> {
        self.agenda().timetable.find(id)
    }

    /// Adds a job, or drops it if the thread has ended.
    pub(super) fn push(&self, job: Job) {
        let mut agenda = self.agenda();
        if agenda.is_closed {
            // Not dropped under the lock.
            drop(agenda);
            return;
        }
        agenda.numbers += 1;
        let id = agenda.numbers;
        agenda.unfinished.insert(id);
        agenda.jobs.push((id, job));
        drop(agenda);
        self.changed.notify_one();
    }

    /// Takes the leases that are due, as a batch that is renewed until its guard is dropped.
    pub(super) fn begin_batch(
        self: &Arc<Self>,
        agenda: &mut Agenda,
        due: &[Arc<LocalLease>],
    ) -> Batch {
        agenda.numbers += 1;
        agenda.batches.insert(agenda.numbers, due.to_vec());
        Batch { shared: self.clone(), number: agenda.numbers }
    }

    pub(super) fn end(&self) {
        self.agenda().has_ended = true;
        self.changed.notify_one();
        self.ended.notify_one();
    }

    /// The leases that it handles.
    pub(super) fn leases(&self) -> Vec<Arc<LocalLease>> {
        let agenda = self.agenda();
        agenda.timetable.leases().chain(agenda.batches.values().flatten()).cloned().collect()
    }

    /// The last job so far. Nobody waits for later ones: under load that would have no end.
    pub(super) fn last_job(&self) -> JobId {
        self.agenda().numbers
    }

    /// Blocks until all jobs up to this one have finished or are given up, for at most `bound`. Returns
    /// true if they are.
    pub(super) fn drain(&self, last: JobId, bound: Duration) -> bool {
        let is_left = |agenda: &mut Agenda| agenda.has_unfinished(last);
        let waited = self.finished.wait_timeout_while(self.agenda(), bound, is_left);
        !waited.unwrap_or_else(PoisonError::into_inner).0.has_unfinished(last)
    }

    /// Notes that a shutdown has waited for all present jobs, and has reported what is left.
    pub(super) fn note_shutdown(&self) {
        let mut agenda = self.agenda();
        agenda.shut_down = agenda.numbers;
    }

    /// Notes that jobs up to this one were waited for in vain. The keeper's thread logs what is left, once
    /// for each job.
    pub(super) fn give_up_jobs(&self, last: JobId) {
        let mut agenda = self.agenda();
        agenda.to_tell += u64::from(agenda.has_unfinished(last));
        agenda.given_up = agenda.given_up.max(last);
        drop(agenda);
        self.changed.notify_one();
    }

    /// Blocks until the keeper's thread has logged what is left, for at most `bound`.
    pub(super) fn until_told(&self, bound: Duration) {
        let is_to_tell = |agenda: &mut Agenda| agenda.told < agenda.to_tell && !agenda.is_closed;
        drop(self.finished.wait_timeout_while(self.agenda(), bound, is_to_tell));
    }

    /// Logs what is left, if that is to be told. On the keeper's thread: a logger may use thread-locals,
    /// and those of a thread that ends are gone. A panic there would abort the process.
    ///
    /// Returns the last job that is given up, if there was something to tell.
    pub(super) fn tell(&self) -> Option<JobId> {
        let (to_tell, given_up) = {
            let agenda = self.agenda();
            if agenda.told == agenda.to_tell {
                return None;
            }
            (agenda.to_tell, agenda.given_up)
        };
        let report = self.jobs.report(&self.leases());
        let (left, locks) = (report.left, report.labels_text());
        tracing::warn!(left, locks, "not all locks were released in time; their TTLs end them");
        self.agenda().told = to_tell;
        self.finished.notify_all();
        Some(given_up)
    }

    /// Lets jobs up to this one be waited for again: by now, the store may answer.
    pub(super) fn take_up(&self, last: JobId) {
        let mut agenda = self.agenda();
        if agenda.given_up == last {
            agenda.given_up = 0;
        }
    }

    /// Drops the jobs that are queued. No more come.
    pub(super) fn close(&self) {
        let jobs = {
            let mut agenda = self.agenda();
            agenda.is_closed = true;
            agenda.unfinished.clear();
            agenda.take_jobs()
        };
        self.finished.notify_all();
        drop(jobs);
    }
}

impl Agenda {
    fn has_unfinished(&self, last: JobId) -> bool {
        let next = self.given_up.max(self.shut_down).saturating_add(1);
        next <= last && self.unfinished.range(next..=last).next().is_some()
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
        let mut agenda = self.shared.agenda();
        let was_unfinished = agenda.unfinished.remove(&self.id);
        debug_assert!(was_unfinished || agenda.is_closed, "a job finishes twice");
        drop(agenda);
        self.shared.finished.notify_all();
    }
}

/// Leases that are being renewed, until this is dropped.
pub(super) struct Batch {
    pub(super) shared: Arc<KeeperState>,
    number: u64,
}

impl Drop for Batch {
    fn drop(&mut self) {
        let leases = self.shared.agenda().batches.remove(&self.number);
        // Dropping them may need the lock.
        drop(leases);
    }
}

#[cfg(test)]
mod tests;
