//! Several locks at once: faults on the way, the cost, and many processes whose sets overlap.

#[cfg(feature = "servers")]
mod cluster;
mod faults;
mod local_queue;
#[cfg(feature = "servers")]
mod processes;
mod rates;
#[cfg(feature = "servers")]
mod server;

use leasehold::{Lease, Locks, MultiLock, Wait};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// The members of a set.
#[derive(Clone, Copy, Debug)]
enum Of {
    Mutexes,
    /// A mutex beside a permit and a heavy one.
    Mixed,
}

impl Of {
    fn set(self, locks: &Locks) -> MultiLock {
        match self {
            Self::Mutexes => locks.all(NAMES),
            Self::Mixed => locks.all(["b"]).permit("a", 2).weighted_permit("c", 4, 3),
        }
    }

    /// Waits for all that there is of one of them.
    fn take(self, locks: &Locks, name: &'static str) -> impl Future<Output = Lease> + Send + use<> {
        let locks = locks.clone();
        async move {
            let limit = match (self, name) {
                (Self::Mutexes, _) | (Self::Mixed, "b") => {
                    return locks.mutex(name).wait(Wait::Forever).lock().await.unwrap();
                }
                (Self::Mixed, "a") => 2,
                (Self::Mixed, _) => 4,
            };
            let semaphore = locks.semaphore(name, limit).wait(Wait::Forever);
            semaphore.acquire_many(limit).await.unwrap()
        }
    }

    /// Checks that nobody holds or waits for one of them.
    async fn are_free(self, locks: &Locks) {
        let whole = match self {
            Self::Mutexes => locks.all(NAMES),
            Self::Mixed => locks.all(["b"]).weighted_permit("a", 2, 2).weighted_permit("c", 4, 4),
        };
        whole.try_lock().await.unwrap().release().await.unwrap();
    }
}

/// Checks that nobody holds or waits for one of the mutexes.
async fn are_free(locks: &Locks) {
    Of::Mutexes.are_free(locks).await;
}
