use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", ttl = "30s", ttl = "10s")]
async fn report() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
