//! Three clerks charge the same invoice at the same time, and it is charged once;
//! four pictures are drawn, two at a time.
//!
//! `cargo run --example quickstart` needs no server: it locks in memory. With
//! `REDIS_URL=redis://127.0.0.1/` set it locks on Redis; start it in two
//! terminals at once, and they wait for each other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::{LockError, Locks, distributed_lock};
use tokio::time::sleep;

/// Stands for the database.
static IS_PAID: AtomicBool = AtomicBool::new(false);

/// One at a time for each invoice, in all processes together: the attribute
/// acquires the lock, renews it while the body runs, and releases it after.
///
/// The lock only serialises the clerks. Each looks first whether another
/// has charged it already: that is why it is charged once.
#[distributed_lock(key = "invoice:{invoice}", ttl = "10s", wait = "30s")]
async fn charge(invoice: u64, clerk: &'static str) -> Result<(), LockError> {
    println!("  {clerk:<4}  has the lock of invoice {invoice}");
    sleep(Duration::from_millis(200)).await; // asks the database
    if IS_PAID.load(Ordering::Relaxed) {
        println!("  {clerk:<4}  sees that it is paid, and charges nothing");
        return Ok(());
    }
    sleep(Duration::from_millis(200)).await; // moves the money
    IS_PAID.store(true, Ordering::Relaxed);
    println!("  {clerk:<4}  has charged it");
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

    println!(
        "\nThree clerks charge invoice 42 at the same time. One has the lock, the others wait:"
    );
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
            println!(
                "  somebody else tries, and is refused: that lease has {retry_after:.1?} to go"
            );
        }
        other => println!("  somebody else tries, and gets {other:?}"),
    }
    lease.release().await?;
    let lease = locks.mutex("order:7").lock().await?;
    println!("  released, and held again; fencing token {}: it has grown", lease.fence()?);
    println!("  give the token to your database with each write, and let it refuse older ones");
    Ok(()) // dropping the lease releases it, too
}
