//! A client's shutdown: how far it is, and what it waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// How long a client's shutdown, or a thread's end, waits for releases.
pub(crate) const DRAIN: Duration = Duration::from_secs(2);

const ACTIVITY: u64 = 1;
const LEASE: u64 = 1 << 32;

const OPEN: u8 = 0;
const BEGUN: u8 = 1;
const OVER: u8 = 2;

/// How far a client's shutdown is, and what it still waits for.
///
/// Two sides read phase and counts in opposite order: a task that ends the last activity checks
/// for a waiter, and the waiter checks the counts. So all accesses are `SeqCst`.
#[derive(Debug, Default)]
pub(crate) struct Shutdown {
    phase: AtomicU8,
    counts: Counts,
    /// The phase has changed, or nothing is left to wait for.
    changed: Notify,
    has_reported: AtomicBool,
}

/// What a shutdown waits for. Each lease changes it, and asks for the phase: they are apart, so
/// that the phase stays in the caches of all cores.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Counts {
    /// Background work in progress, each an [`ACTIVITY`], and leases that the
    /// store may still have, each a [`LEASE`]. Who waits reads both at once: a lease on its way to
    /// the next task is now the one and now the other.
    left: AtomicU64,
    /// Acquisitions in progress. Each ends once its task is polled, and that may never be.
    acquiring: AtomicUsize,
    /// Leases released since the shutdown began.
    released: AtomicUsize,
}

/// How many leases [`Locks::shutdown`](crate::Locks::shutdown) released, and how many are
/// left.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let locks = leasehold::Locks::in_memory();
/// let report = locks.shutdown().await;
/// if report.left > 0 {
///     eprintln!("{} locks end with their TTLs: {:?}", report.left, report.left_labels);
/// }
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// How many leases were released since the shutdown began, by their holders or for
    /// them. Idle leases count, too.
    pub released: usize,
    /// How many leases are left and end with their TTLs. Their holders did not drop them,
    /// or the store could not be reached. An acquisition that was given up counts if the store may
    /// have granted it, and did not answer that this is taken back. Leases that were lost before do
    /// not count, except those that a newer run was still waiting for, or that had reached their
    /// `max_hold`, and that were not released.
    pub left: usize,
    /// The labels of what is left, each once, in order.
    pub left_labels: Vec<&'static str>,
}

/// How many labels a line of the log has at most.
const MOST_LABELS: usize = 10;

impl ShutdownReport {
    /// The labels of what is left, for a line of the log.
    pub(crate) fn labels_text(&self) -> String {
        let labels = &self.left_labels;
        let mut text = labels[..labels.len().min(MOST_LABELS)].join(", ");
        if labels.len() > MOST_LABELS {
            text += ", …";
        }
        text
    }
}

impl Shutdown {
    /// Begins the shutdown: nothing is acquired from now on.
    pub(crate) fn begin(&self) {
        let _ = self.phase.compare_exchange(OPEN, BEGUN, Ordering::SeqCst, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Ends the grace period: leases that are still held are lost.
    pub(crate) fn end(&self) {
        self.phase.store(OVER, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.phase.load(Ordering::SeqCst) != OPEN
    }

    pub(crate) fn is_over(&self) -> bool {
        self.phase.load(Ordering::SeqCst) == OVER
    }

    /// Resolves when the shutdown has begun.
    pub(crate) async fn begun(&self) {
        self.wait_until(Self::has_begun).await;
    }

    /// Resolves when leases that were still held are lost.
    pub(crate) async fn over(&self) {
        self.wait_until(Self::is_over).await;
    }

    /// Resolves when no acquisition, no activity and no lease is left.
    pub(crate) async fn idle(&self) {
        // In this order: what an acquisition leaves begins before it ends.
        let is_idle =
            |it: &Self| it.counts.acquiring.load(Ordering::SeqCst) == 0 && it.is_drained();
        self.wait_until(is_idle).await;
    }

    /// Resolves when no activity and no lease is left.
    pub(crate) async fn drained(&self) {
        self.wait_until(Self::is_drained).await;
    }

    fn is_drained(&self) -> bool {
        self.counts.left.load(Ordering::SeqCst) == 0
    }

    async fn wait_until(&self, condition: impl Fn(&Self) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if condition(self) {
                return;
            }
            changed.await;
        }
    }

    /// Counts a new lease.
    pub(crate) fn lease_begins(&self) {
        self.counts.left.fetch_add(LEASE, Ordering::SeqCst);
    }

    /// Counts a lease out: the store no longer has it. `by_release` says whether a release
    /// ended it.
    pub(crate) fn lease_ends(&self, by_release: bool) {
        let is_counted = self.counts.left.load(Ordering::SeqCst) >= LEASE;
        debug_assert!(is_counted, "a lease is counted out twice");
        if by_release {
            self.note_release();
        }
        self.counts.left.fetch_sub(LEASE, Ordering::SeqCst);
        self.wake_if_drained();
    }

    /// Counts a lease as released, if the shutdown has begun.
    pub(crate) fn note_release(&self) {
        if self.has_begun() {
            self.counts.released.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Counts a new activity.
    pub(crate) fn activity_begins(&self) {
        self.counts.left.fetch_add(ACTIVITY, Ordering::SeqCst);
    }

    /// Counts an activity out.
    pub(crate) fn activity_ends(&self) {
        let before = self.counts.left.fetch_sub(ACTIVITY, Ordering::SeqCst);
        debug_assert!(before % LEASE >= ACTIVITY, "an activity is counted out twice");
        self.wake_if_drained();
    }

    /// Wakes `drained` if no activity and no lease is left.
    fn wake_if_drained(&self) {
        if self.has_begun() && self.is_drained() {
            self.changed.notify_waiters();
        }
    }

    /// Returns true once.
    pub(crate) fn is_first_report(&self) -> bool {
        !self.has_reported.swap(true, Ordering::SeqCst)
    }

    /// Reports the leases.
    pub(crate) fn report(&self) -> ShutdownReport {
        let released = self.counts.released.load(Ordering::SeqCst);
        let leases = self.counts.left.load(Ordering::SeqCst) / LEASE;
        let left = usize::try_from(leases).unwrap_or(usize::MAX);
        ShutdownReport { released, left, left_labels: Vec::new() }
    }
}

/// An acquisition in progress, from its creation to its drop.
#[derive(Debug)]
pub(crate) struct AcquiringGuard(Arc<Shutdown>);

impl AcquiringGuard {
    pub(crate) fn new(shutdown: &Arc<Shutdown>) -> Self {
        shutdown.counts.acquiring.fetch_add(1, Ordering::SeqCst);
        Self(shutdown.clone())
    }
}

impl Drop for AcquiringGuard {
    fn drop(&mut self) {
        self.0.counts.acquiring.fetch_sub(1, Ordering::SeqCst);
        self.0.wake_if_drained();
    }
}

/// An activity that a shutdown waits for, from its creation to its drop.
#[derive(Debug)]
pub(crate) struct ActivityGuard(Arc<Shutdown>);

impl ActivityGuard {
    pub(crate) fn new(shutdown: &Arc<Shutdown>) -> Self {
        shutdown.activity_begins();
        Self(shutdown.clone())
    }
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        self.0.activity_ends();
    }
}
