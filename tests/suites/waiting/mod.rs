//! Waiting on real servers: the order of service, its cost, and leftovers.

mod blocked;
mod bypass;
mod cost;
mod killed;
#[cfg(target_os = "linux")]
mod leaks;
mod local_queue;
mod next_tick;
mod no_hints;
mod order;

use std::time::Duration;

use leasehold::{Lease, Locks, Wait};
use leasehold_tests::backend::light_client;
use leasehold_tests::server::Server;
use leasehold_tests::waiting::until;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinHandle;

/// The time for which a waiter counts as alive without asking again.
const LIVE: Duration = Duration::from_secs(6);

/// The longest pause between two asks.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// The number of waiters in a lock's queue on the server.
async fn queued(redis: &mut MultiplexedConnection, name: &str) -> u64 {
    let queue = format!("leasehold:queue:{{{name}}}");
    redis::cmd("ZCARD").arg(queue).query_async(redis).await.expect("ZCARD")
}

/// Waits until this many are in the queue.
async fn until_queued(redis: &mut MultiplexedConnection, name: &str, count: u64) {
    until("so many are in the queue", async || queued(redis, name).await == count).await;
}

/// Waits for the mutex as a client of its own.
fn waiter(locks: Locks, name: &'static str) -> JoinHandle<Lease> {
    tokio::spawn(async move {
        locks.mutex(name).wait(Wait::Forever).lock().await.expect("it is served")
    })
}

async fn clients(server: &Server, count: usize) -> Vec<Locks> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(light_client(server).await);
    }
    clients
}
