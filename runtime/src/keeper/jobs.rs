//! What all jobs of a client share: its store, what its shutdown counts, and the limits of their commands.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::pending_releases::{Ends, PendingRelease, PendingReleases};
use crate::core::key::LockKey;
use crate::core::panics::caught;
use crate::core::repeats::Repeating;
use crate::core::sync::lock;
use crate::core::timers::runtime_with_timers;
use crate::state::lease::LocalLease;
use crate::state::shutdown::{ActivityGuard, Shutdown, ShutdownReport};
use crate::store::Store;

/// Work that runs once.
pub(crate) type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How many commands of jobs are in flight at a time. All at once would take the server longer
/// than a command may take, and fail together. A job that pauses before a retry does not count.
const MAX_COMMANDS: usize = 128;

/// What all jobs of a client share.
#[derive(Debug)]
pub(crate) struct Jobs {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) shutdown: Arc<Shutdown>,
    pub(crate) releases: Arc<PendingReleases>,
    pub(super) commands: Semaphore,
    pub(super) repeating: Repeating,
    /// The leases that the shutdown has taken from their holders.
    taken: Mutex<Vec<Weak<LocalLease>>>,
}

impl Jobs {
    pub(crate) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            store,
            shutdown: Arc::default(),
            releases: Arc::default(),
            commands: Semaphore::new(MAX_COMMANDS),
            repeating: Repeating::default(),
            taken: Mutex::default(),
        })
    }

    /// Ends the time of grace of a shutdown for these leases.
    pub(super) fn end_grace(&self, leases: &[Arc<LocalLease>]) {
        lock(&self.taken).extend(leases.iter().map(Arc::downgrade));
        self.shutdown.end();
    }

    /// Reports what the store may still have of this client. These leases are handled by the keeper.
    pub(super) fn report(&self, leases: &[Arc<LocalLease>]) -> ShutdownReport {
        let mut report = self.shutdown.report();
        let (requests, mut labels) = self.releases.left();
        report.left += requests;
        let taken: Vec<_> = lock(&self.taken).iter().filter_map(Weak::upgrade).collect();
        let left = leases.iter().chain(&taken).filter(|local| !local.is_counted_out());
        labels.extend(left.map(|local| local.request.key.log_label()));
        report.left_labels = labels.into_iter().collect();
        report
    }

    /// Counts a job that ends the client's hold on a lock: a shutdown waits for it, and the client's next
    /// ask for that lock.
    pub(super) fn begin(&self, key: &LockKey, ends: Ends) -> Counted {
        Counted {
            _pending: self.releases.begin(key, ends),
            _activity: ActivityGuard::new(&self.shutdown),
        }
    }
}

/// A job that a shutdown waits for, until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    _pending: PendingRelease,
    _activity: ActivityGuard,
}

/// Does work after some time, for which nobody waits: not a shutdown, and not the end of the client or
/// of the process. It is lost with the runtime. Jobs call this: on the keeper's runtime, if it has one.
pub(super) fn later(after: Duration, work: impl Future<Output = ()> + Send + 'static) {
    // In memory, a job runs on a caller's runtime, which may have no timers.
    if let Some(runtime) = runtime_with_timers() {
        let work = async move {
            sleep(after).await;
            caught(work).await;
        };
        runtime.spawn(work.boxed());
    }
}
