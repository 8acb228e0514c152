//! Three customers pay the same invoice at the same time, and four pictures are
//! to be drawn two at a time.
//!
//! `cargo run --example quickstart` needs no server: it locks in memory. With
//! `REDIS_URL=redis://127.0.0.1/` set it locks on Redis; start it in two
//! terminals at once, and they wait for each other.

use std::time::Duration;

use leasehold::{LockError, Locks, distributed_lock};
use tokio::time::sleep;

/// One at a time for each invoice, on all servers together: the attribute
/// acquires the lock, renews it while the body runs, and releases it after.
#[distributed_lock(key = "invoice:{invoice}", ttl = "10s", wait = "30s")]
async fn charge(invoice: u64, customer: &'static str) -> Result<(), LockError> {
    println!("  {customer:<5}  has invoice {invoice} for herself, and charges it");
    sleep(Duration::from_millis(300)).await;
    println!("  {customer:<5}  is done");
    Ok(())
}

/// Two at a time.
#[distributed_lock(key = "pictures", permits = 2, ttl = "10s", wait = "30s")]
async fn draw(picture: u32) -> Result<(), LockError> {
    println!("  picture {picture}: begun");
    sleep(Duration::from_millis(200)).await;
    println!("  picture {picture}: drawn");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let locks = Locks::from_env_or_in_memory().await?;
    locks.install(); // the attributes use it from now on
    match std::env::var("REDIS_URL") {
        Ok(url) if !url.is_empty() => println!("Locking on the Redis server of REDIS_URL."),
        _ => println!("Locking in memory; set REDIS_URL to lock on a Redis server."),
    }

    println!("\nThree customers pay invoice 42 at the same time. One charges it, the others wait:");
    let (ada, bea, cleo) = tokio::join!(charge(42, "Ada"), charge(42, "Bea"), charge(42, "Cleo"));
    ada.and(bea).and(cleo)?;

    println!("\nFour pictures, two at a time:");
    let (a, b, c, d) = tokio::join!(draw(1), draw(2), draw(3), draw(4));
    a.and(b).and(c).and(d)?;

    println!("\nBy hand, with the lease in sight:");
    let lease = locks.mutex("order:7").ttl(Duration::from_secs(10)).lock().await?;
    println!("  order 7 is held; fencing token {}", lease.fence()?);
    match locks.mutex("order:7").try_lock().await {
        Err(LockError::Busy { retry_after, .. }) => {
            println!("  somebody else tries, and is told: free in {retry_after:.1?} at the latest");
        }
        other => println!("  somebody else tries, and gets {other:?}"),
    }
    lease.release().await?;
    let lease = locks.mutex("order:7").lock().await?;
    println!("  released, and held again; fencing token {}: it has grown", lease.fence()?);
    println!("  give the token to your database with each write, and let it refuse older ones");
    Ok(()) // dropping the lease releases it, too
}
