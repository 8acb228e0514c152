//! A job that every process starts at the same time, and that must run once.
//!
//! ```sh
//! export REDIS_URL=redis://127.0.0.1/
//! for n in 1 2 3; do cargo run --quiet --example scheduled_job & done; wait
//! ```
//!
//! One of them draws the lottery. The others learn that it is being drawn. So does a server
//! that comes a little late, when the draw is over: the lock is held for at least 10 seconds.
//! After that, the next draw may begin.

use std::time::Duration;

use leasehold::{LockError, Locks, distributed_lock};
use tokio::time::sleep;

#[distributed_lock(key = "lottery", ttl = "30s", if_held = "skip", hold_at_least = "10s")]
async fn draw() -> Result<Option<u32>, LockError> {
    sleep(Duration::from_millis(50)).await; // the drum turns
    Ok(Some(std::process::id() % 49 + 1))
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    Locks::from_env().await?.install();
    match draw().await? {
        Some(number) => println!("drawn: {number}"),
        None => println!("skipped: another process draws, or has just drawn"),
    }
    Ok(())
}
