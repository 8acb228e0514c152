//! Leases that stay with their process after the release.

use std::time::Duration;

use leasehold::{LockError, Locks, Released};
use tokio::io::AsyncReadExt;

use super::Failure;

/// Longer than any test waits. A lock that is free sooner was released.
const TTL: Duration = Duration::from_secs(30);

/// Releases a mutex that then lingers. When the input has ended, tries to lock it again and prints
/// whether it has it.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn stay(url: &str, key: &str, ttl_ms: u64) -> Result<(), Failure> {
    let locks = Locks::connect(url).await?;
    let ttl = Duration::from_millis(ttl_ms);
    let mutex = locks.mutex(key).ttl(ttl).linger(ttl * 10);
    loop {
        let lease = mutex.lock().await?;
        let before = lease.fence()?;
        // Until a connection for hints is open, nothing lingers.
        if lease.release().await? == Released::Lingers {
            println!("ready {}", before.get());
            break;
        }
    }
    let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
    match mutex.try_lock().await {
        Ok(lease) => println!("held {}", lease.fence()?.get()),
        Err(LockError::Busy { .. }) => println!("busy"),
        Err(error) => println!("{error}"),
    }
    Ok(())
}

/// Lets many leases linger, and ends.
#[tokio::main]
pub(super) async fn end(url: &str, count: usize, how: &str) -> Result<(), Failure> {
    let locks = Locks::connect(url).await?;
    let mut lingering = 0;
    for n in 0..count {
        let mutex = locks.mutex(format!("lingers:{n}")).ttl(TTL).linger(TTL);
        let released = mutex.lock().await?.release().await?;
        lingering += usize::from(released == Released::Lingers);
    }
    println!("ready {lingering}");
    match how {
        // The client is dropped here, on the main thread.
        "main" => {}
        // The client stays in a static.
        "static" => locks.install(),
        "exit" => std::process::exit(0),
        _ => return Err("how: main, static or exit".into()),
    }
    Ok(())
}
