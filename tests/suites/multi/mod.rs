//! Several mutexes at once: what can go wrong on the way to them, what they cost, and
//! many processes that want some of the same.

#[cfg(feature = "servers")]
mod cluster;
mod faults;
mod local_queue;
#[cfg(feature = "servers")]
mod processes;
#[cfg(feature = "servers")]
mod server;

use leasehold::Locks;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// They can be had at once: nobody has one, nor waits for it.
async fn are_free(locks: &Locks) {
    for name in NAMES {
        locks.mutex(name).try_lock().await.unwrap().release().await.unwrap();
    }
}
