//! A function whose lock stays with its process after a call.

use std::sync::Arc;
use std::time::Duration;

use leasehold::store::memory::MemoryStore;
use leasehold::{Fault, Fence, LockError, Locks, distributed_lock};
use tokio::time::sleep;

const LINGER: Duration = Duration::from_secs(2);

#[distributed_lock(key = "cart:{id}", linger = "2s", lease = lease)]
async fn add(id: u64) -> Result<Fence, LockError> {
    lease.fence()
}

#[distributed_lock(key = "cart:{id}", linger = LINGER, if_held = "skip")]
async fn add_or_skip(id: u64) -> Result<Option<u64>, LockError> {
    Ok(Some(id))
}

#[distributed_lock(key = "reports", permits = 4, weight = weight, linger = "2s")]
async fn build(weight: u32) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "page", mode = "read", linger = "2s")]
async fn show() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "page", mode = "write", linger = "2s", lease = lease)]
async fn change() -> Result<Fence, LockError> {
    lease.fence()
}

/// The number of idle leases that a lock has.
async fn idle(locks: &Locks, name: &str) -> usize {
    let holders = locks.inspect(name).await.unwrap().holders;
    assert!(holders.iter().all(|holder| holder.may_be_idle), "{holders:?}");
    holders.len()
}

#[tokio::test(start_paused = true)]
async fn the_next_call_needs_no_store_and_has_a_token_of_its_own() {
    let (locks, faults) = Locks::in_memory_with_faults();
    let mut last = locks.scope(add(1)).await.unwrap();
    faults.always(Fault::Unreachable);
    for _ in 0..20 {
        let fence = locks.scope(add(1)).await.unwrap();
        assert!(fence > last, "{fence} after {last}");
        last = fence;
    }
    let error = locks.scope(add(2)).await.unwrap_err();
    assert!(matches!(error, LockError::Store { .. }), "another key: {error}");
    faults.heal();
    assert_eq!(idle(&locks, "cart:1").await, 1);
    sleep(LINGER + Duration::from_secs(1)).await;
    assert_eq!(idle(&locks, "cart:1").await, 0);
}

#[tokio::test(start_paused = true)]
async fn permits_of_each_weight_stay() {
    let (locks, faults) = Locks::in_memory_with_faults();
    locks.scope(build(3)).await.unwrap();
    faults.always(Fault::Unreachable);
    locks.scope(build(3)).await.unwrap();
    faults.heal();
    assert_eq!(locks.inspect("reports").await.unwrap().holders[0].weight, 3);
    // Another weight has to be asked for. The idle permit makes room.
    locks.scope(build(4)).await.unwrap();
    faults.always(Fault::Unreachable);
    locks.scope(build(4)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn readers_and_writers_stay() {
    let (locks, faults) = Locks::in_memory_with_faults();
    locks.scope(show()).await.unwrap();
    faults.always(Fault::Unreachable);
    for _ in 0..5 {
        locks.scope(show()).await.unwrap();
    }
    faults.heal();
    assert_eq!(idle(&locks, "page").await, 1);
    // The idle reader is in the way of this process's own writer. The lock was recalled, so it
    // stays again only after a pause.
    let mut last = locks.scope(change()).await.unwrap();
    sleep(Duration::from_millis(200)).await;
    last = locks.scope(change()).await.unwrap().max(last);
    faults.always(Fault::Unreachable);
    for _ in 0..5 {
        let fence = locks.scope(change()).await.unwrap();
        assert!(fence > last, "{fence} after {last}");
        last = fence;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_in_another_process_gets_the_idle_lock() {
    let store = Arc::new(MemoryStore::default());
    let (here, elsewhere) = (Locks::over(store.clone()), Locks::over(store));
    let first = here.scope(add(1)).await.unwrap();
    assert_eq!(idle(&here, "cart:1").await, 1);
    let skipped = elsewhere.scope(add_or_skip(1)).await.unwrap();
    assert_eq!(skipped, Some(1), "an idle lock is no reason to skip");
    assert!(here.scope(add(1)).await.unwrap() > first);
}

#[distributed_lock(key = "cart", linger = linger)]
async fn for_a_time(linger: Duration) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn a_time_out_of_range_is_refused() {
    let locks = Locks::in_memory();
    locks.scope(for_a_time(Duration::from_secs(60 * 60))).await.unwrap();
    let error = locks.scope(for_a_time(Duration::from_secs(60 * 60 + 1))).await.unwrap_err();
    assert!(matches!(error, LockError::InvalidOption { option: "linger", .. }), "{error}");
    assert!(error.to_string().contains("must be at most 1h"), "{error}");
}
