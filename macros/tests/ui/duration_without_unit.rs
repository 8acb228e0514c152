use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", ttl = "10")]
async fn text() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", wait = 10)]
async fn number() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", hold_at_least = 5m)]
async fn unquoted() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", wait = "10 apples")]
async fn another_unit() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", linger = 2)]
async fn lingers() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
