//! Many tasks add to a number under one lock, in a store that checks their tokens.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{Fence, LockError, Locks, Wait};
use leasehold_tests::waiting::{OwnTime, until, work_for};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The lock.
pub(super) const NAME: &str = "counter";

/// Shorter than a failover, so a lease that is held meanwhile is lost.
const TTL: Duration = Duration::from_secs(1);

const TASKS: usize = 8;

/// Much longer than any task waits.
const SOON: Duration = Duration::from_secs(60);

/// A number that no holder may read or write after a newer holder did. A server that lost its last
/// writes may grant the lock to a second holder. The number stands for any harm that such a holder
/// could do.
#[derive(Default)]
pub(super) struct Resource {
    newest: Option<Fence>,
    number: u64,
    /// The tokens of all holders.
    tokens: HashSet<Fence>,
}

impl Resource {
    pub(super) fn read(&mut self, fence: Fence) -> Option<u64> {
        assert!(self.tokens.insert(fence), "{fence:?} was given twice");
        let is_newest = self.newest <= Some(fence);
        is_newest.then(|| {
            self.newest = Some(fence);
            self.number
        })
    }

    pub(super) fn write(&mut self, fence: Fence, number: u64) -> bool {
        let is_newest = self.newest <= Some(fence);
        if is_newest {
            (self.newest, self.number) = (Some(fence), number);
        }
        is_newest
    }
}

#[derive(Default)]
struct Shared {
    resource: Mutex<Resource>,
    acknowledged: AtomicU64,
    /// The number of grants of each task.
    grants: [AtomicU64; TASKS],
    stop: AtomicBool,
}

/// Eight tasks of some clients that add to the number until they are stopped.
pub(super) struct Counter {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

impl Counter {
    /// Starts the tasks, and waits until they work.
    pub(super) async fn start(url: &str) -> Self {
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(Locks::connect(url).await.unwrap());
        }
        let (shared, mut tasks) = (Arc::<Shared>::default(), JoinSet::new());
        for (task, locks) in (0..TASKS).zip(clients.iter().cycle()) {
            tasks.spawn(add(shared.clone(), locks.clone(), task));
        }
        let counter = Self { shared, tasks };
        counter.goes_on(100).await;
        counter
    }

    fn grants(&self) -> [u64; TASKS] {
        self.shared.grants.each_ref().map(|grants| grants.load(Ordering::SeqCst))
    }

    /// Waits for this many more grants. Returns how long that took.
    pub(super) async fn goes_on(&self, times: u64) -> Duration {
        let (time, before) = (OwnTime::begin(), self.grants().iter().sum::<u64>());
        until("somebody is granted the lock", async || {
            self.grants().iter().sum::<u64>() >= before + times
        })
        .await;
        time.passed()
    }

    /// Waits until each task was granted the lock once more.
    pub(super) async fn all_are_served(&self) {
        let before = self.grants();
        until("everybody is served", async || {
            self.grants().iter().zip(before).all(|(now, before)| *now > before)
        })
        .await;
    }

    /// Waits until another update is accepted.
    pub(super) async fn grows(&self) {
        let acknowledged = || self.shared.acknowledged.load(Ordering::SeqCst);
        let before = acknowledged();
        until("tokens go on where they were", async || acknowledged() > before).await;
    }

    /// Stops the tasks. Checks that the number has all acknowledged updates and no others.
    pub(super) async fn end_exact(mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        while let Some(ended) = timeout(SOON, self.tasks.join_next()).await.expect("they end") {
            ended.unwrap();
        }
        let acknowledged = self.shared.acknowledged.load(Ordering::SeqCst);
        assert_eq!(self.shared.resource.lock().unwrap().number, acknowledged);
        assert!(acknowledged > 0);
    }
}

async fn add(shared: Arc<Shared>, locks: Locks, task: usize) {
    let mutex = locks.mutex(NAME).ttl(TTL).wait(Wait::Forever);
    while !shared.stop.load(Ordering::SeqCst) {
        let lease = mutex.lock().await.unwrap();
        shared.grants[task].fetch_add(1, Ordering::SeqCst);
        if let Ok(fence) = lease.fence() {
            let read = shared.resource.lock().unwrap().read(fence);
            work_for(Duration::from_millis(1)).await;
            if let Some(number) = read
                && shared.resource.lock().unwrap().write(fence, number + 1)
            {
                shared.acknowledged.fetch_add(1, Ordering::SeqCst);
            }
        }
        match lease.release().await {
            // The lease ended, or no server answers. Both are part of a failover.
            Ok(_) | Err(LockError::Lost { .. } | LockError::Store { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}
