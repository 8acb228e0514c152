use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "report", permits = 4, weight = 5)]
async fn report() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
