use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", wait = "forever")]
async fn wait() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", max_hold = "forever")]
async fn max_hold() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
