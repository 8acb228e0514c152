//! The life of leases: their longest time, their holders, their ends, and the client's shutdown.

mod closures;
mod election;
mod ending;
mod failures;
pub(crate) mod max_hold;
mod renewing;
mod tickets;

use std::time::Duration;

use leasehold::store::Store;
use leasehold::{Lease, LockError, Locks};

const TTL: Duration = Duration::from_secs(9);
const SECOND: Duration = Duration::from_secs(1);

/// One lease of each kind, with the same options.
async fn one_of_each(locks: &Locks, max_hold: Option<Duration>) -> Vec<Lease> {
    let (mutex, reentrant) = (locks.mutex("m"), locks.reentrant_mutex("e").owner("o"));
    let (semaphore, rw) = (locks.semaphore("s", 4), [locks.rw_lock("r"), locks.rw_lock("w")]);
    let [reads, writes] = rw.map(|lock| lock.ttl(TTL).max_hold(max_hold));
    let leases = [
        mutex.ttl(TTL).max_hold(max_hold).lock().await,
        reentrant.ttl(TTL).max_hold(max_hold).lock().await,
        semaphore.ttl(TTL).max_hold(max_hold).acquire_many(3).await,
        reads.read().await,
        writes.write().await,
    ];
    leases.into_iter().map(Result::unwrap).collect()
}

/// For each kind, true if another client can have it without waiting.
async fn are_free(locks: &Locks) -> [bool; 5] {
    let is_free = |tried: Result<Lease, LockError>| match tried {
        Ok(_) => true,
        Err(LockError::Busy { .. }) => false,
        Err(error) => panic!("{error}"),
    };
    [
        is_free(locks.mutex("m").try_lock().await),
        is_free(locks.reentrant_mutex("e").owner("another").try_lock().await),
        is_free(locks.semaphore("s", 4).try_acquire_many(2).await),
        is_free(locks.rw_lock("r").try_write().await),
        is_free(locks.rw_lock("w").try_write().await),
    ]
}

/// Another client of a store.
fn another(store: &std::sync::Arc<impl Store>) -> Locks {
    Locks::over(store.clone())
}
