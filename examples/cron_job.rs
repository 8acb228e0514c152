//! The jobs of a cron scheduler on several servers: each tick succeeds on one of them.
//!
//! ```sh
//! REDIS_URL=redis://127.0.0.1/ cargo run --example cron_job
//! ```
//!
//! Start it twice. Every other second one of the two sends a report. The key names the tick, so
//! any calendar will do: `once` lets each key succeed once.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::{LockError, Locks, distributed_lock};
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};

/// How often the job runs. `"0 30 4 * * Mon"` would be every Monday at 4:30 UTC.
const EVERY_TWO_SECONDS: &str = "1/2 * * * * *";

/// A server whose clock is a little late tries a tick that was done before, and skips it. So the
/// time of `once` is longer than any two clocks are apart, and than the server is down.
#[distributed_lock(key = "report:{tick}", once = "1h", wait = "1s", if_held = "skip")]
async fn report(tick: u64) -> Result<(), LockError> {
    println!("report {tick} is sent");
    Ok(())
}

/// The tick that is due: the two seconds that run now. For a calendar, take the date.
fn tick() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() / 2
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Locks::from_env_or_in_memory().await?.install();
    let scheduler = JobScheduler::new().await?;
    scheduler.add(job()?).await?;
    scheduler.start().await?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    Ok(())
}

fn job() -> Result<Job, JobSchedulerError> {
    Job::new_async(EVERY_TWO_SECONDS, |_, _| {
        Box::pin(async {
            if let Err(error) = report(tick()).await {
                eprintln!("a report failed; another server may send it: {error}");
            }
        })
    })
}
