//! How a test waits: for a condition. Where nothing tells that enough time has gone by, it says why.
//!
//! All real time that tests let go by goes through here. `architecture::waits` refuses every other sleep
//! under a real clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use leasehold::Lease;
use tokio::task::JoinHandle;

/// How often a condition is looked at.
const PAUSE: Duration = Duration::from_millis(2);

/// How long a condition may take to hold. So long that a busy machine does not fail a test.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
///
/// # Panics
///
/// If it does not hold within a minute, with what was waited for.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    until_some(what, async || holds().await.then_some(())).await;
}

/// Waits for a value, and returns it.
///
/// # Panics
///
/// If there is none within a minute, with what was waited for.
pub async fn until_some<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = look().await {
            return value;
        }
        assert!(begun.elapsed() < PATIENCE, "waited for a minute, in vain: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits until a condition holds, and blocks the thread meanwhile.
///
/// # Panics
///
/// If it does not hold within a minute, with what was waited for.
pub fn until_blocking(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited for a minute, in vain: {what}");
        std::thread::sleep(PAUSE);
    }
}

/// Waits until a lease has outlived its first TTL, because it was renewed.
///
/// # Panics
///
/// If it is lost, or is not renewed within a minute.
pub async fn until_outlived(lease: &Lease, ttl: Duration) {
    let (begun, mut last) = (Instant::now(), lease.remaining());
    until("a lease is renewed after its first TTL", async || {
        let left = lease.remaining();
        assert!(!left.is_zero(), "{lease:?} was lost");
        let is_renewed = left > last;
        last = left;
        is_renewed && begun.elapsed() > ttl
    })
    .await;
}

/// Time as this process gets it: a task counts pauses of ten milliseconds. On a busy machine each of
/// them takes longer, and so may what a test compares with them.
#[derive(Debug)]
pub struct OwnTime {
    pauses: Arc<AtomicU32>,
    task: JoinHandle<()>,
}

impl OwnTime {
    const STEP: Duration = Duration::from_millis(10);

    /// Begins to count, on the test's own runtime.
    #[must_use]
    pub fn begin() -> Self {
        let pauses = Arc::new(AtomicU32::new(0));
        let counted = pauses.clone();
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Self::STEP).await;
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { pauses, task }
    }

    /// The pauses that have gone by. On an idle machine it is a little less than the real time.
    #[must_use]
    pub fn passed(&self) -> Duration {
        Self::STEP * self.pauses.load(Ordering::Relaxed)
    }
}

impl Drop for OwnTime {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Takes time, as the work of a holder or the pause of a client does. A load is made of such times; no
/// test waits for something by them.
pub async fn work_for(time: Duration) {
    tokio::time::sleep(time).await;
}

/// The same for work that blocks its thread.
pub fn block_for(time: Duration) {
    std::thread::sleep(time);
}

/// Lets real time go by, where nothing that a test could look at tells that enough of it has: a lease
/// of a real server has outlived its TTL, or something has not happened. Each use is in the list of
/// `architecture::waits`.
///
/// # Panics
///
/// If there is no reason.
pub async fn pass(time: Duration, why: &str) {
    assert!(!why.is_empty(), "say why no condition tells that enough time has gone by");
    tokio::time::sleep(time).await;
}
