//! The keeper: it renews a client's leases, and sends the releases and cancels that callers
//! left unfinished. Each client has one.
//!
//! Over Redis it has its own thread, which also drives all connections. So renewals go on while
//! the caller's runtime is blocked, and releases are sent after that runtime is gone. In memory
//! each lease is renewed on the runtime that acquired it, by that runtime's clock.

mod executor;
mod jobs;
mod loss;
mod offer;
mod on_hints;
mod on_runtime;
mod pending_releases;
mod release;
mod renew;
#[cfg(feature = "redis")]
mod state;
#[cfg(feature = "redis")]
mod thread;
mod timetable;
mod to_cancel;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use self::executor::Executor;
pub(crate) use self::jobs::Counted;
use self::jobs::{Job, Jobs};
pub(crate) use self::loss::{loss_reason, report_late_loss};
use self::on_runtime::RuntimeKeeper;
pub(crate) use self::pending_releases::Earlier;
use self::pending_releases::{Ends, PendingReleases};
use self::release::Cancelled;
pub(crate) use self::release::{UnknownOutcome, late};
pub(crate) use self::renew::{RenewOutcome, renew};
#[cfg(feature = "redis")]
pub(crate) use self::thread::Thread;
pub(crate) use self::to_cancel::ToCancel;
use crate::core::error::LossReason;
use crate::core::key::LockKey;
use crate::core::timers::runtime_with_timers;
use crate::state::lease::{LocalLease, Slot};
use crate::state::shutdown::{Shutdown, ShutdownReport};
use crate::store::{Answer, Store, StoreError, StoreFuture};

/// A handle to a client's keeper. All clones share one keeper.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    jobs: Arc<Jobs>,
    pub(crate) shutdown: Arc<Shutdown>,
    pub(crate) releases: Arc<PendingReleases>,
    executor: Executor,
}

impl Keeper {
    /// A keeper on its callers' runtimes.
    pub(crate) fn on_callers_runtime(store: Arc<dyn Store>) -> Self {
        let jobs = Jobs::new(store);
        let on_runtime = RuntimeKeeper::new(jobs.clone());
        Self::new(jobs, Executor::OnRuntime(Arc::new(on_runtime)))
    }

    /// A keeper on its own thread.
    #[cfg(feature = "redis")]
    pub(crate) fn on(
        thread: Thread,
        store: Arc<dyn Store>,
        info: crate::store::ClientInfo,
    ) -> Self {
        let jobs = Jobs::new(store);
        let shared = Arc::new(state::KeeperState::new(jobs.clone()));
        let runtime = thread.runtime();
        thread.run_keeper(shared.clone(), info);
        thread::drain_at_exit(&shared);
        Self::new(jobs, Executor::Thread(shared, runtime))
    }

    fn new(jobs: Arc<Jobs>, executor: Executor) -> Self {
        let (shutdown, releases) = (jobs.shutdown.clone(), jobs.releases.clone());
        Self { jobs, shutdown, releases, executor }
    }

    /// Fails in a process that was forked off. The keeper's thread is not in it, and mutexes
    /// that the thread had locked stay locked. So every operation that needs the keeper asks
    /// this first.
    #[cfg_attr(not(feature = "redis"), expect(clippy::unused_self, clippy::unnecessary_wraps))]
    pub(crate) fn check_not_forked(&self) -> Result<(), StoreError> {
        #[cfg(feature = "redis")]
        if self.is_forked() {
            return Err(thread::forked_error());
        }
        Ok(())
    }

    /// Returns true in a process that was forked off. What is dropped there is a copy, and the
    /// original is the parent's.
    pub(crate) fn is_forked(&self) -> bool {
        match &self.executor {
            Executor::OnRuntime(_) => false,
            #[cfg(feature = "redis")]
            Executor::Thread(shared, _) => !shared.is_here(),
        }
    }

    /// Runs a task that needs timers. False where there is no runtime for it.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        self.executor.spawn(task)
    }

    /// Waits for `work`, for at most `limit`. Outside of a runtime with timers it waits by the
    /// thread's; without a thread, not at all.
    pub(crate) async fn within(&self, limit: Duration, work: impl Future<Output = ()>) {
        let is_timed = runtime_with_timers().is_some();
        let over = async {
            match &self.executor {
                _ if is_timed => sleep(limit).await,
                Executor::OnRuntime(_) => {}
                // In a task: a timer whose runtime has ended must not be polled.
                #[cfg(feature = "redis")]
                Executor::Thread(_, runtime) => {
                    let _ = runtime.spawn(async move { sleep(limit).await }).await;
                }
            }
        };
        tokio::select! { biased; () = work => {}, () = over => {} }
    }

    /// Begins the shutdown: nothing is acquired from now on, and what is to be repeated is repeated now.
    pub(crate) fn begin_shutdown(&self) {
        self.shutdown.begin();
        self.jobs.repeating.hurry();
    }

    /// Ends the time of grace: leases that are still held are lost.
    pub(crate) fn end_grace(&self) {
        self.jobs.end_grace(&self.executor.leases());
    }

    /// Reports what is left. The end of the process does not wait for that again.
    pub(crate) fn report(&self) -> ShutdownReport {
        #[cfg(feature = "redis")]
        if let Executor::Thread(shared, _) = &self.executor {
            shared.note_shutdown();
        }
        self.jobs.report(&self.executor.leases())
    }

    /// Handles a lease from now on, first at `first`: renews it, and ends it at its `max_hold`.
    /// `place` is the entry of the timetable that the lease before has left to it.
    pub(crate) fn watch(&self, local: &Arc<LocalLease>, first: Instant, place: Option<Slot>) {
        match &self.executor {
            Executor::OnRuntime(on_runtime) => {
                debug_assert!(place.is_none(), "see `leave_place`");
                on_runtime.schedule(local, first);
            }
            #[cfg(feature = "redis")]
            Executor::Thread(shared, _) => {
                shared.schedule(local, first, place);
                thread::drain_at_exit(shared);
            }
        }
    }

    /// Stops handling a lease that has ended.
    pub(crate) fn forget(&self, local: &LocalLease) {
        match &self.executor {
            Executor::OnRuntime(on_runtime) => on_runtime.unschedule(local),
            #[cfg(feature = "redis")]
            Executor::Thread(shared, _) => shared.unschedule(local),
        }
    }

    /// Returns true if a lease of this lock is handled. It looks at 1,000 at most.
    pub(crate) fn has_lease_of(&self, key: &LockKey) -> bool {
        self.executor.has_lease_of(key)
    }

    /// Stops handling a lease that has ended, and leaves its place to the next lease of its turn.
    /// `None`, and nothing has happened, if it has no place to leave.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables))]
    pub(crate) fn leave_place(&self, local: &LocalLease) -> Option<Slot> {
        match &self.executor {
            Executor::OnRuntime(_) => None,
            #[cfg(feature = "redis")]
            Executor::Thread(..) => timetable::slot_of(local).take(),
        }
    }

    /// Gives up a place that no lease has taken. A copy of it in a process that was forked off
    /// is no place.
    pub(crate) fn give_up_place(&self, place: Slot) {
        if self.is_forked() {
            return;
        }
        match &self.executor {
            Executor::OnRuntime(_) => debug_assert!(false, "{place:?}: see `leave_place`"),
            #[cfg(feature = "redis")]
            Executor::Thread(shared, _) => shared.give_up(place),
        }
    }

    /// Releases a lease in the background. If it was held to its end, the rest of
    /// `hold_at_least` stays.
    pub(crate) fn release_later(&self, local: &Arc<LocalLease>, was_held: bool) {
        // The other threads may have held locks at the moment of the fork.
        if !self.is_forked() {
            self.release_as(self.begin_release(&local.request.key), local, was_held);
        }
    }

    /// Notes that a command begins that gives a lease back.
    pub(crate) fn begin_release(&self, key: &LockKey) -> Counted {
        self.jobs.begin(key, Ends::Lease)
    }

    /// The same as [`release_later`](Self::release_later), for a lease that is being given back already,
    /// by another command.
    pub(crate) fn release_as(&self, counted: Counted, local: &Arc<LocalLease>, was_held: bool) {
        self.run(release::release_as(self.jobs.clone(), counted, local.clone(), was_held));
    }

    /// Completes a lease in the background: its work has succeeded.
    pub(crate) fn complete_later(&self, local: &Arc<LocalLease>) {
        // The other threads may have held locks at the moment of the fork.
        if self.is_forked() {
            return;
        }
        self.run(release::complete(self.jobs.clone(), local.clone()));
    }

    /// Cancels the request of an ended lease, if an ask of it got no answer.
    pub(crate) fn cancel_late_grant(&self, local: &Arc<LocalLease>) {
        if local.unanswered_since().is_some() {
            let (jobs, local) = (self.jobs.clone(), local.clone());
            self.run_beside(Box::pin(async move { release::cancel_late_grant(jobs, local) }));
        }
    }

    /// Finds out in the background how a lease was lost, and marks it lost.
    pub(crate) fn report_loss_later(&self, local: &Arc<LocalLease>, reason: LossReason) {
        self.run_beside(loss::report_loss_job(self.jobs.store.clone(), local.clone(), reason));
    }

    /// Cancels acquisitions in the background, after the command that is still in flight.
    pub(crate) fn cancel_later(
        &self,
        requests: Vec<ToCancel>,
        in_flight: Option<StoreFuture<Answer>>,
        outcome: UnknownOutcome,
    ) {
        // The other threads may have held locks at the moment of the fork.
        if self.is_forked() {
            return;
        }
        let cancelled = Cancelled { requests, in_flight, outcome };
        self.run(release::cancel(self.jobs.clone(), cancelled));
    }

    /// Runs a job in the background. The end of the process waits for it, within a limit. Not in a
    /// process that was forked off.
    pub(crate) fn run(&self, job: Job) {
        if !self.is_forked() {
            self.executor.run(job);
        }
    }

    /// The same for a job that frees no lock: nobody waits for it.
    fn run_beside(&self, job: Job) {
        if !self.is_forked() {
            self.executor.run_beside(job);
        }
    }

    /// Names the work for the end of the process. It must not log.
    #[cfg_attr(not(feature = "redis"), expect(clippy::unused_self))]
    pub(crate) fn set_at_exit(&self, work: impl Fn() + Send + Sync + 'static) {
        #[cfg(feature = "redis")]
        if let Executor::Thread(shared, _) = &self.executor {
            let _ = shared.at_exit.set(state::AtExit(Box::new(work)));
        }
        #[cfg(not(feature = "redis"))]
        let _ = work;
    }

    /// Ends the keeper once it has finished its work. No more comes.
    pub(crate) fn end(&self) {
        if self.is_forked() {
            return;
        }
        match &self.executor {
            Executor::OnRuntime(on_runtime) => on_runtime.end(),
            #[cfg(feature = "redis")]
            Executor::Thread(shared, _) => shared.end(),
        }
    }
}
