//! Where a keeper runs.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::task::coop::unconstrained;

use super::jobs::Job;
use super::on_runtime::RuntimeKeeper;
#[cfg(feature = "redis")]
use super::{state, thread};
use crate::core::key::LockKey;
#[cfg(feature = "redis")]
use crate::core::panics::caught;
use crate::core::timers::runtime_with_timers;
use crate::state::lease::LocalLease;

#[derive(Clone, Debug)]
pub(super) enum Executor {
    /// On the callers' runtimes.
    OnRuntime(Arc<RuntimeKeeper>),
    /// On its own thread.
    #[cfg(feature = "redis")]
    Thread(Arc<state::KeeperState>, Handle),
}

impl Executor {
    /// Runs a task that needs timers. False where there is no runtime for it.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        let runtime = match self {
            Self::OnRuntime(_) => runtime_with_timers(),
            #[cfg(feature = "redis")]
            Self::Thread(_, runtime) => Some(runtime.clone()),
        };
        runtime.map(|runtime| runtime.spawn(task.boxed())).is_some()
    }

    /// Runs a job. The end of the process waits for it.
    pub(super) fn run(&self, job: Job) {
        match self {
            Self::OnRuntime(_) => run_here(job),
            #[cfg(feature = "redis")]
            Self::Thread(shared, _) => {
                shared.push(job);
                thread::drain_at_exit(shared);
            }
        }
    }

    /// The same for a job that nobody waits for.
    pub(super) fn run_beside(&self, job: Job) {
        match self {
            Self::OnRuntime(_) => run_here(job),
            #[cfg(feature = "redis")]
            Self::Thread(_, runtime) => {
                runtime.spawn(async move { _ = caught(job).await }.boxed());
            }
        }
    }

    /// The leases that are handled.
    pub(super) fn leases(&self) -> Vec<Arc<LocalLease>> {
        match self {
            Self::OnRuntime(on_runtime) => on_runtime.leases(),
            #[cfg(feature = "redis")]
            Self::Thread(shared, _) => shared.leases(),
        }
    }

    /// Returns true if a lease of this lock is handled. It looks at 1,000 at most.
    pub(super) fn has_lease_of(&self, key: &LockKey) -> bool {
        match self {
            Self::OnRuntime(on_runtime) => on_runtime.has_lease_of(key),
            #[cfg(feature = "redis")]
            Self::Thread(shared, _) => shared.agenda().timetable.has_lease_of(key),
        }
    }
}

/// Runs a job on the caller's runtime. One that ends in one step needs no runtime: that may be gone.
fn run_here(mut job: Job) {
    let mut context = Context::from_waker(Waker::noop());
    // It must also run if its task has no budget left.
    let first = pin!(unconstrained(job.as_mut())).poll(&mut context);
    if let Poll::Pending = first
        && let Ok(runtime) = Handle::try_current()
    {
        runtime.spawn(job);
    }
}
