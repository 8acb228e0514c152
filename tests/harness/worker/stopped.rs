//! Work under a lease, in a process that a test stops and lets go on.

use std::time::{Duration, SystemTime};

use leasehold::Locks;
use leasehold_tests::waiting::work_for;
use tokio::io::AsyncReadExt;

use super::Failure;

/// Works under a mutex until it is lost. When the input has ended, prints whether the mutex is
/// held, how it was lost, whether the work ran after the process stood still for longer than the
/// TTL, and the answer to the release.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn run(url: &str, key: &str, ttl_ms: u64) -> Result<(), Failure> {
    let locks = Locks::connect(url).await?;
    let ttl = Duration::from_millis(ttl_ms);
    let lease = locks.mutex(key).ttl(ttl).lock().await?;
    println!("ready");
    let (mut polled, mut went_on) = (SystemTime::now(), false);
    let work = async {
        loop {
            // The work is ready as soon as the process goes on.
            work_for(Duration::from_millis(1)).await;
            went_on |= polled.elapsed().is_ok_and(|time| time > ttl);
            polled = SystemTime::now();
        }
    };
    let asked = async {
        let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
        println!("{}", if lease.is_held() { "held" } else { "lost" });
        println!("{:?}", lease.lost().await);
    };
    let (ran, ()): (Result<(), _>, ()) = tokio::join!(lease.run(work), asked);
    println!("{}", if went_on { "went on" } else { "stopped" });
    println!("{}", if ran.is_err() { "lost" } else { "done" });
    println!("{}", if lease.release().await.is_err() { "lost" } else { "released" });
    Ok(())
}
