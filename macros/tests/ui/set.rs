//! Mistakes in `all(…)`.

use leasehold::{LockError, distributed_lock};

#[distributed_lock(all(lock(key = "a"), lock(key = "b", ttl = "1s")))]
async fn option_of_one(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(all("a", "b"))]
async fn names_alone(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(all(lock(key = "a:{id}"), lock(key = "b:{od}")))]
async fn wrong_placeholder(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(all(lock(key = "a"), lock(key = "b")), linger = "1s")]
async fn option_of_one_lock(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(all(lock(key = "a"), lock(key = "b")), lease = leases)]
async fn fence_of_which(id: u64) -> Result<(), LockError> {
    let _ = leases.fence()?;
    Ok(())
}

#[distributed_lock(all(lock(key = "a"), lock(key = "b")))]
async fn no_room() {}

fn main() {}
