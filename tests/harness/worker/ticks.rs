//! A scheduled job that succeeds, fails, panics and outlasts its tick.

use std::time::{Duration, SystemTime};

use leasehold::{Lease, LockError, Locks};
use leasehold_tests::server::connected;
use leasehold_tests::waiting::work_for;

use super::Failure;

/// How long a tick lasts.
const PERIOD: Duration = Duration::from_millis(250);

/// Runs the job until it is killed. The database has a hash for each end of a run, with the
/// tick as its field: `started`, `succeeded`, `failed`, `lost`.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn run(url: &str, database: &str) -> Result<(), Failure> {
    let locks = Locks::connect(url).await?;
    let mut redis = connected(database).await;
    let job = locks.mutex("job").ttl(Duration::from_millis(600)).once_per(PERIOD);
    let job = job.wait(Duration::from_secs(1));
    println!("ready");
    loop {
        let lease = match job.lock().await {
            Ok(lease) => lease,
            Err(LockError::Done { retry_after, .. }) => {
                work_for(retry_after).await;
                continue;
            }
            // Another runs it, or was killed while it did.
            Err(LockError::TimedOut { .. } | LockError::Store { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let began = lease.tick().ok_or("it has ticks")?.began;
        let tick = u64::try_from(began.duration_since(SystemTime::UNIX_EPOCH)?.as_millis())?;
        let mut note = async |end: &str| {
            redis::cmd("HINCRBY").arg(end).arg(tick).arg(1).exec_async(&mut redis).await
        };
        note("started").await?;
        note(work(lease).await).await?;
    }
}

/// How a run ends.
async fn work(lease: Lease) -> &'static str {
    let time = match fastrand::u32(..12) {
        0 => return lease.release().await.map_or("lost", |_| "failed"),
        1 => {
            let body = tokio::spawn(async move {
                let _lease = lease;
                panic!("on purpose");
            });
            return if body.await.is_err() { "failed" } else { "succeeded" };
        }
        2 => PERIOD + PERIOD / 4,
        _ => PERIOD / 10,
    };
    work_for(time).await;
    match lease.complete().await {
        Ok(()) => "succeeded",
        Err(LockError::Lost { .. }) => "lost",
        // The client goes on trying to complete it.
        Err(_) => "unknown",
    }
}
