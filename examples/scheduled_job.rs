//! A job of each day, which every server tries, and which must succeed once.
//!
//! ```sh
//! export REDIS_URL=redis://127.0.0.1/
//! for n in 1 2 3; do cargo run --quiet --example scheduled_job now & done; wait
//! ```
//!
//! One of them draws the lottery. The others learn that it is being drawn, or was drawn today.
//! If the draw fails, the next server that tries draws. Without `now`, each tries every minute.

use std::time::Duration;

use leasehold::{LockError, Locks, distributed_lock};
use tokio::time::{interval, sleep};

#[distributed_lock(
    key = "lottery",
    once_per = "1day",
    ttl = "30s",
    if_held = "skip",
    lease = lease
)]
async fn draw() -> Result<Option<u32>, LockError> {
    if let Some(missed) = lease.tick().and_then(|tick| tick.missed).filter(|&missed| missed > 0) {
        eprintln!("{missed} days had no draw");
    }
    sleep(Duration::from_millis(50)).await; // the drum turns
    Ok(Some(std::process::id() % 49 + 1))
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    Locks::from_env().await?.install();
    let is_single = std::env::args().nth(1).is_some_and(|argument| argument == "now");
    // Shorter than the period: a server that finds the draw under way looks again soon.
    let mut every_minute = interval(Duration::from_secs(60));
    loop {
        every_minute.tick().await;
        match draw().await {
            Ok(Some(number)) => println!("drawn: {number}"),
            Ok(None) => println!("skipped: another process draws, or has drawn today"),
            Err(error) => eprintln!("the draw failed: {error}"),
        }
        if is_single {
            return Ok(());
        }
    }
}
