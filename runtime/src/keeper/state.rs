//! What the keeper has to do: a timetable of leases, and jobs.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::jobs::{Gate, Job};
use super::timetable::{Timetable, slot_of};
use crate::state::lease::LocalLease;
use crate::state::shutdown::Shutdown;
use crate::store::{RequestId, Store};

/// The number of a job: later ones have greater ones.
pub(super) type JobId = u64;

/// What the keeper and its callers share.
#[derive(Debug)]
pub(super) struct KeeperState {
    pub(super) store: Arc<dyn Store>,
    pub(super) gate: Gate,
    pub(super) shutdown: Arc<Shutdown>,
    /// The process that the keeper's thread is in.
    process: u32,
    book: Mutex<Book>,
    /// There is something to do sooner than the keeper knew.
    pub(super) changed: Notify,
    /// The client has ended.
    pub(super) ended: Notify,
    /// A job is finished.
    finished: Condvar,
}

#[derive(Default)]
pub(super) struct Book {
    pub(super) timetable: Timetable,
    jobs: Vec<(JobId, Job)>,
    /// Jobs that are queued or running.
    unfinished: BTreeSet<JobId>,
    numbers: u64,
    has_ended: bool,
}

impl std::fmt::Debug for Book {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Book")
            .field("renewals", &self.timetable.len())
            .field("unfinished", &self.unfinished.len())
            .finish_non_exhaustive()
    }
}

impl KeeperState {
    pub(super) fn new(store: Arc<dyn Store>, gate: Gate, shutdown: Arc<Shutdown>) -> Self {
        Self {
            store,
            gate,
            shutdown,
            process: std::process::id(),
            book: Mutex::default(),
            changed: Notify::new(),
            ended: Notify::new(),
            finished: Condvar::new(),
        }
    }

    /// Whether the keeper's thread is in this process, and not in one that this was forked
    /// off from.
    pub(super) fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a lease into the timetable, unless its holder has ended it.
    pub(super) fn schedule(&self, local: &Arc<LocalLease>, when: Instant) {
        let mut book = self.book();
        book.numbers += 1;
        let slot = (when, book.numbers);
        let is_sooner = book.timetable.put_in(local, slot);
        drop(book);
        if is_sooner {
            self.changed.notify_one();
        }
    }

    pub(super) fn unschedule(&self, local: &LocalLease) {
        let mut book = self.book();
        if let Some(slot) = slot_of(local).take() {
            book.timetable.take_out(slot);
        }
    }

    /// The lease of a request; not while a renewal of it is under way, which finds out too.
    pub(super) fn find(&self, id: RequestId) -> Option<Arc<LocalLease>> {
        self.book().timetable.find(id)
    }

    pub(super) fn push(&self, job: Job) {
        let id = self.book().id();
        self.queue(id, job);
    }

    /// The same after a while; it counts as unfinished at once. On the keeper's own
    /// runtime.
    pub(super) fn push_later(self: Arc<Self>, job: Job, after: Duration) {
        let id = self.book().id();
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            self.queue(id, job);
        });
    }

    fn queue(&self, id: JobId, job: Job) {
        self.book().jobs.push((id, job));
        self.changed.notify_one();
    }

    pub(super) fn end(&self) {
        self.book().has_ended = true;
        self.changed.notify_one();
        self.ended.notify_one();
    }

    /// Blocks until all jobs that are there now are finished, and says how many
    /// of them are not after `bound`.
    pub(super) fn drain(&self, bound: Duration) -> usize {
        let last = self.book().numbers;
        self.drain_up_to(last, bound)
    }

    /// Those that come meanwhile are not waited for: under load there would be
    /// no end.
    fn drain_up_to(&self, last: JobId, bound: Duration) -> usize {
        let is_left = |book: &mut Book| book.unfinished.first().is_some_and(|first| *first <= last);
        let waited = self.finished.wait_timeout_while(self.book(), bound, is_left);
        waited.unwrap_or_else(PoisonError::into_inner).0.unfinished.range(..=last).count()
    }
}

impl Book {
    /// The number of a job that is to be done.
    fn id(&mut self) -> JobId {
        self.numbers += 1;
        self.unfinished.insert(self.numbers);
        self.numbers
    }

    /// Takes out the jobs.
    pub(super) fn take_jobs(&mut self) -> Vec<(JobId, Job)> {
        std::mem::take(&mut self.jobs)
    }

    /// Whether the client has ended, and all is done.
    pub(super) fn is_over(&self) -> bool {
        self.has_ended && self.timetable.is_empty() && self.unfinished.is_empty()
    }
}

/// Counts a job as finished, be it because its runtime was dropped.
pub(super) struct Done {
    pub(super) shared: Arc<KeeperState>,
    pub(super) id: JobId,
}

impl Drop for Done {
    fn drop(&mut self) {
        self.shared.book().unfinished.remove(&self.id);
        self.shared.finished.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::AtomicU64;
    use std::task::{Context, Waker};

    use tokio::sync::Semaphore;

    use super::*;
    use crate::core::key::LockKey;
    use crate::core::options::Options;
    use crate::state::lease::Grant;
    use crate::store::memory::MemoryStore;
    use crate::store::{ClientId, Kind, Request, RequestId};

    #[test]
    fn the_keeper_is_woken_for_what_is_sooner_than_its_next_look() {
        let store = Arc::new(MemoryStore::default());
        let shared = KeeperState::new(store, Arc::new(Semaphore::new(1)), Arc::default());
        let local = |n: &str| {
            let id = RequestId::next(ClientId::random(), &AtomicU64::new(0));
            let (key, ttl) = (LockKey::new(n).unwrap(), Duration::from_secs(30));
            let request = Request { key, id, kind: Kind::Mutex, owner: None, ttl };
            let grant = Grant::by_command(Instant::now(), ttl);
            let store = shared.store.clone();
            Arc::new(LocalLease::new(
                store,
                Arc::default(),
                request,
                None,
                grant,
                &Options::default(),
            ))
        };
        let wakes = |when| {
            shared.schedule(&local("a"), when);
            let woken = pin!(shared.changed.notified());
            woken.poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        let at = |seconds| Instant::now() + Duration::from_secs(seconds);
        assert!(wakes(at(10)), "it has nothing to wait for");
        assert!(!wakes(at(20)));
        assert!(wakes(at(5)));
        assert!(shared.book().timetable.next(false).is_some());
        assert!(!wakes(at(6)));
        assert!(shared.book().timetable.next(true).is_none(), "it waits for something else");
        assert!(wakes(at(30)), "and what it does then is not known");
    }

    #[test]
    fn a_drain_does_not_wait_for_later_jobs() {
        let store = Arc::new(MemoryStore::default());
        let shared = KeeperState::new(store, Arc::new(Semaphore::new(1)), Arc::default());
        let shared = Arc::new(shared);
        shared.push(Box::pin(async {}));
        shared.push(Box::pin(async {}));
        let (first, _) = shared.book().take_jobs().remove(0);
        assert_eq!(shared.drain(Duration::ZERO), 2);
        drop(Done { shared: shared.clone(), id: first });
        assert_eq!(shared.drain_up_to(first, Duration::from_secs(60)), 0);
        assert_eq!(shared.drain(Duration::ZERO), 1);
    }
}
