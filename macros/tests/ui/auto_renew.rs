use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", auto_renew = "false")]
async fn quoted() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", auto_renew = 1 + 1)]
async fn number() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", auto_renew = false, max_hold = "10m")]
async fn with_max_hold() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
