//! The keeper's own thread.

mod at_exit;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

pub(super) use self::at_exit::drain_at_exit;
use super::jobs::later;
use super::state::{Batch, JobGuard, KeeperState};
use super::timetable::slot_of;
use super::{release, renew};
use crate::core::error::{LockError, Outcome, Step};
use crate::core::panics::caught;
use crate::core::repeats::retry_pause;
use crate::state::lease::{LONGEST_SLEEP, LocalLease};
use crate::state::shutdown::DRAIN;
use crate::store::{Ask, CLIENT_KEPT, ClientInfo, StoreError};
use crate::system;

/// How many renewals go in one batch, and how many batches are in flight at a time.
const BATCH_SIZE: usize = 100;
const MAX_BATCHES: usize = 16;

/// The shortest time between two looks at the timetable. Leases that are due within it go
/// together.
const TICK: Duration = Duration::from_millis(5);

/// How often the client's record of itself is written.
const RECORD_INTERVAL: Duration = Duration::from_secs(60);
/// When it is written again after a failure: whoever looks after an outage takes a client that was not
/// heard of for longer than the interval for dead.
const RECORD_AGAIN: Duration = Duration::from_secs(5);

/// A thread with a runtime, waiting for the keeper that it will run.
#[derive(Debug)]
pub(crate) struct Thread {
    runtime: Handle,
    start_keeper: oneshot::Sender<(Arc<KeeperState>, ClientInfo)>,
}

impl Thread {
    /// Starts the thread. It ends if this is dropped unused.
    pub(crate) fn start() -> Result<Self, LockError> {
        let failed = |error: std::io::Error| LockError::Store {
            step: Step::Connect,
            what: "the server: the lock client's thread did not start".to_owned(),
            outcome: Outcome::NotRun,
            is_passing: false,
            cause: Box::new(error),
            label: None,
        };
        let (start_keeper, given) = oneshot::channel();
        let work = async {
            at_exit::wait_for_nobody();
            if let Ok((shared, info)) = given.await {
                run(shared, info).await;
            }
        };
        let runtime = system::in_background(work).map_err(failed)?;
        Ok(Self { runtime, start_keeper })
    }

    /// The runtime that drives the connections.
    pub(crate) fn runtime(&self) -> Handle {
        self.runtime.clone()
    }

    pub(super) fn run_keeper(self, shared: Arc<KeeperState>, info: ClientInfo) {
        // The thread waits for exactly this, so it is there.
        let _ = self.start_keeper.send((shared, info));
    }
}

/// Works until the client has ended, and then finishes its work within a limit.
async fn run(shared: Arc<KeeperState>, info: ClientInfo) {
    let introduction = tokio::spawn(introduce(shared.clone(), info).boxed());
    let ended = async {
        shared.ended.notified().await;
        tokio::time::sleep(DRAIN).await;
        shared.give_up_jobs(shared.last_job());
        // While the jobs are still there.
        shared.tell();
    };
    tokio::select! {
        () = work(&shared) => {}
        () = ended => {}
    }
    introduction.abort();
    shared.close();
}

/// Renews due leases and runs jobs, until the client has ended and all is done.
async fn work(shared: &Arc<KeeperState>) {
    let (mut batches, mut jobs) = (JoinSet::new(), JoinSet::new());
    let mut looked = shared.jobs.store.now();
    loop {
        if let Some(last) = shared.tell() {
            let shared = shared.clone();
            later(DRAIN, async move { shared.take_up(last) });
        }
        let next = {
            let (mut agenda, now) = (shared.agenda(), shared.jobs.store.now());
            if now >= looked + TICK {
                looked = now;
                while batches.len() < MAX_BATCHES
                    && let due = agenda.timetable.due(now, BATCH_SIZE)
                    && !due.is_empty()
                {
                    let batch = shared.begin_batch(&mut agenda, &due);
                    batches.spawn(renew_due(batch, due).boxed());
                }
            }
            for (id, job) in agenda.take_jobs() {
                let done = JobGuard { shared: shared.clone(), id };
                jobs.spawn(
                    async move {
                        let _done = done;
                        caught(job).await;
                    }
                    .boxed(),
                );
            }
            if batches.is_empty() && jobs.is_empty() && agenda.is_over() {
                return;
            }
            // If no more batches may start, the end of one wakes the loop.
            agenda.timetable.next(batches.len() >= MAX_BATCHES)
        };
        let timer = async {
            match next {
                Some(next) => {
                    let left =
                        next.max(looked + TICK).saturating_duration_since(shared.jobs.store.now());
                    tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shared.changed.notified() => {}
            () = timer => {}
            Some(_) = batches.join_next() => {}
            Some(_) = jobs.join_next() => {}
        }
    }
}

/// Renews due leases, and puts them into the timetable again.
async fn renew_due(batch: Batch, due: Vec<Arc<LocalLease>>) {
    let (shared, jobs) = (&batch.shared, &batch.shared.jobs);
    let again = |local: &_, when| shared.schedule(local, when, None);
    let release = |local| shared.push(release::release(jobs.clone(), local, true));
    if !caught(renew::renew_due(&jobs.store, due.clone(), again, release)).await {
        for local in due.iter().filter(|local| slot_of(local).is_none()) {
            let soon = jobs.store.now() + retry_pause(local.request.ttl);
            shared.schedule(local, soon, None);
        }
    }
}

/// Writes the client's record of itself to the store, again and again.
async fn introduce(shared: Arc<KeeperState>, info: ClientInfo) {
    loop {
        // As long as a lease that is left behind, or nobody could say whose it is.
        let lasts = CLIENT_KEPT.max(shared.longest_ttl() + 2 * RECORD_INTERVAL);
        let mut pause = RECORD_INTERVAL;
        if let Err(error) = shared.jobs.store.introduce(&info, lasts).await {
            tracing::debug!(error = %error.source, "the client's record of itself was not written");
            pause = RECORD_AGAIN;
        }
        let is_short = async {
            while shared.longest_ttl() + RECORD_INTERVAL <= lasts {
                shared.longer.notified().await;
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = is_short => {}
        }
    }
}

/// The error in a process that was forked off.
pub(super) fn forked_error() -> StoreError {
    let source = "this process was forked, and the lock client's thread is not in it: \
                  connect again in the child";
    StoreError {
        outcome: Outcome::NotRun,
        is_passing: false,
        is_shut_down: false,
        source: source.into(),
    }
}

#[cfg(test)]
mod tests {

    use tokio::time::timeout;

    use super::*;
    use crate::api::locks::Locks;
    use crate::core::error::LossReason;
    use crate::engine::shared::Shared;
    use crate::keeper::Keeper;
    use crate::store::ClientId;
    use crate::store::fault_injection::FaultInjector;
    use crate::store::memory::MemoryStore;

    const TTL: Duration = Duration::from_secs(2);

    /// A client whose keeper runs on this thread.
    fn client(thread: Thread) -> (Locks, Arc<FaultInjector>) {
        let (store, id) =
            (Arc::new(FaultInjector::over(Arc::<MemoryStore>::default())), ClientId::random());
        let keeper = Keeper::on(thread, store.clone(), ClientInfo::of_process(id, None));
        (Locks::new(Shared::new(store.clone(), keeper, id, true)), store)
    }

    /// A task costs more memory than an entry in a timetable.
    #[tokio::test]
    async fn many_leases_cost_no_task_each() {
        let thread = Thread::start().unwrap();
        let runtime = thread.runtime();
        let (locks, _store) = client(thread);
        let mut leases = Vec::new();
        for n in 0..1_000 {
            let mutex = locks.mutex(format!("lock:{n}")).ttl(TTL);
            leases.push(mutex.lock().await.unwrap());
        }
        // Until each has been renewed once; or was lost, on a machine that is too busy for them.
        let mut left: Vec<_> = leases.iter().map(|it| (it, it.remaining())).collect();
        let mut most = 0;
        while !left.is_empty() {
            most = most.max(runtime.metrics().num_alive_tasks());
            tokio::time::sleep(Duration::from_millis(1)).await;
            left.retain_mut(|(lease, last)| {
                let before = std::mem::replace(last, lease.remaining());
                *last <= before && lease.is_held()
            });
        }
        // The task that writes the record, and the batches in flight.
        assert!(most <= 1 + MAX_BATCHES, "{most} tasks");
        assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
    }

    /// The keeper reads the clock often, because timers stop during a suspension. Once its
    /// timers agree with the clock, it goes on by them.
    #[tokio::test]
    async fn a_lease_that_ended_in_a_suspension_is_lost_soon_after_it() {
        const LONG: Duration = Duration::from_secs(3_600);
        let (locks, store) = client(Thread::start().unwrap());
        let lease = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        let unrenewed = locks.mutex("b").ttl(LONG).auto_renew(false).lock().await.unwrap();
        let (handle, other) = (lease.handle(), unrenewed.handle());
        let lost = tokio::spawn(async move { tokio::join!(handle.lost(), other.lost()) });
        // All tasks sleep by now.
        tokio::time::sleep(TTL / 10).await;
        store.suspend(LONG);
        let lost = timeout(Duration::from_secs(30), lost).await.expect("its timers are late");
        assert_eq!(lost.unwrap(), (LossReason::Expired, LossReason::Expired));

        let later = locks.mutex("c").ttl(TTL).lock().await.unwrap();
        let lost = timeout(TTL * 2, later.lost()).await;
        assert!(lost.is_err(), "it is renewed in time: {lost:?}");
    }

    #[cfg(feature = "metrics")]
    mod panics {
        use std::collections::BTreeSet;
        use std::sync::Mutex;

        use metrics::{
            Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
        };

        use super::*;
        use crate::core::sync::lock;

        /// Panics at the first renewal of each of these labels. All tests of this program have it.
        struct PanicsOnce;

        const LABELS: [&str; 2] = ["panics-on-a-thread", "panics-in-memory"];

        static HAVE_PANICKED: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());

        impl Recorder for PanicsOnce {
            fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

            fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

            fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

            fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
                let has = |name: &&&str| key.labels().any(|label| label.value() == **name);
                if key.name() == "leasehold_renewals_total"
                    && let Some(name) = LABELS.iter().find(has)
                {
                    let is_first = lock(&HAVE_PANICKED).insert(name);
                    assert!(!is_first, "as a recorder that is broken");
                }
                Counter::noop()
            }

            fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
                Gauge::noop()
            }

            fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
                Histogram::noop()
            }
        }

        /// Ten leases are held through the panic.
        async fn goes_on(locks: &Locks, label: &'static str) {
            // Another test may have been first.
            let _ = metrics::set_global_recorder(PanicsOnce);
            let mut leases = Vec::new();
            for n in 0..10 {
                let mutex = locks.mutex(format!("lock:{n}")).label(label).ttl(TTL);
                leases.push(mutex.lock().await.unwrap());
            }
            tokio::time::sleep(TTL * 2).await;
            assert!(lock(&HAVE_PANICKED).contains(label));
            let held = leases.iter().filter(|lease| lease.is_held()).count();
            assert_eq!(held, leases.len());
        }

        #[tokio::test]
        async fn a_recorder_that_panics_ends_no_renewal() {
            let (locks, _store) = client(Thread::start().unwrap());
            goes_on(&locks, LABELS[0]).await;
        }

        #[tokio::test(start_paused = true)]
        async fn a_recorder_that_panics_ends_no_renewal_in_memory() {
            goes_on(&Locks::in_memory(), LABELS[1]).await;
        }
    }
}
