use leasehold::{LockError, distributed_lock};

#[distributed_lock]
async fn bare() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(ttl = "30s")]
async fn with_ttl() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock("report")]
async fn with_a_nameless_key() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "")]
async fn with_an_empty_key() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
