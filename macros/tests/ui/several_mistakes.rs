use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report:{}", ttl = "30", permits = 0)]
async fn report() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
