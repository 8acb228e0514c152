//! What the keeper has to do: a timetable of renewals, and jobs.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use super::jobs::Job;
use crate::store::Store;
use crate::term::{Slot, Term};

/// What the keeper and its callers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    book: Mutex<Book>,
    /// There is something to do sooner than the keeper knew.
    pub(super) changed: Notify,
    /// The client has ended.
    pub(super) ended: Notify,
    /// There is no unfinished job.
    drained: Condvar,
}

#[derive(Default)]
pub(super) struct Book {
    timetable: BTreeMap<Slot, Arc<Term>>,
    jobs: Vec<Job>,
    /// Jobs that are queued or running.
    unfinished: usize,
    numbers: u64,
    /// The task that works through this book, by number.
    at_work: Option<u64>,
    has_ended: bool,
}

impl std::fmt::Debug for Book {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Book")
            .field("renewals", &self.timetable.len())
            .field("unfinished", &self.unfinished)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            book: Mutex::default(),
            changed: Notify::new(),
            ended: Notify::new(),
            drained: Condvar::new(),
        }
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a renewal into the timetable, unless the lease has ended.
    pub(super) fn schedule(&self, term: &Arc<Term>, when: Instant) {
        let mut book = self.book();
        if !term.is_held() {
            return;
        }
        book.numbers += 1;
        let slot = (when, book.numbers);
        *slot_of(term) = Some(slot);
        book.timetable.insert(slot, term.clone());
        let is_next = book.timetable.first_key_value().is_some_and(|(first, _)| *first == slot);
        drop(book);
        // The keeper sleeps until the next one: nothing before it, no need to wake it.
        if is_next {
            self.changed.notify_one();
        }
    }

    pub(super) fn unschedule(&self, term: &Term) {
        let mut book = self.book();
        if let Some(slot) = slot_of(term).take() {
            book.timetable.remove(&slot);
        }
    }

    pub(super) fn push(&self, job: Job) {
        let mut book = self.book();
        book.jobs.push(job);
        book.unfinished += 1;
        drop(book);
        self.changed.notify_one();
    }

    pub(super) fn end(&self) {
        self.book().has_ended = true;
        self.changed.notify_one();
        self.ended.notify_one();
    }

    /// Blocks until no job is unfinished, and says how many are after `bound`.
    #[cfg(feature = "redis")]
    pub(super) fn drain(&self, bound: std::time::Duration) -> usize {
        let waited =
            self.drained.wait_timeout_while(self.book(), bound, |book| book.unfinished > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.unfinished
    }
}

fn slot_of(term: &Term) -> MutexGuard<'_, Option<Slot>> {
    term.slot.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Book {
    /// Takes out the renewals that are due.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Arc<Term>> {
        let later = self.timetable.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut self.timetable, later);
        due.into_values().inspect(|term| *slot_of(term) = None).collect()
    }

    pub(super) fn take_jobs(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.jobs)
    }

    /// When the next renewal is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.timetable.first_key_value().map(|(slot, _)| slot.0)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.timetable.is_empty() && self.unfinished == 0
    }

    #[cfg(feature = "redis")]
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(super) fn leave(&mut self) {
        self.at_work = None;
    }
}

/// Counts a job as done, be it because its runtime was dropped.
pub(super) struct Done(pub(super) Arc<Shared>);

impl Drop for Done {
    fn drop(&mut self) {
        let mut book = self.0.book();
        book.unfinished -= 1;
        if book.unfinished == 0 {
            self.0.drained.notify_all();
        }
    }
}

/// The only task that works through a guest's book: until there is nothing to
/// do, or its runtime is dropped.
pub(super) struct AtWork {
    shared: Arc<Shared>,
    number: u64,
}

impl AtWork {
    /// Begins, unless another has, or there is nothing to do.
    pub(super) fn begin(shared: &Arc<Shared>) -> Option<Self> {
        let mut book = shared.book();
        if book.at_work.is_some() || book.is_idle() {
            return None;
        }
        book.numbers += 1;
        let number = book.numbers;
        book.at_work = Some(number);
        Some(Self { shared: shared.clone(), number })
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let mut book = self.shared.book();
        // It left when its work was done; another may be there by now.
        if book.at_work == Some(self.number) {
            book.at_work = None;
        }
    }
}

impl Deref for AtWork {
    type Target = Arc<Shared>;

    fn deref(&self) -> &Arc<Shared> {
        &self.shared
    }
}
