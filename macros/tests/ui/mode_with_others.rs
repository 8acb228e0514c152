use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", mode = "read", permits = 4)]
async fn permits() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", weight = 2, mode = "write")]
async fn weight() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", mode = "write", hold_at_least = "5m")]
async fn hold_at_least() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
