use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", retries = 3)]
async fn report() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
