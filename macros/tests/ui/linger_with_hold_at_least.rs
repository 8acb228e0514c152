use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", linger = "2s", hold_at_least = "5m")]
async fn report() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
