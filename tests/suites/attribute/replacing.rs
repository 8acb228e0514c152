//! A newer call takes the place of an older one.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::{LockError, Locks, LossReason, distributed_lock};
use leasehold_tests::waiting::{until, work_for};
use tokio::time::timeout;

const MINUTE: Duration = Duration::from_secs(60);

static BEGUN: AtomicU32 = AtomicU32::new(0);

#[distributed_lock(key = "index:{of}", replace = true, wait = "1m")]
async fn index(of: &str, lasts: Duration) -> Result<u32, LockError> {
    let nth = BEGUN.fetch_add(1, Ordering::Relaxed);
    work_for(lasts).await;
    Ok(nth)
}

#[tokio::test]
async fn a_newer_call_cancels_the_older_one() {
    let locks = Locks::in_memory();
    let older = tokio::spawn(locks.scope(index("a", MINUTE * 9)));
    until("the older one has begun", async || BEGUN.load(Ordering::Relaxed) > 0).await;
    let newer = timeout(MINUTE, locks.scope(index("a", Duration::ZERO))).await.unwrap();
    assert_eq!(newer.unwrap(), 1);
    let error = older.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LossReason::Replaced, .. }), "{error}");
    assert!(error.to_string().contains("a newer run takes its place"), "{error}");
}
