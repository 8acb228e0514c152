//! Leases in memory: each is looked after on the runtime it was acquired on, by whose
//! clock it lives, and ends with it.
//!
//! Most end before they are due for the first time, and cost a place in a timetable. Only
//! what is due has a task of its own from then on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;
use tokio::time::sleep_until;

use super::jobs::Gate;
use super::renew;
use super::timetable::{Timetable, slot_of};
use crate::state::lease::LocalLease;
use crate::state::shutdown::Shutdown;
use crate::store::{RequestId, Store};

/// How many leases one look takes out at a time.
const AT_ONCE: usize = 100;

/// The leases of a client, runtime by runtime. It does not keep the client.
#[derive(Debug)]
pub(super) struct OnRuntime {
    store: Arc<dyn Store>,
    gate: Gate,
    shutdown: Arc<Shutdown>,
    /// Makes slots and watches, which are never the same.
    numbers: AtomicU64,
    watches: Mutex<Vec<Watch>>,
    /// Those that have a task of their own, by its number.
    tended: Mutex<BTreeMap<u64, Arc<LocalLease>>>,
}

/// What a runtime's task looks at.
#[derive(Debug)]
struct Watch {
    number: u64,
    runtime: Id,
    timetable: Timetable,
    /// There is something to do sooner than the task knew.
    changed: Arc<Notify>,
}

impl OnRuntime {
    pub(super) fn new(store: Arc<dyn Store>, gate: Gate, shutdown: Arc<Shutdown>) -> Self {
        let (watches, tended) = (Mutex::default(), Mutex::default());
        Self { store, gate, shutdown, numbers: AtomicU64::new(0), watches, tended }
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn watches(&self) -> MutexGuard<'_, Vec<Watch>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tended(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<LocalLease>>> {
        self.tended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lease of a request, if it is looked after.
    pub(super) fn find(&self, id: RequestId) -> Option<Arc<LocalLease>> {
        let later = self.watches().iter().find_map(|watch| watch.timetable.find(id));
        later.or_else(|| self.tended().values().find(|local| local.request.id == id).cloned())
    }

    /// Looks after a lease from now on, on the runtime of whoever calls.
    pub(super) fn schedule(self: &Arc<Self>, local: &Arc<LocalLease>, when: Instant) {
        let Ok(runtime) = Handle::try_current() else { return };
        // It is to be confirmed at once.
        if local.is_offer() {
            drop(runtime.spawn(self.tend(local.clone(), when)));
            return;
        }
        let (id, slot) = (runtime.id(), (when, self.number()));
        let mut begun = None;
        let mut watches = self.watches();
        let runner = watches.iter().position(|watch| watch.runtime == id).unwrap_or_else(|| {
            let (number, changed) = (self.number(), Arc::<Notify>::default());
            begun = Some((number, changed.clone()));
            let timetable = Timetable::default();
            watches.push(Watch { number, runtime: id, timetable, changed });
            watches.len() - 1
        });
        let watch = &mut watches[runner];
        let sooner = watch.timetable.put_in(local, slot).then(|| watch.changed.clone());
        // On a runtime that ends, the task is dropped at once, which needs the lock.
        drop(watches);
        if let Some(changed) = sooner {
            changed.notify_one();
        }
        if let Some((number, changed)) = begun {
            let over = Over { on_runtime: self.clone(), number };
            runtime.spawn(look(over, changed));
        }
    }

    /// Looks after a lease no more.
    pub(super) fn unschedule(&self, local: &LocalLease) {
        let mut watches = self.watches();
        if let Some(slot) = slot_of(local).take() {
            // Wherever its guard is dropped.
            let taken = watches.iter_mut().find_map(|watch| watch.timetable.take_out(slot));
            drop((watches, taken));
        }
    }

    /// The client has ended: a task that has nothing to look after goes with it.
    pub(super) fn end(&self) {
        let all: Vec<_> = self.watches().iter().map(|watch| watch.changed.clone()).collect();
        for changed in all {
            changed.notify_one();
        }
    }

    /// Takes out the leases of a watch that are due, and says when it is to look again:
    /// never if it has none left, and then it is gone.
    fn due(&self, number: u64) -> (Vec<Arc<LocalLease>>, Option<Instant>) {
        let mut watches = self.watches();
        let runner = watches.iter().position(|watch| watch.number == number);
        let Some(runner) = runner else { return (Vec::new(), None) };
        let timetable = &mut watches[runner].timetable;
        let due = timetable.due(self.store.now(), AT_ONCE);
        let next = timetable.next(false);
        if next.is_none() {
            watches.swap_remove(runner);
        }
        (due, next)
    }

    /// Looks after a lease for as long as it is held.
    fn tend(
        self: &Arc<Self>,
        local: Arc<LocalLease>,
        first: Instant,
    ) -> impl Future<Output = ()> + use<> {
        let (store, gate) = (self.store.clone(), self.gate.clone());
        let tended = Tended { on_runtime: self.clone(), number: self.number() };
        self.tended().insert(tended.number, local.clone());
        let tend = renew::tend_until_over(store, gate, self.shutdown.clone(), local, first);
        async move {
            let _tended = tended;
            tend.await;
        }
    }
}

/// Gives each lease that is due a task of its own, until there is none left. One a
/// runtime, and started again when there is one: so none stays that has nothing to do.
async fn look(over: Over, changed: Arc<Notify>) {
    let on_runtime = &over.on_runtime;
    loop {
        let (due, next) = on_runtime.due(over.number);
        for local in due {
            tokio::spawn(on_runtime.tend(local, on_runtime.store.now()));
        }
        let Some(next) = next else { return };
        tokio::select! {
            () = changed.notified() => {}
            () = sleep_until(next.into()) => {}
        }
    }
}

/// Ends the entry of a lease with its task.
struct Tended {
    on_runtime: Arc<OnRuntime>,
    number: u64,
}

impl Drop for Tended {
    fn drop(&mut self) {
        let local = self.on_runtime.tended().remove(&self.number);
        // What else goes with it may need the lock.
        drop(local);
    }
}

/// Ends a watch when its task is dropped with its runtime.
struct Over {
    on_runtime: Arc<OnRuntime>,
    number: u64,
}

impl Drop for Over {
    fn drop(&mut self) {
        let mut watches = self.on_runtime.watches();
        let runner = watches.iter().position(|watch| watch.number == self.number);
        let gone = runner.map(|runner| watches.swap_remove(runner));
        // What else goes with its leases may need the lock.
        drop((watches, gone));
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
        super::Handle::current().metrics().num_alive_tasks()
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
