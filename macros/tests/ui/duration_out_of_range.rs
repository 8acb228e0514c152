use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", ttl = "10ms")]
async fn too_short() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", ttl = "25h")]
async fn too_long() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", hold_at_least = "2days")]
async fn held_too_long() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", max_hold = "50ms")]
async fn never_long_enough() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", max_hold = "31days")]
async fn held_for_too_long() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", linger = "2h")]
async fn lingers_for_too_long() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
