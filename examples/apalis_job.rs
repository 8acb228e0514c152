//! A cron worker of apalis on several servers: each tick succeeds on one of them.
//!
//! ```sh
//! REDIS_URL=redis://127.0.0.1/ cargo run --example apalis_job
//! ```
//!
//! Start it twice. Every other second one of the two sends a report.

use std::io;
use std::time::{Duration, UNIX_EPOCH};

use apalis::prelude::WorkerBuilder;
use apalis_cron::{CronScheduler, Tick};
use leasehold::{LockError, Locks, distributed_lock};

/// Each odd second. The ticks of `once_per` begin at even ones, so clocks may differ by a second.
const EVERY_TWO_SECONDS: &str = "1/2 * * * * *";

/// Apalis names the time that this server's clock had; the lease names the tick of all servers.
#[distributed_lock(key = "report", once_per = "2s", wait = "1s", if_held = "skip", lease = lease)]
async fn report(_: Tick) -> Result<(), LockError> {
    let tick = lease.tick().expect("the lock has `once_per`");
    let began = tick.began.duration_since(UNIX_EPOCH).unwrap_or_default();
    println!("report {} is sent", began.as_secs());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Locks::from_env_or_in_memory().await?.install();
    let schedule: cron::Schedule = EVERY_TWO_SECONDS.parse()?;
    let worker = WorkerBuilder::new("reports").backend(CronScheduler::new(schedule)).build(report);
    let ten_seconds = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        Ok::<(), io::Error>(())
    };
    worker.run_until(ten_seconds).await?;
    Ok(())
}
