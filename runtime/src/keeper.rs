//! One a client: renews its leases, and finishes in the background what its
//! callers left unfinished.
//!
//! Over Redis it runs on a thread of its own, which also drives all
//! connections: renewals go on while the caller's runtime is blocked, and
//! releases are sent when that is gone. In memory each lease is renewed on the
//! runtime it was acquired on, by whose clock it lives.

mod jobs;
mod on_runtime;
mod release;
mod renew;
#[cfg(feature = "redis")]
mod state;
#[cfg(feature = "redis")]
mod thread;
mod timetable;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::coop::unconstrained;
use tokio::time::sleep;

use self::jobs::{Gate, Job};
use self::on_runtime::OnRuntime;
pub(crate) use self::release::Doubt;
pub(crate) use self::renew::{Judged, renew, why};
#[cfg(feature = "redis")]
pub(crate) use self::thread::Thread;
use crate::core::error::LossReason;
use crate::state::lease::LocalLease;
use crate::state::shutdown::{ActivityGuard, Shutdown};
use crate::store::{Request, RequestId, Stamp, Store, StoreError, StoreFuture};

/// A handle to the keeper; a clone is the same one.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    store: Arc<dyn Store>,
    pub(crate) shutdown: Arc<Shutdown>,
    gate: Gate,
    runner: Runner,
}

/// How many commands of jobs are under way at a time.
const AT_ONCE: usize = 128;

/// Where a keeper works.
#[derive(Clone, Debug)]
enum Runner {
    /// On the runtime of whoever calls.
    OnRuntime(Arc<OnRuntime>),
    /// On a thread of its own.
    #[cfg(feature = "redis")]
    Thread(Arc<state::KeeperState>, Handle),
}

impl Runner {
    /// Does a job after a while.
    fn finish_later(self, job: Job, after: Duration) {
        match self {
            Self::OnRuntime(_) => {
                // Outside of a runtime, where a job may begin, nothing can wait.
                if let Ok(runtime) = Handle::try_current() {
                    runtime.spawn(async move {
                        sleep(after).await;
                        job.await;
                    });
                }
            }
            #[cfg(feature = "redis")]
            Self::Thread(shared, _) => shared.push_later(job, after),
        }
    }
}

impl Keeper {
    /// A keeper that works on its callers' runtimes.
    pub(crate) fn on_callers_runtime(store: Arc<dyn Store>) -> Self {
        let (gate, shutdown) = (Arc::new(Semaphore::new(AT_ONCE)), Arc::<Shutdown>::default());
        let on_runtime = OnRuntime::new(store.clone(), gate.clone(), shutdown.clone());
        Self { store, shutdown, gate, runner: Runner::OnRuntime(Arc::new(on_runtime)) }
    }

    /// A keeper that works on a thread of its own.
    #[cfg(feature = "redis")]
    pub(crate) fn on(
        thread: Thread,
        store: Arc<dyn Store>,
        info: crate::store::ClientInfo,
    ) -> Self {
        let shutdown = Arc::<Shutdown>::default();
        let gate = Arc::new(Semaphore::new(AT_ONCE));
        let shared = state::KeeperState::new(store.clone(), gate.clone(), shutdown.clone());
        let (shared, runtime) = (Arc::new(shared), thread.runtime());
        thread.keep(shared.clone(), info);
        thread::drain_at_exit(&shared);
        Self { store, shutdown, gate, runner: Runner::Thread(shared, runtime) }
    }

    /// An error in a process that was forked off: the keeper's thread is not there, and what
    /// it had locked stays so. Asked first by all that needs it.
    #[cfg_attr(not(feature = "redis"), expect(clippy::unused_self, clippy::unnecessary_wraps))]
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        #[cfg(feature = "redis")]
        if let Runner::Thread(shared, _) = &self.runner
            && !shared.is_here()
        {
            return Err(thread::forked());
        }
        Ok(())
    }

    /// Runs a task that goes by the clock. False where there is no runtime for it.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        let runtime = match &self.runner {
            Runner::OnRuntime(_) => Handle::try_current().ok(),
            #[cfg(feature = "redis")]
            Runner::Thread(_, runtime) => Some(runtime.clone()),
        };
        runtime.map(|runtime| runtime.spawn(task)).is_some()
    }

    /// Looks after a lease from now on, for the first time then: renews it, and ends it
    /// when it was held for as long as it may be.
    pub(crate) fn watch(&self, local: &Arc<LocalLease>, first: Instant) {
        match &self.runner {
            Runner::OnRuntime(on_runtime) => on_runtime.schedule(local, first),
            #[cfg(feature = "redis")]
            Runner::Thread(shared, _) => {
                shared.schedule(local, first);
                thread::drain_at_exit(shared);
            }
        }
    }

    /// Looks after a lease no more, since its term is over.
    pub(crate) fn forget(&self, local: &LocalLease) {
        match &self.runner {
            Runner::OnRuntime(on_runtime) => on_runtime.unschedule(local),
            #[cfg(feature = "redis")]
            Runner::Thread(shared, _) => shared.unschedule(local),
        }
    }

    /// Asks whether a request's lease was taken by force, and lets it be lost if so. A hint
    /// has said that it was, which anybody may have sent.
    pub(crate) fn ask_whether_forced(&self, id: RequestId) {
        let local = match &self.runner {
            Runner::OnRuntime(on_runtime) => on_runtime.find(id),
            #[cfg(feature = "redis")]
            Runner::Thread(shared, _) => shared.find(id),
        };
        if let Some(local) = local {
            self.finish(renew::check(self.store.clone(), local));
        }
    }

    /// Lets an offer last for as long as its waiter is known to live.
    pub(crate) fn keep_offer(&self, request: Request, until: Stamp) {
        let store = self.store.clone();
        self.finish(Box::pin(async move {
            if let Err(error) = store.keep_offer(&request, until).await {
                tracing::debug!(key = %request.key, error = %error.source, "an offer was not kept");
            }
        }));
    }

    /// Releases a lease in the background; what was held is kept for the rest of its
    /// least time.
    pub(crate) fn release_later(&self, local: &Arc<LocalLease>, was_held: bool) {
        let (store, gate) = (self.store.clone(), self.gate.clone());
        let activity = ActivityGuard::new(&self.shutdown);
        self.finish(release::release(store, gate, local.clone(), was_held, activity));
    }

    /// Takes a lease that has ended back once more, if its acquisition was in doubt.
    pub(crate) fn end_doubt(&self, local: &Arc<LocalLease>) {
        if local.in_doubt().is_some() {
            let (store, gate) = (self.store.clone(), self.gate.clone());
            let activity = ActivityGuard::new(&self.shutdown);
            self.finish(release::end_doubt(store, gate, local.clone(), activity));
        }
    }

    /// Says how a lease was lost that is not held any more, as soon as that is known.
    pub(crate) fn tell_later(&self, local: &Arc<LocalLease>, reason: LossReason) {
        self.finish(renew::tell_once(self.store.clone(), local.clone(), reason));
    }

    /// Takes acquisitions back in the background, once their command that is still
    /// under way was answered.
    pub(crate) fn cancel_later<T: Send + 'static>(
        &self,
        requests: Vec<Request>,
        in_flight: Option<StoreFuture<T>>,
        doubt: Doubt,
    ) {
        let (store, gate) = (self.store.clone(), self.gate.clone());
        let activity = ActivityGuard::new(&self.shutdown);
        let runner = self.runner.clone();
        let later = move |job, after| runner.finish_later(job, after);
        self.finish(release::cancel(store, gate, requests, in_flight, doubt, activity, later));
    }

    fn finish(&self, mut job: Job) {
        match &self.runner {
            Runner::OnRuntime(_) => {
                // What is done in one step needs no runtime, which may be gone.
                let mut context = Context::from_waker(Waker::noop());
                // Nor a turn of a task that has used up its own.
                let first = pin!(unconstrained(job.as_mut())).poll(&mut context);
                if let Poll::Pending = first
                    && let Ok(runtime) = Handle::try_current()
                {
                    runtime.spawn(job);
                }
            }
            #[cfg(feature = "redis")]
            Runner::Thread(shared, _) => {
                shared.push(job);
                thread::drain_at_exit(shared);
            }
        }
    }

    /// No more work comes; what there is, is finished.
    pub(crate) fn end(&self) {
        if self.check().is_err() {
            return;
        }
        match &self.runner {
            Runner::OnRuntime(on_runtime) => on_runtime.end(),
            #[cfg(feature = "redis")]
            Runner::Thread(shared, _) => shared.end(),
        }
    }
}
