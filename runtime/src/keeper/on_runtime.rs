//! A keeper on its callers' runtimes, for leases in memory. A lease is handled on the runtime
//! that acquired it, and is no longer handled when that runtime ends.
//!
//! Most leases end before they are first due; those cost an entry in a timetable. A lease that
//! becomes due has a task of its own from then on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use futures_util::FutureExt;
use tokio::runtime::Id;
use tokio::sync::Notify;
use tokio::time::sleep_until;

use super::jobs::Jobs;
use super::renew;
use super::timetable::{Timetable, slot_of};
use crate::core::lock_key::LockKey;
use crate::core::sync::lock;
use crate::core::timers::runtime_with_timers;
use crate::state::lease::LocalLease;
use crate::store::RequestId;

/// How many leases are taken out of a timetable at a time.
const MAX_DUE_AT_ONCE: usize = 100;

/// The leases of a client, by runtime. It does not keep the client alive.
#[derive(Debug)]
pub(super) struct RuntimeKeeper {
    jobs: Arc<Jobs>,
    /// Numbers slots, timetables and tasks.
    numbers: AtomicU64,
    timetables: Mutex<Vec<RuntimeTimetable>>,
    /// The leases that have a task of their own, by the task's number.
    with_task: Mutex<BTreeMap<u64, Arc<LocalLease>>>,
}

/// The leases of one runtime that have no task of their own.
#[derive(Debug)]
struct RuntimeTimetable {
    number: u64,
    runtime: Id,
    timetable: Timetable,
    /// An entry is due sooner than its task knew.
    changed: Arc<Notify>,
}

impl RuntimeKeeper {
    pub(super) fn new(jobs: Arc<Jobs>) -> Self {
        let (timetables, with_task) = (Mutex::default(), Mutex::default());
        Self { jobs, numbers: AtomicU64::new(0), timetables, with_task }
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn timetables(&self) -> MutexGuard<'_, Vec<RuntimeTimetable>> {
        lock(&self.timetables)
    }

    fn with_task(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<LocalLease>>> {
        lock(&self.with_task)
    }

    /// The lease of a request, if it is handled here.
    pub(super) fn find(&self, id: RequestId) -> Option<Arc<LocalLease>> {
        let later = self.timetables().iter().find_map(|entry| entry.timetable.find(id));
        later.or_else(|| self.with_task().values().find(|local| local.request.id == id).cloned())
    }

    /// The leases that are handled here.
    pub(super) fn leases(&self) -> Vec<Arc<LocalLease>> {
        let mut leases: Vec<_> = self.with_task().values().cloned().collect();
        let timetables = self.timetables();
        leases.extend(timetables.iter().flat_map(|entry| entry.timetable.leases()).cloned());
        leases
    }

    pub(super) fn has_lease_of(&self, key: &LockKey) -> bool {
        self.timetables().iter().any(|entry| entry.timetable.has_lease_of(key))
            || self.with_task().values().any(|local| local.request.key == *key)
    }

    /// Handles a lease from now on, on the caller's runtime.
    pub(super) fn schedule(self: &Arc<Self>, local: &Arc<LocalLease>, when: Instant) {
        let Some(runtime) = runtime_with_timers() else { return };
        // An offer is confirmed at once.
        if local.is_offer() {
            drop(runtime.spawn(self.renew_until_over(local.clone(), when).boxed()));
            return;
        }
        let (id, slot) = (runtime.id(), (when, self.number()));
        let mut begun = None;
        let mut timetables = self.timetables();
        let at = timetables.iter().position(|entry| entry.runtime == id).unwrap_or_else(|| {
            let (number, changed) = (self.number(), Arc::<Notify>::default());
            begun = Some((number, changed.clone()));
            let timetable = Timetable::default();
            timetables.push(RuntimeTimetable { number, runtime: id, timetable, changed });
            timetables.len() - 1
        });
        let entry = &mut timetables[at];
        let sooner = entry.timetable.put_in(local, slot).then(|| entry.changed.clone());
        // A runtime that is ending drops the task at once, and the task's drop needs the lock.
        drop(timetables);
        if let Some(changed) = sooner {
            changed.notify_one();
        }
        if let Some((number, changed)) = begun {
            let guard = TimetableGuard { keeper: self.clone(), number };
            runtime.spawn(run_timetable(guard, changed).boxed());
        }
    }

    /// Stops handling a lease.
    pub(super) fn unschedule(&self, local: &LocalLease) {
        let mut timetables = self.timetables();
        if let Some(slot) = slot_of(local).take() {
            // Its guard may be dropped on another runtime.
            let taken = timetables.iter_mut().find_map(|entry| entry.timetable.take_out(slot));
            drop((timetables, taken));
        }
    }

    /// Wakes all tasks because the client has ended: a task without leases ends too.
    pub(super) fn end(&self) {
        let all: Vec<_> = self.timetables().iter().map(|entry| entry.changed.clone()).collect();
        for changed in all {
            changed.notify_one();
        }
    }

    /// Takes the due leases out of a timetable, and says when the next is due. A timetable with
    /// none left is removed.
    fn due(&self, number: u64) -> (Vec<Arc<LocalLease>>, Option<Instant>) {
        let mut timetables = self.timetables();
        let at = timetables.iter().position(|entry| entry.number == number);
        let Some(at) = at else { return (Vec::new(), None) };
        let timetable = &mut timetables[at].timetable;
        let due = timetable.due(self.jobs.store.now(), MAX_DUE_AT_ONCE);
        let next = timetable.next(false);
        if next.is_none() {
            timetables.swap_remove(at);
        }
        (due, next)
    }

    /// Starts to handle a lease by itself, until it is over.
    fn renew_until_over(
        self: &Arc<Self>,
        local: Arc<LocalLease>,
        first: Instant,
    ) -> impl Future<Output = ()> + use<> {
        let guard = TaskGuard { keeper: self.clone(), number: self.number() };
        self.with_task().insert(guard.number, local.clone());
        let renewals = renew::renew_until_over(self.jobs.clone(), local, first);
        async move {
            let _guard = guard;
            renewals.await;
        }
    }
}

/// Gives each due lease a task of its own, until the timetable is empty. A runtime has at most
/// one such task; the next lease starts another, so no idle task stays.
async fn run_timetable(guard: TimetableGuard, changed: Arc<Notify>) {
    let keeper = &guard.keeper;
    loop {
        let (due, next) = keeper.due(guard.number);
        for local in due {
            tokio::spawn(keeper.renew_until_over(local, keeper.jobs.store.now()).boxed());
        }
        let Some(next) = next else { return };
        tokio::select! {
            () = changed.notified() => {}
            () = sleep_until(next.into()) => {}
        }
    }
}

/// Removes a lease's entry when its task ends.
struct TaskGuard {
    keeper: Arc<RuntimeKeeper>,
    number: u64,
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        let local = self.keeper.with_task().remove(&self.number);
        // Dropping it may need the lock.
        drop(local);
    }
}

/// Removes a timetable when its task is dropped with its runtime.
struct TimetableGuard {
    keeper: Arc<RuntimeKeeper>,
    number: u64,
}

impl Drop for TimetableGuard {
    fn drop(&mut self) {
        let mut timetables = self.keeper.timetables();
        let at = timetables.iter().position(|entry| entry.number == self.number);
        let gone = at.map(|at| timetables.swap_remove(at));
        // Dropping the leases may need the lock.
        drop((timetables, gone));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::runtime::{Builder, Runtime};
    use tokio::time::sleep;

    use crate::api::locks::Locks;
    use crate::engine::lease::Lease;

    const TTL: Duration = Duration::from_secs(3);

    fn tasks() -> usize {
        tokio::runtime::Handle::current().metrics().num_alive_tasks()
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
    }

    async fn lease(locks: &Locks, name: &str) -> Lease {
        locks.mutex(name).ttl(TTL).lock().await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_has_a_task_once_it_is_due_and_no_task_stays() {
        let locks = Locks::in_memory();
        let mut leases = Vec::new();
        for n in 0..1_000 {
            leases.push(lease(&locks, &n.to_string()).await);
        }
        assert_eq!(tasks(), 1);
        leases.truncate(10);
        sleep(TTL * 3).await;
        assert!(leases.iter().all(Lease::is_held), "they are renewed");
        assert_eq!(tasks(), 10);
        leases.clear();
        sleep(TTL).await;
        assert_eq!(tasks(), 0);
        let again = lease(&locks, "a").await;
        sleep(TTL * 3).await;
        assert!(again.is_held(), "another task looks after it");
    }

    #[tokio::test(start_paused = true)]
    async fn its_task_goes_with_the_client() {
        let locks = Locks::in_memory();
        drop(lease(&locks, "a").await);
        assert_eq!(tasks(), 1);
        drop(locks);
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        assert_eq!(tasks(), 0);
    }

    #[test]
    fn each_runtime_looks_after_its_own() {
        let (locks, stands_still, other) = (Locks::in_memory(), runtime(), runtime());
        let left = stands_still.block_on(lease(&locks, "a"));
        other.block_on(async {
            let lease = lease(&locks, "b").await;
            sleep(TTL * 3).await;
            assert!(lease.is_held());
        });
        drop((stands_still, other, left));
        runtime().block_on(async {
            let lease = lease(&locks, "c").await;
            sleep(TTL * 3).await;
            assert!(lease.is_held());
        });
    }
}
