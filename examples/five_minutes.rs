//! The first program of the README, as it stands there.

use leasehold::{LockError, Locks, distributed_lock};

#[distributed_lock(key = "invoice:{invoice_id}", ttl = "10s")]
async fn charge(invoice_id: u64) -> Result<(), LockError> {
    println!("invoice {invoice_id} is locked"); // look whether it is paid; if not, charge it
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let locks = Locks::from_env_or_in_memory().await?; // on Redis if REDIS_URL is set
    locks.clone().install(); // the attributes use it from now on; clones are one client
    charge(42).await?;
    locks.shutdown().await; // frees what this process still holds
    Ok(())
}
