//! The keeper's own thread, and what keeps a process from ending before its
//! releases are sent.

use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::state::{Done, KeeperState};
use super::{release, renew};
use crate::core::error::{LockError, Outcome, Step};
use crate::state::lease::{LOOK, LocalLease};
use crate::state::shutdown::{ActivityGuard, DRAIN};
use crate::store::{ClientInfo, Store, StoreError};

/// How many renewals go together, and how many such pipelines are under way at a time.
const TOGETHER: usize = 100;
const PIPELINES: usize = 16;

/// The least time from one look at the timetable to the next: what is due by then goes
/// together.
const TICK: Duration = Duration::from_millis(5);

/// How long a client's record of itself lasts, and how often it is written.
const RECORD: Duration = Duration::from_secs(180);
const RECORD_AGAIN: Duration = Duration::from_secs(60);

/// A thread with a runtime of its own, to which a keeper is still to be given.
#[derive(Debug)]
pub(crate) struct Thread {
    runtime: Handle,
    keep: oneshot::Sender<(Arc<KeeperState>, ClientInfo)>,
}

impl Thread {
    /// Starts the thread. It ends when this is dropped unused.
    pub(crate) fn start() -> Result<Self, LockError> {
        let failed = |error: std::io::Error| LockError::Store {
            step: Step::Connect,
            what: "anything: the keeper's thread did not start".to_owned(),
            outcome: Outcome::NotRun,
            cause: Box::new(error),
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (keep, kept) = oneshot::channel();
        let main = move || {
            runtime.block_on(async {
                if let Ok((shared, info)) = kept.await {
                    run(shared, info).await;
                }
            });
            // What it dropped itself it has not to wait for.
            let _ = AT_EXIT.try_with(|at_exit| at_exit.borrow_mut().0.clear());
        };
        thread::Builder::new().name("leasehold".to_owned()).spawn(main).map_err(failed)?;
        Ok(Self { runtime: handle, keep })
    }

    /// Where connections are to be driven.
    pub(crate) fn runtime(&self) -> Handle {
        self.runtime.clone()
    }

    pub(super) fn keep(self, shared: Arc<KeeperState>, info: ClientInfo) {
        // It ends only when it is given nothing, so it is there.
        let _ = self.keep.send((shared, info));
    }
}

/// Works until the client's end, then finishes what there is, within a bound.
async fn run(shared: Arc<KeeperState>, info: ClientInfo) {
    let introduction = tokio::spawn(introduce(shared.store.clone(), info));
    let ended = async {
        shared.ended.notified().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        () = work(&shared) => {}
        () = ended => {
            let left = shared.drain(Duration::ZERO);
            tracing::warn!(left, "the lock client ended before all was released; the TTLs end the rest");
        }
    }
    introduction.abort();
}

/// Does what is due, until the client has ended and all is done.
async fn work(shared: &Arc<KeeperState>) {
    let (mut pipelines, mut jobs) = (JoinSet::new(), JoinSet::new());
    let mut looked = shared.store.now();
    loop {
        let next = {
            let (mut book, now) = (shared.book(), shared.store.now());
            if now >= looked + TICK {
                looked = now;
                while pipelines.len() < PIPELINES
                    && let due = book.timetable.due(now, TOGETHER)
                    && !due.is_empty()
                {
                    pipelines.spawn(tend(shared.clone(), due));
                }
            }
            for (id, job) in book.take_jobs() {
                let done = Done { shared: shared.clone(), id };
                jobs.spawn(async move {
                    let _done = done;
                    job.await;
                });
            }
            if pipelines.is_empty() && jobs.is_empty() && book.is_over() {
                return;
            }
            // With no room for more, the end of one is what is waited for.
            book.timetable.next(pipelines.len() >= PIPELINES)
        };
        let timer = async {
            match next {
                Some(next) => {
                    let left =
                        next.max(looked + TICK).saturating_duration_since(shared.store.now());
                    tokio::time::sleep(left.min(LOOK)).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shared.changed.notified() => {}
            () = timer => {}
            Some(_) = pipelines.join_next() => {}
            Some(_) = jobs.join_next() => {}
        }
    }
}

/// Looks after leases that are due, and puts them into the timetable again.
async fn tend(shared: Arc<KeeperState>, due: Vec<Arc<LocalLease>>) {
    let again = |local: &_, when| shared.schedule(local, when);
    let over = |local| {
        let (store, gate) = (shared.store.clone(), shared.gate.clone());
        shared.push(release::release(
            store,
            gate,
            local,
            true,
            ActivityGuard::new(&shared.shutdown),
        ));
    };
    renew::tend(&shared.store, due, again, over).await;
}

/// Keeps the client's record of itself on the store.
async fn introduce(store: Arc<dyn Store>, info: ClientInfo) {
    loop {
        if let Err(error) = store.introduce(&info, RECORD).await {
            tracing::debug!(error = %error.source, "the client's record was not written");
        }
        tokio::time::sleep(RECORD_AGAIN).await;
    }
}

/// Why nothing is done in a process that was forked off.
pub(super) fn forked() -> StoreError {
    let source = "this process was forked, and the lock client's thread is not in it: \
                  connect anew in the child";
    StoreError {
        outcome: Outcome::NotRun,
        is_passing: false,
        is_shut_down: false,
        source: source.into(),
    }
}

thread_local! {
    static AT_EXIT: RefCell<AtExit> = const { RefCell::new(AtExit(Vec::new())) };
}

/// Makes the end of this thread wait, within a bound, until the keeper has
/// done the jobs that are there by then.
///
/// A process ends when its main thread does, and the keeper's thread with it:
/// without this, what was dropped just before would stay until its TTL. Every
/// thread that connects, acquires or drops is such a thread.
pub(super) fn drain_at_exit(shared: &Arc<KeeperState>) {
    // Without effect in a thread that is ending already.
    let _ = AT_EXIT.try_with(|at_exit| {
        let keepers = &mut at_exit.borrow_mut().0;
        if !keepers.iter().any(|keeper| keeper.as_ptr() == Arc::as_ptr(shared)) {
            keepers.retain(|keeper| keeper.strong_count() > 0);
            keepers.push(Arc::downgrade(shared));
        }
    });
}

struct AtExit(Vec<Weak<KeeperState>>);

impl Drop for AtExit {
    fn drop(&mut self) {
        let keepers = self.0.drain(..).filter_map(|keeper| keeper.upgrade());
        for keeper in keepers.filter(|keeper| keeper.is_here()) {
            let left = keeper.drain(DRAIN);
            if left > 0 {
                // Whoever logs may use this thread's locals, which are gone: a
                // panic here would abort the process. The keeper's are there.
                keeper.push(Box::pin(async move {
                    tracing::warn!(left, "not all was released in time; the TTLs end the rest");
                }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::time::timeout;

    use super::*;
    use crate::api::locks::Locks;
    use crate::core::error::LossReason;
    use crate::keeper::Keeper;
    use crate::store::ClientId;
    use crate::store::fault_injection::FaultInjector;
    use crate::store::memory::MemoryStore;

    const TTL: Duration = Duration::from_secs(2);

    /// A client with a keeper on this thread.
    fn client(thread: Thread) -> (Locks, Arc<FaultInjector>) {
        let (store, id) =
            (Arc::new(FaultInjector::over(Arc::<MemoryStore>::default())), ClientId::random());
        let keeper = Keeper::on(thread, store.clone(), ClientInfo::of_process(id, None));
        (Locks::new(store.clone(), keeper, id, true), store)
    }

    /// A task costs more than what is known of a lease, and a timer.
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
        let (begun, mut most) = (Instant::now(), 0);
        while begun.elapsed() < TTL {
            most = most.max(runtime.metrics().num_alive_tasks());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(leases.iter().all(crate::engine::lease::Lease::is_held));
        // The introduction, and renewals under way.
        assert!(most <= 1 + PIPELINES, "{most} tasks");
        assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
    }

    /// The keeper looks at the clock often enough, whatever its timers say; and goes on by
    /// them when it is that far ahead.
    #[tokio::test]
    async fn a_lease_that_ended_in_a_suspension_is_lost_soon_after_it() {
        const LONG: Duration = Duration::from_secs(3_600);
        let (locks, store) = client(Thread::start().unwrap());
        let lease = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        let unrenewed = locks.mutex("b").ttl(LONG).auto_renew(false).lock().await.unwrap();
        let (handle, other) = (lease.handle(), unrenewed.handle());
        let lost = tokio::spawn(async move { tokio::join!(handle.lost(), other.lost()) });
        // All sleep by now.
        tokio::time::sleep(TTL / 10).await;
        store.suspend(LONG);
        let lost = timeout(Duration::from_secs(30), lost).await.expect("its timers are late");
        assert_eq!(lost.unwrap(), (LossReason::Expired, LossReason::Expired));

        let later = locks.mutex("c").ttl(TTL).lock().await.unwrap();
        let lost = timeout(TTL * 2, later.lost()).await;
        assert!(lost.is_err(), "it is renewed in time: {lost:?}");
    }
}
