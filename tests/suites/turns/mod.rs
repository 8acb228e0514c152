//! Hand-offs inside a process: a lease passes from task to task.

mod bound;
mod done;
mod handoffs;
mod random;
mod refused_handoffs;
#[cfg(feature = "servers")]
mod server;

use std::sync::Arc;
use std::time::Duration;

use leasehold::store::Store;
use leasehold::{Lease, LockError, Locks, Mutex};
use tokio::task::{JoinHandle, yield_now};

const TTL: Duration = Duration::from_secs(9);
const SECOND: Duration = Duration::from_secs(1);

/// The length of a turn.
const TURN: Duration = Duration::from_millis(20);

type Waiter = JoinHandle<Result<Lease, LockError>>;

/// The mutex of these tests.
fn mutex(locks: &Locks) -> Mutex {
    locks.mutex("m").ttl(TTL).wait(TTL * 100)
}

/// Another client of a store.
fn another(store: &Arc<impl Store>) -> Locks {
    Locks::over(store.clone())
}

/// Lets all tasks go as far as they can, while the clock stands still.
async fn settle() {
    for _ in 0..50 {
        yield_now().await;
    }
}

async fn waiter(mutex: Mutex) -> Waiter {
    let waiter = tokio::spawn(async move { mutex.lock().await });
    settle().await;
    waiter
}

/// A lease under which a turn has just begun. The first of `waiters` has it, and the others wait.
async fn in_turn<const N: usize>(locks: &Locks, waiters: [Mutex; N]) -> (Lease, [Waiter; N]) {
    let before = mutex(locks).lock().await.unwrap();
    let first = waiter(mutex(locks)).await;
    let mut others = Vec::new();
    for mutex in waiters {
        others.push(waiter(mutex).await);
    }
    before.release().await.unwrap();
    let lease = first.await.unwrap().unwrap();
    // Lets the first waiter confirm its offer.
    settle().await;
    (lease, others.try_into().unwrap())
}
