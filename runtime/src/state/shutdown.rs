//! The end of a client: what it still has on the store, and when all of that is given
//! back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// How long the end of a client, or of a thread, waits for releases.
pub(crate) const DRAIN: Duration = Duration::from_secs(2);

const OPEN: u8 = 0;
const BEGUN: u8 = 1;
const OVER: u8 = 2;

/// How far a client is on its way to its end, and what is in the way.
///
/// Phase and counts are read across each other (who ends the last looks whether somebody
/// waits for that, who waits looks at the counts), so their order is the strict one.
#[derive(Debug, Default)]
pub(crate) struct Shutdown {
    phase: AtomicU8,
    /// Acquisitions and background work that did not end yet.
    activities: AtomicUsize,
    /// Leases of which the store may know yet.
    leases: AtomicUsize,
    /// Leases that were released since it began.
    released: AtomicUsize,
    /// The phase has changed, or nothing is in the way any more.
    changed: Notify,
}

/// What [`Locks::shutdown`](crate::Locks::shutdown) could do, and what not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// How many leases were released since it began, by their holders or for them.
    pub released: usize,
    /// How many are left, and end with their TTLs: their holders did not let go of them,
    /// or the store could not be told. Those that were lost before are not among them.
    pub left: usize,
}

impl Shutdown {
    /// Nothing new is acquired from now on.
    pub(crate) fn begin(&self) {
        let _ = self.phase.compare_exchange(OPEN, BEGUN, Ordering::SeqCst, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// What is still held is lost from now on.
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

    /// Resolves when it has begun.
    pub(crate) async fn begun(&self) {
        self.until(Self::has_begun).await;
    }

    /// Resolves when what is held is lost.
    pub(crate) async fn over(&self) {
        self.until(Self::is_over).await;
    }

    /// Resolves when nothing is in the way.
    pub(crate) async fn drained(&self) {
        self.until(Self::is_drained).await;
    }

    fn is_drained(&self) -> bool {
        self.activities.load(Ordering::SeqCst) == 0 && self.leases.load(Ordering::SeqCst) == 0
    }

    async fn until(&self, condition: impl Fn(&Self) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if condition(self) {
                return;
            }
            changed.await;
        }
    }

    /// A lease was granted.
    pub(crate) fn lease_begins(&self) {
        self.leases.fetch_add(1, Ordering::SeqCst);
    }

    /// The store knows of a lease no more, be it since it was released.
    pub(crate) fn lease_ends(&self, is_released: bool) {
        if is_released && self.has_begun() {
            self.released.fetch_add(1, Ordering::SeqCst);
        }
        self.leases.fetch_sub(1, Ordering::SeqCst);
        self.look();
    }

    /// Wakes who waits until nothing is in the way.
    fn look(&self) {
        if self.has_begun() && self.is_drained() {
            self.changed.notify_waiters();
        }
    }

    pub(crate) fn report(&self) -> ShutdownReport {
        let released = self.released.load(Ordering::SeqCst);
        ShutdownReport { released, left: self.leases.load(Ordering::SeqCst) }
    }
}

/// As long as it lives, the client asks for something, or has something to do.
#[derive(Debug)]
pub(crate) struct ActivityGuard(Arc<Shutdown>);

impl ActivityGuard {
    pub(crate) fn new(shutdown: &Arc<Shutdown>) -> Self {
        shutdown.activities.fetch_add(1, Ordering::SeqCst);
        Self(shutdown.clone())
    }
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        self.0.activities.fetch_sub(1, Ordering::SeqCst);
        self.0.look();
    }
}
