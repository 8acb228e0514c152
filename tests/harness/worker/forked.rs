//! A process that is forked while it holds a lock.

use std::pin::Pin;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt;
use leasehold::{Lease, LockError, Locks};
use leasehold_tests::waiting::{until, work_for};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::Failure;

/// Longer than anything may take here.
const LONG: Duration = Duration::from_secs(20);

const TTL: Duration = Duration::from_secs(2);

/// An acquisition that waits.
type Waiting = Pin<Box<dyn Future<Output = Result<Lease, LockError>>>>;

fn runtime() -> Result<Runtime, Failure> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// Forks. The child prints the answers of its parent's client, connects anew, and ends. The parent
/// prints the time of that, and the state of its lease.
pub(super) fn fork(url: &str) -> Result<(), Failure> {
    let parents = runtime()?;
    let (locks, leases, many, waiting) = parents.block_on(async {
        let (locks, other) = (Locks::connect(url).await?, Locks::connect(url).await?);
        let mut leases = Vec::new();
        for name in ["held", "also", "more"] {
            leases.push(locks.mutex(name).ttl(TTL).lock().await?);
        }
        // One that is in use without the server's knowledge, and one that is idle.
        let lingers = |name: &str| locks.mutex(name).ttl(TTL).linger(TTL * 10);
        for name in ["lingers", "idle"] {
            for _ in 0..2 {
                lingers(name).lock().await?.release().await?;
            }
        }
        leases.push(lingers("lingers").lock().await?);
        let permits = locks.semaphore("many", 1_000);
        let mut many = Vec::new();
        for _ in 0..1_000 {
            many.push(permits.acquire().await?);
        }
        // One that waits in the store's queue, and one that waits here.
        leases.push(other.mutex("theirs").ttl(TTL).lock().await?);
        let waiting = ["theirs", "held"].map(|name| {
            let lock = locks.mutex(name).wait(LONG);
            let mut waiting: Waiting = Box::pin(async move { lock.lock().await });
            assert!((&mut waiting).now_or_never().is_none(), "{name} is held");
            waiting
        });
        until("one waits in the store's queue", async || {
            locks.inspect("theirs").await.is_ok_and(|state| state.waiting > 0)
        })
        .await;
        Ok::<_, LockError>((locks, leases, many, waiting))
    })?;
    // Their releases are still pending at the fork.
    drop(many);
    let child = std::fs::read_link("/leasehold-test/fork")?;
    if child.as_os_str() == "0" {
        drop(waiting);
        let told = runtime()?.block_on(in_the_child(url, locks, leases));
        println!("child ends {}", now());
        return told;
    }
    let state = format!("/proc/{}/stat", child.display());
    drop(waiting);
    parents.block_on(async {
        let begun = Instant::now();
        while !std::fs::read_to_string(&state)?.contains(") Z ") {
            if begun.elapsed() > LONG * 2 {
                // It holds the pipe that the test reads to its end.
                Command::new("kill").arg("-KILL").arg(&child).status()?;
                return Err("the child does not end".into());
            }
            work_for(Duration::from_millis(5)).await;
        }
        println!("ended {}", now());
        // The parent renews it, whatever the child did.
        work_for(TTL).await;
        for lease in leases {
            println!("parent {} {}", lease.is_held(), lease.release().await.is_ok());
        }
        Ok(())
    })
}

async fn in_the_child(url: &str, locks: Locks, leases: Vec<Lease>) -> Result<(), Failure> {
    say("lock", locks.mutex("a").wait(LONG).lock()).await;
    say("waiting", locks.mutex("held").wait(LONG).lock()).await;
    say("try", locks.mutex("a").try_lock()).await;
    say("permit", locks.semaphore("many", 1_000).acquire()).await;
    say("all", locks.all(["a", "b"]).lock()).await;
    say("inspect", locks.inspect("a")).await;
    say("force", locks.force_release("held").into_future()).await;
    let diagnosis = locks.diagnose().await;
    for finding in &diagnosis.findings {
        println!("child {}: {}", finding.check, finding.found);
    }
    let [held, also, more, lingers, theirs] =
        <[Lease; 5]>::try_from(leases).expect("there are five");
    say("renew", held.renew()).await;
    say("release", also.release()).await;
    say("idle", locks.mutex("idle").ttl(TTL).linger(TTL * 10).lock()).await;
    say("release of a lease that lingers", lingers.release()).await;
    say("detach", more.detach()).await;
    say("release now", theirs.release_now()).await;
    match timeout(LONG, locks.shutdown()).await {
        Ok(report) => println!("child shutdown: {} {}", report.released, report.left),
        Err(_) => println!("child shutdown: hangs"),
    }
    let own = Locks::connect(url).await?;
    own.mutex("own").lock().await?.release().await?;
    println!("child connected");
    Ok(())
}

async fn say<T>(what: &str, asked: impl Future<Output = Result<T, LockError>>) {
    match timeout(LONG, asked).await {
        Ok(Ok(_)) => println!("child {what}: had"),
        Ok(Err(error)) => println!("child {what}: {error}"),
        Err(_) => println!("child {what}: hangs"),
    }
}

/// Milliseconds by the clock that parent and child share.
fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis())
}
