//! Several locks at once: faults on the way, the cost, and many processes whose sets overlap.

#[cfg(feature = "servers")]
mod cluster;
mod faults;
mod local_queue;
mod permits;
#[cfg(feature = "servers")]
mod processes;
mod rates;
#[cfg(feature = "servers")]
mod server;

use leasehold::Locks;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Checks that nobody holds or waits for one of the locks.
async fn are_free(locks: &Locks) {
    for name in NAMES {
        locks.mutex(name).try_lock().await.unwrap().release().await.unwrap();
    }
}
