use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", permits = 4, weight = 0)]
async fn none() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "report", permits = 4, weight = "2")]
async fn text() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
