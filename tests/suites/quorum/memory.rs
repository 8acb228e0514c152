//! A quorum of memory stores on a clock that stands still, case by case.

mod asking;
mod clocks;
mod ending;
mod renewing;
mod writers;

use std::time::Duration;

use leasehold::store::Ask;
use leasehold::{Lease, LockInfo, LockKey, QuorumLocks};
use leasehold_tests::members::Members;

use super::LONG;

const SECOND: Duration = Duration::from_secs(1);

/// This many stores, which count at once after a restart.
fn members(count: usize) -> Members {
    Members::start(count, LONG, Duration::ZERO)
}

async fn shown(members: &Members, place: usize, name: &str) -> LockInfo {
    members.member(place).store().inspect(&LockKey::new(name).unwrap()).await.unwrap()
}

/// The number of stores that say that the lock is held.
async fn holding(members: &Members, name: &str) -> usize {
    let mut count = 0;
    for place in 0..members.iter().count() {
        count += usize::from(!shown(members, place, name).await.holders.is_empty());
    }
    count
}

/// A lease of this kind of lock.
async fn take(locks: &QuorumLocks, kind: &str) -> Lease {
    let (mutex, rw) = (locks.mutex("a").ttl(SECOND), locks.rw_lock("a").ttl(SECOND));
    let lease = match kind {
        "mutex" => mutex.lock().await,
        "read" => rw.read().await,
        _ => rw.write().await,
    };
    lease.unwrap()
}
