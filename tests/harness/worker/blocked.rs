//! A log that blocks the client's thread, so the client answers nobody.

use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leasehold::{LockError, Locks};
use tokio::time::timeout;

use super::Failure;

const WAIT: Duration = Duration::from_secs(1);

/// Longer than anything may take here.
const LONG: Duration = Duration::from_secs(60);

/// True if the log is to block; true while it blocks.
static LOG: (Mutex<(bool, bool)>, Condvar) = (Mutex::new((true, false)), Condvar::new());

fn log() -> MutexGuard<'static, (bool, bool)> {
    LOG.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Blocks the client's thread, and no other.
struct Blocking;

impl Write for Blocking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if std::thread::current().name() == Some("leasehold") {
            let mut log = log();
            log.1 = true;
            LOG.1.notify_all();
            drop(LOG.1.wait_while(log, |(blocks, _)| *blocks));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Prints the answer to each way to acquire while the client's thread is blocked, and after how
/// many milliseconds it came. Then checks that nothing stays held.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn acquire(url: &str) -> Result<(), Failure> {
    tracing_subscriber::fmt().with_writer(|| Blocking).init();
    let (locks, other) = (Locks::connect(url).await?, Locks::connect(url).await?);
    let ticket = locks.mutex("adopted").lock().await?.detach().await?;
    let forced = locks.mutex("forced").ttl(Duration::from_secs(1)).lock().await?;
    let _ = other.force_release("forced").await?;
    // The next renewal finds the loss, and logs it.
    drop(LOG.1.wait_while(log(), |(_, is_blocked)| !*is_blocked));

    let begun = Instant::now();
    let told = timeout(LONG, locks.mutex("a").wait(WAIT).lock()).await;
    say("lock", begun, told.map(|told| told.map(drop)));
    let begun = Instant::now();
    let told = timeout(LONG, locks.mutex("b").try_lock()).await;
    say("try_lock", begun, told.map(|told| told.map(drop)));
    let begun = Instant::now();
    let told = timeout(LONG, locks.semaphore("c", 2).wait(WAIT).acquire()).await;
    say("acquire", begun, told.map(|told| told.map(drop)));
    let begun = Instant::now();
    let told = timeout(LONG, locks.all(["d", "e"]).wait(WAIT).lock()).await;
    say("all", begun, told.map(|told| told.map(drop)));
    let begun = Instant::now();
    let told = timeout(LONG, locks.adopt(ticket)).await;
    say("adopt", begun, told.map(|told| told.map(drop)));

    log().0 = false;
    LOG.1.notify_all();
    for name in ["a", "b", "d", "e"] {
        other.mutex(name).wait(LONG).lock().await?.release().await?;
    }
    other.semaphore("c", 2).wait(LONG).acquire_many(2).await?.release().await?;
    locks.mutex("a").wait(LONG).lock().await?.release().await?;
    println!("free");
    drop(forced);
    Ok(())
}

fn say<E>(what: &str, begun: Instant, told: Result<Result<(), LockError>, E>) {
    let took = begun.elapsed().as_millis();
    match told {
        Ok(Err(error @ LockError::Store { .. })) => println!("{what} {took} {error}"),
        Ok(other) => println!("{what} {took} unexpected: {other:?}"),
        Err(_) => println!("{what} {took} hangs"),
    }
}
